"""Calls that are made in the main thread, and waited for in another."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rota.runtime.worker.calls import Calls


def beside(story: Callable[[Calls], Awaitable[Any]]) -> Any:
    """What a story in a loop of its own thread comes to, while this thread serves."""
    calls, found = Calls(), []

    async def whole() -> None:
        found.append(await story(calls))

    def live() -> None:
        try:
            asyncio.run(whole())
        finally:
            calls.end()

    other = threading.Thread(target=live)
    other.start()
    calls.serve()
    other.join()
    return found[0]


def test_a_call_is_made_in_the_thread_that_serves_and_the_loop_turns_meanwhile() -> None:
    turned = threading.Event()

    def function() -> str:
        assert turned.wait(60)
        return threading.current_thread().name

    async def story(calls: Calls) -> Any:
        asyncio.get_running_loop().call_soon(turned.set)
        return await calls.make(function)

    assert beside(story) == threading.current_thread().name


@pytest.mark.parametrize(("raised", "seen"), [(ValueError("bad"), ValueError), (StopIteration(), RuntimeError)])
def test_what_a_call_raises_is_raised_where_it_was_asked_for(raised: Exception, seen: type[Exception]) -> None:
    def function() -> None:
        raise raised

    async def story(calls: Calls) -> bool:
        with pytest.raises(seen):
            await calls.make(function)
        return True

    assert beside(story)


def test_a_caller_that_is_cancelled_leaves_the_next_one_its_turn() -> None:
    may_end = threading.Event()

    def slow() -> None:
        assert may_end.wait(60)

    async def story(calls: Calls) -> Any:
        first, never = (asyncio.create_task(calls.make(slow)) for _ in range(2))
        await asyncio.sleep(0)
        for each in (first, never):
            each.cancel()
        await asyncio.gather(first, never, return_exceptions=True)
        may_end.set()
        return await calls.make(lambda: "mine")

    assert beside(story) == "mine"
