"""Measuring side by side: rounds, ratios and verdicts.

A side is opened afresh in each round and runs its operations in turns with the other sides, so that a noisy minute
of the machine hits them alike. What counts is the ratio within a round, and of those the median. Sides alternate in
who goes first. Each side's first turn warms it up and is not counted.

Nothing here reads a clock: a turn returns the seconds that each of its operations took.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from statistics import median

from rota.kit.record import replace

Samples = list[float]
Turn = Callable[[], Awaitable[Samples]]
Side = Callable[[], AbstractAsyncContextManager[Turn]]
Figure = Callable[[Samples], float]


@dataclass(frozen=True)
class Goal:
    """Where the goal lies, and past which figure we fall short; which of the two is greater says what is better."""

    at: float
    short: float

    def verdict(self, figure: float) -> str:
        """`goal`, `ok` or `short`."""
        sign = 1 if self.at > self.short else -1
        if sign * figure >= sign * self.at:
            return "goal"
        return "ok" if sign * figure >= sign * self.short else "short"

    def __str__(self) -> str:
        return f"{'≥' if self.at > self.short else '≤'} {self.at:,}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    unit: str
    ours: float
    against: str = ""
    """What the bare figure is of; empty where there is no bare driver, and then `ours` itself is judged."""
    bare: float | None = None
    ratio: float | None = None
    low: float
    high: float
    """The range over the rounds: of the ratio, or of `ours` where there is no ratio."""
    goal: str = ""
    verdict: str = ""
    part: str = ""
    """What of the suite it belongs to."""


async def play(sides: Mapping[str, Side], rounds: int, turns: int) -> list[Mapping[str, Samples]]:
    """Each round's samples of each side."""
    return [await _round(sides, turns, backwards=bool(number % 2)) for number in range(rounds)]


async def _round(sides: Mapping[str, Side], turns: int, *, backwards: bool) -> Mapping[str, Samples]:
    samples: dict[str, Samples] = {name: [] for name in sides}
    order = list(sides)[:: -1 if backwards else 1]
    async with AsyncExitStack() as stack:
        ready = {name: await stack.enter_async_context(sides[name]()) for name in order}
        for turn in ready.values():
            await turn()
        for _ in range(turns):
            for name, turn in ready.items():
                samples[name] += await turn()
    return samples


def compare(
    name: str, unit: str, against: str, bare: Sequence[float], ours: Sequence[float], goal: Goal | None = None
) -> Row:
    """The row for two sides, from each one's figure in each round."""
    ratios = [our / their for our, their in zip(ours, bare, strict=True)]
    ratio = median(ratios)
    row = Row(
        name=name,
        unit=unit,
        against=against,
        bare=median(bare),
        ours=median(ours),
        ratio=ratio,
        low=min(ratios),
        high=max(ratios),
    )
    return row if goal is None else replace(row, goal=f"{goal}×", verdict=goal.verdict(ratio))


def alone(name: str, unit: str, ours: Sequence[float], goal: Goal | None = None) -> Row:
    """The row for a figure that has nothing bare beside it."""
    figure = median(ours)
    row = Row(name=name, unit=unit, ours=figure, low=min(ours), high=max(ours))
    return row if goal is None else replace(row, goal=f"{goal} {unit}", verdict=goal.verdict(figure))


def rate(samples: Samples) -> float:
    """Operations per second."""
    return len(samples) / sum(samples)


def milliseconds(samples: Samples) -> float:
    """The mean."""
    return sum(samples) / len(samples) * 1000


def percentile(percent: int) -> Figure:
    """A figure: that percentile of the samples, in milliseconds."""

    def figure(samples: Samples) -> float:
        index = min(len(samples) - 1, len(samples) * percent // 100)
        return sorted(samples)[index] * 1000

    return figure
