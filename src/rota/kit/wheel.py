"""A timer wheel: one coarse tick serves every poll and every timeout.

`arm` sets when a key is due, and setting it again moves it; `every` makes a key due again and again; `disarm`
forgets it. `advance(now)` returns the keys that fell due since the last call. Keys are sorted into slots one tick
wide, so arming, moving and forgetting cost the same with ten keys or a million, and `advance` looks at nothing that
is not due. The price: a key may fall due one tick late, never early.

Slots live in a dict by tick rather than in a ring, so nothing cascades and no deadline is too far away.

Time arrives as an argument; nothing here reads a clock or calls anybody back.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Generic, TypeVar

from rota.kit.instant import Instant

K = TypeVar("K", bound=Hashable)


class Wheel(Generic[K]):
    """Keys and when they are due."""

    __slots__ = ("_open", "_per_second", "_periods", "_slot_of", "_slots")

    def __init__(self, start: Instant, *, tick: float = 0.1) -> None:
        if tick <= 0:
            raise ValueError(f"a tick of {tick} s; it must be above zero")
        self._per_second = 1.0 / tick
        self._open = int(start * self._per_second)  # the tick time is in now; those before it are over
        self._slots: defaultdict[int, dict[K, None]] = defaultdict(dict)
        self._slot_of: dict[K, dict[K, None]] = {}
        self._periods: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, key: K) -> bool:
        return key in self._slot_of

    def arm(self, key: K, due: Instant) -> None:
        """Make `key` due at `due`, instead of when it was due before."""
        # This runs for every report of every task, hence the flat code: a key knows its slot, not its tick, which
        # saves a look-up; a key that stays in its slot costs nothing more; and a call of max() would cost a third.
        tick = int(due * self._per_second)
        if tick < self._open:  # noqa: PLR1730
            tick = self._open
        slot = self._slots[tick]
        slot_of = self._slot_of
        before = slot_of.get(key)
        if before is slot:
            return
        if before is not None:
            del before[key]
        slot_of[key] = slot
        slot[key] = None

    def every(self, key: K, period: float, first: Instant) -> None:
        """Make `key` due at `first` and, each time `advance` returned it, again one `period` after that call."""
        if period <= 0:
            raise ValueError(f"every {period} s; a period must be above zero")
        self._periods[key] = period
        self.arm(key, first)

    def disarm(self, key: K) -> None:
        """Forget `key`; forgetting an unknown one is fine."""
        self._periods.pop(key, None)
        slot = self._slot_of.pop(key, None)
        if slot is not None:
            del slot[key]

    def advance(self, now: Instant) -> list[K]:
        """The keys due by `now`, earliest slot first, in the order they entered it."""
        tick = int(now * self._per_second)
        due: list[K] = []
        for over in self._ticks_before(tick):
            due.extend(self._slots.pop(over))
        self._open = max(self._open, tick)
        for key in due:
            del self._slot_of[key]
        if self._periods:
            self._repeat(due, now)
        return due

    def _ticks_before(self, tick: int) -> list[int]:
        """The slots before `tick`, by whichever is shorter: counting ticks or looking through the slots."""
        if tick - self._open <= len(self._slots):
            return [over for over in range(self._open, tick) if over in self._slots]
        return sorted(over for over in self._slots if over < tick)

    def _repeat(self, due: list[K], now: Instant) -> None:
        for key in due:
            if (period := self._periods.get(key)) is not None:
                self.arm(key, Instant(now + period))
