"""The members' clock: whole seconds narrowed down, wrong clocks outvoted, silence told."""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.time.instant import Instant
from rota.model.errors import Unavailable
from rota.store.etcd.clock import FINE, PERIOD, ROUNDS, STEP, AgreedClock, ClockReading, Estimate, refine
from rota.store.etcd.endpoints import EtcdEndpoint
from tests.kit.waiting import eventually

A, B, C = (EtcdEndpoint(name, 2379) for name in "abc")
EPOCH = 1_800_000_000.0


class HandClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> Instant:
        return Instant(self.time)

    def wall(self) -> datetime:
        raise AssertionError("the store's clock is not this machine's")


class Members:
    """Members whose clocks are so many seconds ahead of the monotonic one; those not named do not answer."""

    def __init__(self, clock: HandClock, **ahead: float) -> None:
        self.clock, self.ahead = clock, ahead
        self.asked = 0

    async def ask(self, member: EtcdEndpoint) -> ClockReading:
        self.asked += 1
        if member.host not in self.ahead:
            raise OSError(f"{member} is out")
        return reading(self.ahead[member.host], self.clock.time)


def reading(ahead: float, at: float, *, trip: float = 0.0) -> ClockReading:
    """What a member shows to one who asks at `at` and hears `trip` later."""
    return ClockReading(math.floor(at + trip / 2 + ahead), Instant(at), Instant(at + trip))


@asynccontextmanager
async def agreed(members: Members) -> AsyncIterator[AgreedClock]:
    """A clock that has no time to ask at ticks."""
    clock = AgreedClock("etcd://a,b,c", (A, B, C), members.clock, members.ask, sleep=for_ever)
    yield clock
    await clock.close()


async def for_ever(_: float) -> None:
    await asyncio.Event().wait()


def test_one_reading_places_a_clock_within_a_second() -> None:
    estimate = refine(None, ClockReading(1000.0, Instant(5.0), Instant(5.25)))
    assert (estimate.low, estimate.high) == (994.75, 996.0)


def test_readings_at_other_fractions_narrow_it_down() -> None:
    estimate = None
    for number in range(100):
        estimate = refine(estimate, reading(EPOCH + 0.3, number * 1.01))
    assert estimate is not None
    assert estimate.width < 0.15
    assert estimate.low == pytest.approx(EPOCH + 0.3, abs=0.15)


@given(st.floats(0, 1), st.lists(st.tuples(st.floats(0, 60), st.floats(0, 2)), min_size=1, max_size=30))
def test_the_truth_stays_within_the_bounds(ahead: float, asks: list[tuple[float, float]]) -> None:
    at, estimate = 0.0, None
    for pause, trip in asks:
        at += pause
        estimate = refine(estimate, reading(1000 + ahead, at, trip=trip))
        at += trip
    assert estimate is not None
    assert estimate.low - 1e-6 <= 1000 + ahead <= estimate.high + 1e-6


def test_a_clock_that_drifts_does_not_start_anew() -> None:
    estimate, widths = None, []
    for number in range(200):
        at = number * PERIOD + random.Random(number).random()
        estimate = refine(estimate, reading(1000 + at * 0.0004, at))
        widths.append(estimate.high - estimate.low)
    assert max(widths[50:]) < 0.9


@pytest.mark.parametrize("step", [-3600.0, -2.5, 2.5, 3600.0])
def test_a_stepped_clock_starts_anew(step: float) -> None:
    before = refine(None, reading(1000.5, 0.0))
    after = refine(before, reading(1000.5 + step, 1.0))
    assert after == refine(None, reading(1000.5 + step, 1.0))


def test_a_clock_in_the_middle_of_its_bounds_ticks_when_its_second_is_over() -> None:
    estimate = Estimate(1000.45, 1000.55, Instant(0))
    assert estimate.until_telling(Instant(4.0)) == pytest.approx(0.5)
    assert estimate.until_telling(Instant(4.5)) == pytest.approx(0.0)


def test_no_tick_is_waited_for_while_little_is_known() -> None:
    assert Estimate(1000.1, 1000.9, Instant(0)).until_telling(Instant(4.0)) == STEP


@given(st.floats(0, 1), st.floats(0, 0.01))
def test_asking_at_ticks_narrows_it_down_in_seconds(ahead: float, trip: float) -> None:
    at, rounds, estimate = 0.0, 0, refine(None, reading(1000 + ahead, 0.0, trip=trip))
    while estimate.width > FINE + 2 * trip:
        at, rounds = at + trip + estimate.until_telling(Instant(at + trip)), rounds + 1
        estimate = refine(estimate, reading(1000 + ahead, at, trip=trip))
    assert at <= 6.5
    assert rounds <= ROUNDS


async def test_one_wrong_clock_of_three_is_outvoted() -> None:
    members = Members(HandClock(), a=EPOCH, b=EPOCH + 86_400, c=EPOCH)
    async with agreed(members) as clock:
        now = await clock.now()
    assert abs(now - datetime.fromtimestamp(EPOCH + 100, UTC)) <= timedelta(seconds=1)


@pytest.mark.parametrize("down", ["a", "ab"])
async def test_a_wrong_clock_is_outvoted_also_by_members_that_went_down_since(down: str) -> None:
    members = Members(HandClock(), a=EPOCH, b=EPOCH, c=EPOCH + 300)
    async with agreed(members) as clock:
        await clock.now()
        for member in down:
            del members.ahead[member]
        members.clock.time += PERIOD + 1
        assert abs((await clock.now()).timestamp() - EPOCH - members.clock.time) <= 1


async def test_of_two_clocks_that_differ_the_earlier_counts() -> None:
    async with agreed(Members(clock := HandClock(), b=EPOCH, c=EPOCH + 300)) as two:
        assert abs((await two.now()).timestamp() - EPOCH - clock.time) <= 1


async def test_members_that_do_not_answer_have_no_say() -> None:
    members = Members(HandClock(), b=EPOCH)
    async with agreed(members) as clock:
        now = await clock.now()
    assert abs(now - datetime.fromtimestamp(EPOCH + 100, UTC)) <= timedelta(seconds=1)


async def test_between_two_rounds_the_local_clock_carries_on() -> None:
    members = Members(HandClock(), a=EPOCH, b=EPOCH, c=EPOCH)
    async with agreed(members) as clock:
        first = await clock.now()
        members.clock.time += PERIOD - 1
        assert await clock.now() - first == timedelta(seconds=PERIOD - 1)
        assert members.asked == 3
        members.clock.time += 1
        await clock.now()
        assert members.asked == 6


async def test_those_who_ask_at_once_share_a_round() -> None:
    members = Members(HandClock(), a=EPOCH, b=EPOCH, c=EPOCH)
    async with agreed(members) as clock:
        await asyncio.gather(*(clock.now() for _ in range(5)))
    assert members.asked == 3


async def test_after_the_first_answer_it_asks_at_ticks_and_is_never_ahead() -> None:
    members = Members(HandClock(), a=EPOCH + 0.3)

    async def sleep(seconds: float) -> None:
        members.clock.time += seconds
        await asyncio.sleep(0)

    clock = AgreedClock("etcd://a", (A,), members.clock, members.ask, sleep=sleep)
    behind: list[timedelta] = []
    while not behind or behind[-1] > timedelta(seconds=FINE):
        told = await clock.now()
        behind.append(datetime.fromtimestamp(EPOCH + 0.3 + members.clock.time, UTC) - told)
        assert members.asked <= 1 + ROUNDS
        await asyncio.sleep(0)
    assert min(behind) >= timedelta(0)
    await clock.close()


async def test_nobody_waits_for_a_member_that_does_not_answer_while_it_asks_at_ticks() -> None:
    members, is_silent = Members(HandClock(), a=EPOCH), asyncio.Event()

    async def ask(member: EtcdEndpoint) -> ClockReading:
        if members.asked:
            is_silent.set()
            await asyncio.Event().wait()
        return await members.ask(member)

    clock = AgreedClock("etcd://a", (A,), members.clock, ask, sleep=lambda _: asyncio.sleep(0))
    first = await clock.now()
    await asyncio.wait_for(is_silent.wait(), 60)
    assert await asyncio.wait_for(clock.now(), 60) == first
    await clock.close()


async def test_members_that_fall_silent_while_it_asks_at_ticks_are_told_to_who_asks_next() -> None:
    members = Members(HandClock(), a=EPOCH)
    clock = AgreedClock("etcd://a", (A,), members.clock, members.ask, sleep=lambda _: asyncio.sleep(0))
    await clock.now()
    members.ahead.clear()
    await eventually(lambda: members.asked > 1)
    members.clock.time += PERIOD
    with pytest.raises(Unavailable, match="no member returned its time"):
        await clock.now()
    await clock.close()


async def test_when_nobody_answers_it_says_so_and_asks_again_next_time() -> None:
    members = Members(HandClock())
    async with agreed(members) as clock:
        with pytest.raises(Unavailable, match=r"etcd://a,b,c: no member returned its time \(a:2379 is out\)"):
            await clock.now()
        members.ahead = {"a": EPOCH}
        await clock.now()


async def test_a_fault_of_our_own_is_not_taken_for_silence() -> None:
    async def ask(_: EtcdEndpoint) -> ClockReading:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await AgreedClock("etcd://a", (A,), HandClock(), ask).now()
