"""The wheel with 100,000 keys armed: re-arms per second, the worst `advance` that has nothing to return, and the
cost of a key that is due.

Re-arming is measured twice. Steady is what a fleet does: tasks report in turn and each puts its deadline off by the
same span. Scattered is the worst that can come: random keys to random deadlines, where nearly every access misses
the processor's cache; it has no goal and is there to be known.

There is nothing bare to stand beside it, so the figures themselves are judged: short is a quarter below the goal, or
twice above it, as with the store. Seconds are of processor time, because somebody else's turn on the processor would
pass for a slow `advance`.
"""

import random
from collections.abc import Callable, Hashable, Sequence
from time import thread_time
from typing import TypeVar

from benchmarks import measure
from benchmarks.measure import Goal, Row
from rota.kit.instant import Instant
from rota.kit.wheel import Wheel

ARMED = 100_000
SPAN = 30.0
"""Seconds over which deadlines are spread, and over which time advances."""
TICK = 0.1
FAR = 2 * SPAN
"""Past everything that happens here."""

REARMS = Goal(at=2_000_000, short=1_500_000)
ADVANCE = Goal(at=1.0, short=2.0)

K = TypeVar("K", bound=Hashable)


def rows(rounds: int) -> list[Row]:
    """Every figure of the wheel."""
    numbers = list(range(ARMED))
    names = [f"resource/room-{number}/0" for number in numbers]
    figures: list[tuple[str, str, Goal | None, Callable[[], float]]] = [
        ("wheel: re-arm, steady, int keys", "/s", REARMS, lambda: rearms_per_second(numbers, steady)),
        ("wheel: re-arm, steady, str keys", "/s", REARMS, lambda: rearms_per_second(names, steady)),
        ("wheel: re-arm, scattered, int keys", "/s", None, lambda: rearms_per_second(numbers, scattered)),
        ("wheel: re-arm, scattered, str keys", "/s", None, lambda: rearms_per_second(names, scattered)),
        ("wheel: worst advance, nothing due", "ms", ADVANCE, lambda: worst_advance(spread(names, FAR))),
        ("wheel: worst advance, all moved to one slot", "ms", ADVANCE, lambda: worst_advance(gathered(names))),
        ("wheel: advance, per key due, all at once", "µs", None, lambda: due_microseconds(names)),
    ]
    return [measure.alone(name, unit, [figure() for _ in range(rounds)], goal) for name, unit, goal, figure in figures]


def steady(keys: Sequence[K], number: int) -> list[tuple[K, Instant]]:
    """Round `number` of reports: every key in turn, each put off by the span."""
    return [(key, Instant(number * SPAN + place * SPAN / ARMED)) for place, key in enumerate(keys)]


def scattered(keys: Sequence[K], number: int) -> list[tuple[K, Instant]]:
    """Every key in random order, each to a random deadline."""
    chance = random.Random(number)
    return [(key, Instant(chance.random() * SPAN)) for key in chance.sample(keys, ARMED)]


def spread(keys: Sequence[K], start: float) -> Wheel[K]:
    """A wheel with every key armed, spread evenly over the span from `start`."""
    wheel: Wheel[K] = Wheel(Instant(0.0), tick=TICK)
    for place, key in enumerate(keys):
        wheel.arm(key, Instant(start + place * SPAN / ARMED))
    return wheel


def gathered(keys: Sequence[K]) -> Wheel[K]:
    """A wheel with every key armed first in the coming span, then moved to one slot behind it."""
    wheel = spread(keys, 0.0)
    for key in keys:
        wheel.arm(key, Instant(FAR))
    return wheel


def rearms_per_second(keys: Sequence[K], moves_of: Callable[[Sequence[K], int], list[tuple[K, Instant]]]) -> float:
    """Moves of every key to another deadline, three times over."""
    wheel = spread(keys, 0.0)
    arm, seconds = wheel.arm, 0.0
    for number in (1, 2, 3):
        moves = moves_of(keys, number)
        before = thread_time()
        for key, due in moves:
            arm(key, due)
        seconds += thread_time() - before
    return 3 * ARMED / seconds


def worst_advance(wheel: Wheel[K]) -> float:
    """The longest `advance`, in milliseconds, while time passes tick by tick and nothing falls due."""
    worst = 0.0
    for tick in range(round(SPAN / TICK)):
        now = Instant((tick + 0.5) * TICK)
        before = thread_time()
        due = wheel.advance(now)
        worst = max(worst, thread_time() - before)
        assert not due
    return worst * 1000


def due_microseconds(keys: Sequence[K]) -> float:
    """What each key costs when all fall due in one `advance`."""
    wheel = spread(keys, 0.0)
    before = thread_time()
    due = wheel.advance(Instant(FAR))
    seconds = thread_time() - before
    assert len(due) == len(keys)
    return seconds / len(keys) * 1e6
