import asyncio

import pytest

from rota.kit import aio, virtual


class Failure(Exception):
    pass


def test_a_cancellation_that_a_failing_group_forgot_is_heeded() -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def fail() -> None:
            await go.wait()
            raise Failure

        async def stubborn() -> None:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(fail())
                    await asyncio.sleep(100)
            except* Failure:
                pass
            aio.heed_cancellation()
            await asyncio.sleep(1000)

        running = asyncio.create_task(stubborn())
        await asyncio.sleep(1)
        go.set()
        running.cancel()
        await running

    with pytest.raises(asyncio.CancelledError):
        virtual.run(main())


def test_a_task_nobody_cancelled_goes_on() -> None:
    async def main() -> str:
        aio.heed_cancellation()
        return "on"

    assert virtual.run(main()) == "on"
