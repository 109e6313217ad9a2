import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from rota.kit import aio
from rota.kit.time import virtual


class Failure(Exception):
    pass


async def handled(work: Coroutine[Any, Any, None]) -> str:
    """Goes on whatever fails."""
    try:
        await aio.apart(work)
    except* Failure:
        pass
    await asyncio.sleep(1000)
    return "went on"


async def failing(go: asyncio.Event) -> None:
    async def fail() -> None:
        await go.wait()
        raise Failure

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fail())
        await asyncio.sleep(100)


def test_a_cancellation_that_a_failing_group_forgets_is_heeded() -> None:
    async def main() -> None:
        go = asyncio.Event()
        running = asyncio.create_task(handled(failing(go)))
        await asyncio.sleep(1)
        go.set()
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        virtual.run(main())


def test_a_group_that_fails_while_it_waits_cancels_nobody_else() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise Failure

    async def waiting() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    async def main() -> str:
        told = await handled(waiting())
        me = asyncio.current_task()
        assert me is not None
        assert me.cancelling() == 0
        return told

    assert virtual.run(main()) == "went on"


def test_who_is_cancelled_cancels_the_work_and_waits_for_it() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append("work")

    async def main() -> None:
        running = asyncio.create_task(aio.apart(work()))
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    virtual.run(main())
    assert ended == ["work"]


def test_what_the_work_returns_is_returned() -> None:
    async def work() -> int:
        await asyncio.sleep(1)
        return 7

    assert virtual.run(aio.apart(work())) == 7
