"""Computing beside the loop: answers and errors come back, and nobody waits for what is not wanted any more."""

import asyncio
import threading

import pytest

from rota.kit.aside import Offload, at_once, in_thread


@pytest.mark.parametrize("aside", [in_thread, at_once])
async def test_what_is_computed_comes_back_and_so_does_its_error(aside: Offload) -> None:
    assert await aside(lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        await aside(lambda: 1 // 0)


async def test_the_loop_goes_on_meanwhile() -> None:
    went_on = threading.Event()
    asyncio.get_running_loop().call_soon(went_on.set)
    assert await in_thread(lambda: went_on.wait(60))


async def test_a_caller_that_is_cancelled_does_not_wait() -> None:
    begun, is_over = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        is_over.wait(60)

    waiting = asyncio.create_task(in_thread(work))
    await in_thread(lambda: begun.wait(60))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    is_over.set()
