"""The budget of the doors: a caller that takes too much is told to wait, and nobody else is."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

import pytest

from rota.doors.guard import budget as budgets
from rota.doors.guard.account import Accounts
from rota.doors.guard.budget import HEAVY_WAITING, MOST_AT_ONCE, Busy, CallerBudget
from rota.doors.watches import MOST_OF_ONE, Watches
from tests.kit.waiting import eventually


def used_up() -> CallerBudget:
    """A budget where any work uses up the caller's account for an hour."""
    return CallerBudget(accounts=Accounts(burst=1e-9, rate=1e-9))


async def work() -> int:
    await asyncio.sleep(0)
    sum(range(100_000))
    return 7


async def crowd(until: asyncio.Event) -> None:
    """Make each turn of the loop a long one."""
    while not until.is_set():
        time.sleep(2 * budgets.CROWDED)  # noqa: ASYNC251
        await asyncio.sleep(0)


async def test_a_caller_that_used_up_its_share_of_a_crowded_loop_is_refused_and_others_are_not() -> None:
    budget, done = used_up(), asyncio.Event()
    async with budget.admit("ada"):
        assert await budget.timed("ada", work()) == 7
    crowding = asyncio.create_task(crowd(done))
    with pytest.raises(Busy, match="used up its share") as refused:
        async with budget.admit("ada"):
            pass
    assert refused.value.after > 1
    async with budget.admit("bob"):
        pass
    done.set()
    await crowding


async def test_a_caller_that_is_alone_may_use_all_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "CROWDED", 3600)
    budget = used_up()
    for _ in range(3):
        async with budget.admit("ada"):
            assert await budget.timed("ada", work()) == 7


async def test_one_caller_has_only_so_many_calls_under_way() -> None:
    budget = CallerBudget()
    async with AsyncExitStack() as calls:
        for _ in range(MOST_AT_ONCE):
            await calls.enter_async_context(budget.admit("ada"))
        with pytest.raises(Busy, match="under way"):
            async with budget.admit("ada"):
                pass
        async with budget.admit("bob"):
            pass
    async with budget.admit("ada"):
        pass


async def test_heavy_views_of_one_caller_run_one_at_a_time_and_those_of_another_beside() -> None:
    budget, running, most = CallerBudget(), 0, 0
    gate = asyncio.Event()

    async def view(who: str) -> None:
        nonlocal running, most
        async with budget.heavy(who):
            running += 1
            most = max(most, running)
            await gate.wait()
            running -= 1

    views = [asyncio.create_task(view("ada")) for _ in range(HEAVY_WAITING + 1)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="one at a time"):
        await view("ada")
    views.append(asyncio.create_task(view("bob")))
    await eventually(lambda: running == 2)
    gate.set()
    await asyncio.gather(*views)
    assert most == 2
    async with budget.heavy("ada"):
        pass


async def test_a_heavy_view_that_is_cancelled_while_it_waits_or_runs_leaves_its_place() -> None:
    budget = CallerBudget()

    async def view() -> None:
        async with budget.heavy("ada"):
            await asyncio.Event().wait()

    for _ in range(3):
        views = [asyncio.create_task(view()) for _ in range(HEAVY_WAITING + 1)]
        await asyncio.sleep(0)
        for each in views:
            each.cancel()
        await asyncio.wait(views)
    async with budget.heavy("ada"):
        pass


async def test_a_timed_call_is_cancelled_and_fails_as_without() -> None:
    budget, log = CallerBudget(), []

    async def fail() -> None:
        raise ValueError("no")

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def timed() -> None:
        await budget.timed("ada", wait())

    with pytest.raises(ValueError, match="no"):
        await budget.timed("ada", fail())
    waiting = asyncio.create_task(timed())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert log == ["cancelled"]


async def spin(seconds: float) -> None:
    """Many steps on the loop that take long together."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(10_000))
        await asyncio.sleep(0)


async def test_many_calls_share_a_turn_of_the_loop_and_leave_others_theirs() -> None:
    budget = CallerBudget()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def call(who: str) -> None:
        await budget.timed(who, spin(0.1))

    others = asyncio.create_task(other())
    began = time.thread_time()
    await asyncio.gather(*(call(f"caller {number}") for number in range(10)))
    spent = time.thread_time() - began
    others.cancel()
    await asyncio.wait([others])
    assert turns > spent / (4 * budgets.TURN)  # a turn had no more than a few times what all calls get


async def test_tasks_of_a_call_are_paced_and_charged_with_it() -> None:
    accounts = Accounts(burst=1e-9, rate=1e-9)
    budget = CallerBudget(accounts=accounts)

    async def call() -> int:
        return await asyncio.ensure_future(budgets.paced(work()))

    assert await budget.timed("ada", call()) == 7
    assert accounts.wait("ada", budgets.SYSTEM.monotonic()) > 0
    assert await budgets.paced(work()) == 7  # nobody's


async def test_a_call_that_waits_for_its_turn_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "TURN", 0.0)  # nobody ever has one
    budget, log = CallerBudget(), []

    async def begin() -> None:
        log.append("begun")

    async def call() -> None:
        await budget.timed("ada", begin())

    waiting = asyncio.create_task(call())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert not log


async def test_one_caller_does_not_take_all_the_watches_of_a_node() -> None:
    budget, watches, may_end = CallerBudget(), Watches(), asyncio.Event()
    opened: list[str] = []

    async def nothing() -> AsyncGenerator[int, None]:
        yield 0
        await asyncio.Event().wait()

    async def watch(who: str) -> None:
        async with aclosing(watches.each(nothing())) as items:
            await anext(items)
            opened.append(who)
            await may_end.wait()

    async def call(who: str) -> None:
        await budget.timed(who, watch(who))

    watching = [asyncio.create_task(call("ada")) for _ in range(MOST_OF_ONE)]
    await eventually(lambda: len(opened) == MOST_OF_ONE)
    with pytest.raises(Busy, match="watches with your token"):
        await asyncio.create_task(call("ada"))
    watching.append(asyncio.create_task(call("bob")))
    await eventually(lambda: "bob" in opened)
    may_end.set()
    await asyncio.gather(*watching)
    await asyncio.create_task(call("ada"))
