"""Clocks: the only place that reads time.

Whatever needs the time is handed a `Clock`, so that the simulator can hand it another one. Waiting goes through
asyncio, whose loop the simulator replaces too.
"""

import time
from datetime import UTC, datetime
from typing import Protocol

from rota.kit.time.instant import Instant


class Clock(Protocol):
    """What time it is, in both senses."""

    def monotonic(self) -> Instant:
        """Seconds that only ever grow; on one machine the same for every process."""

    def wall(self) -> datetime:
        """The time of day in UTC; it may be wrong and may step."""


# On Linux the clock that continues while the machine is suspended, because a lease does too.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """This machine's clocks."""

    def monotonic(self) -> Instant:
        return Instant(time.clock_gettime(_MONOTONIC))

    def wall(self) -> datetime:
        return datetime.now(UTC)


SYSTEM: Clock = SystemClock()
