"""Back-off: how long to wait before the next try.

`delays` is an endless iterator. Each delay is drawn from the upper half of a doubling step, so that a thousand callers
that failed together do not retry together, and none of them retries at once. The source of the jitter is handed in: the
simulator hands in its seeded one.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta


def delays(
    first: timedelta, most: timedelta, jitter: Callable[[], float], *, factor: float = 2.0
) -> Iterator[timedelta]:
    """Waits growing from `first` by `factor` up to `most`; `jitter` returns a number from 0 to 1."""
    if not timedelta() < first <= most:
        raise ValueError(f"back-off from {first} to {most}: it must start above zero and not above its most")
    step = first
    while True:
        yield step * (0.5 + 0.5 * jitter())
        step = min(step * factor, most)
