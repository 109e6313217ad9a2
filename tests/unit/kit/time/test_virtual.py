"""The loop in virtual time, and what freezing means."""

import asyncio
import time

import pytest

from rota.kit.time import virtual
from rota.kit.time.virtual import CallbackGroup, Deadlock


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    started = time.monotonic()
    assert virtual.run(main()) == pytest.approx(3600)
    assert time.monotonic() - started < 60


def test_timeouts_and_task_groups_obey() -> None:
    async def main() -> None:
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(100))

    with pytest.raises(TimeoutError):
        virtual.run(main())


def test_waiting_for_nothing_is_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        virtual.run(asyncio.Event().wait())


def test_a_frozen_group_stands_still_and_goes_on() -> None:
    async def main() -> list[float]:
        loop, ticks, group = asyncio.get_running_loop(), list[float](), CallbackGroup("g")

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(loop.time())

        with group.enter():
            ticking = asyncio.create_task(tick())
        await asyncio.sleep(2.5)
        group.freeze()
        await asyncio.sleep(10)
        group.thaw()
        await asyncio.sleep(1.2)
        ticking.cancel()
        return ticks

    assert virtual.run(main()) == pytest.approx([1.0, 2.0, 12.5, 13.5])


def test_what_a_group_starts_belongs_to_it_too() -> None:
    async def main() -> list[str]:
        told, group = list[str](), CallbackGroup("g")

        async def parent() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(child())

        async def child() -> None:
            await asyncio.sleep(1)
            told.append("child")

        with group.enter():
            running = asyncio.create_task(parent())
        await asyncio.sleep(0.5)
        group.freeze()
        await asyncio.sleep(5)
        assert told == []
        group.thaw()
        await running
        return told

    assert virtual.run(main()) == ["child"]


def test_a_crashed_group_does_not_clean_up() -> None:
    async def main() -> list[str]:
        told, group = list[str](), CallbackGroup("g")

        async def careful() -> None:
            try:
                await asyncio.sleep(1)
            finally:
                told.append("cleaned up")

        with group.enter():
            running = asyncio.create_task(careful())
        await asyncio.sleep(0.5)
        group.freeze()
        running.cancel()
        await asyncio.sleep(100)
        seen = list(told)
        group.thaw()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    assert virtual.run(main()) == []


def test_an_answer_that_came_during_the_freeze_counts_although_the_time_is_up() -> None:
    """As in a process after SIGCONT: what is ready is handled before the overdue timer is heard."""

    async def main() -> str:
        group, answer = CallbackGroup("g"), asyncio.get_running_loop().create_future()

        async def ask() -> str:
            async with asyncio.timeout(2):
                return str(await answer)

        with group.enter():
            asking = asyncio.create_task(ask())
        await asyncio.sleep(1)
        group.freeze()
        answer.set_result("here")
        await asyncio.sleep(10)
        group.thaw()
        return await asking

    assert virtual.run(main()) == "here"


def test_what_another_thread_hands_over_is_run() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()
        loop.call_soon_threadsafe(done.set_result, "run")
        return await done

    assert virtual.run(main()) == "run"


def test_what_nobody_caught_is_told_to_the_handler() -> None:
    async def main() -> list[str]:
        loop, told = asyncio.get_running_loop(), list[str]()
        loop.set_exception_handler(lambda _, context: told.append(f"{context['message']}: {context['exception']!r}"))
        loop.call_later(1, int, "no number")
        await asyncio.sleep(2)
        return told

    (said,) = virtual.run(main())
    assert said.startswith("Exception in callback int('no number')")
    assert "ValueError" in said
