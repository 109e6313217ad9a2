"""The members' agreed clock.

etcd has no call for the time, but every answer of its HTTP side carries a `Date` in whole seconds. One such answer
places a member's clock within a second; several, taken at different fractions of a second, narrow it down
(`Estimate`). The agreed time is the median of the members' clocks, so that one wrong clock of three is outvoted. A
member that does not answer is taken to be where it would be by its last answers, for some hours; where clocks remain in
two minds the earlier one counts, so that nothing is done before its time.

The result is the lower bound, so that no node acts before the members' clocks say so; it is behind by up to a second at
first. From then on the members are asked every tenth of a second until one is seen to tick, and then at the expected
moment of a tick, which halves the bounds each time: a second later it is behind by tenths, and soon by hundredths.

Members are asked at most every 30 s after that; in between the local monotonic clock carries on. The price: a stepped
clock is noticed up to 30 s late. Nothing's uniqueness rests on it.
A member that serves HTTP on another port only (`--listen-client-http-urls`) is not counted.
"""

import asyncio
import http.client
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from statistics import median_low

import msgspec

from rota.kit.time.clock import Clock
from rota.kit.time.instant import Instant
from rota.model.errors import Unavailable
from rota.store.etcd.endpoints import EtcdEndpoint
from rota.store.etcd.settings import EtcdSettings, EtcdTls

PERIOD = 30.0
"""Seconds between two rounds of asking."""

RESOLUTION = 1.0
"""Seconds between two ticks of a `Date`."""

FINE = 0.02
"""Seconds between bounds that are narrow enough."""

STEP = 0.1
"""Seconds between two rounds of asking while no tick was seen."""

ROUNDS = 16
"""The most rounds to narrow the bounds: with a slow connection to a member they never become narrow."""

HELD = 6 * 3600.0
"""Seconds for which the clock of a member that no longer answers still counts."""

DRIFT = 0.0005
"""How many seconds per second two clocks may drift apart: as fast as NTP turns one."""


class ClockReading(msgspec.Struct, frozen=True):
    """What a member's clock showed at some instant between `sent` and `received`."""

    shown: float
    sent: Instant
    received: Instant


class Estimate(msgspec.Struct, frozen=True):
    """The bounds of one member's wall clock minus our monotonic one, as of `instant`."""

    low: float
    high: float
    instant: Instant

    @property
    def width(self) -> float:
        """The distance between the bounds."""
        return self.high - self.low

    def until_telling(self, now: Instant) -> float:
        """Seconds until an answer narrows the bounds most: when the clock ticks, if it is in the middle of the
        bounds."""
        until_tick = -(now + (self.low + self.high) / 2) % RESOLUTION
        return until_tick if self.width <= 2 * STEP else min(until_tick, STEP)


def refine(estimate: Estimate | None, reading: ClockReading) -> Estimate:
    """The estimate with one more reading; a reading that contradicts it means a stepped clock, and starts it anew."""
    low, high = reading.shown - reading.received, reading.shown + RESOLUTION - reading.sent
    if estimate is not None:
        drifted = DRIFT * (reading.received - estimate.instant)
        narrow = max(low, estimate.low - drifted), min(high, estimate.high + drifted)
        if narrow[0] < narrow[1]:
            low, high = narrow
    return Estimate(low, high, reading.received)


Ask = Callable[[EtcdEndpoint], Awaitable[ClockReading]]
"""Asks one member; OSError if it does not answer."""

Sleep = Callable[[float], Awaitable[None]]


class AgreedClock:
    """The median of the members' clocks."""

    def __init__(
        self, store: str, members: Sequence[EtcdEndpoint], clock: Clock, ask: Ask, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._store, self._members, self._clock, self._ask, self._sleep = store, members, clock, ask, sleep
        self._asking = asyncio.Lock()
        self._estimates: dict[EtcdEndpoint, Estimate] = {}
        self._answered: list[Estimate] = []
        self._offset = 0.0
        self._good_until: Instant | None = None
        self._narrowing: asyncio.Task[None] | None = None

    async def now(self) -> datetime:
        """The agreed time; Unavailable if it is time to ask and no member answers."""
        if not self._is_good:  # otherwise no caller waits for a silent member while bounds are narrowed
            async with self._asking:
                if not self._is_good:
                    await self._agree()
                    self._narrow_down()
        return datetime.fromtimestamp(self._offset + self._clock.monotonic(), UTC)

    @property
    def _is_good(self) -> bool:
        return self._good_until is not None and self._clock.monotonic() < self._good_until

    async def close(self) -> None:
        """Stop asking."""
        if self._narrowing is not None:
            self._narrowing.cancel()
            await asyncio.wait([self._narrowing])

    async def _agree(self) -> None:
        """Ask all members; the median offset of those that answer, or did lately, counts until the next round."""
        readings = await asyncio.gather(*map(self._ask, self._members), return_exceptions=True)
        answered = {}
        for member, reading in zip(self._members, readings, strict=True):
            if isinstance(reading, ClockReading):
                answered[member] = refine(self._estimates.get(member), reading)
            elif not isinstance(reading, OSError):
                raise reading
        if not answered:
            raise Unavailable(
                f"store {self._store}: no member returned its time ({readings[0]}); is etcd running there?"
            )
        self._estimates |= answered
        self._answered = list(answered.values())
        now = self._clock.monotonic()
        self._offset = median_low(each.low for each in self._estimates.values() if now - each.instant < HELD)
        self._good_until = Instant(now + PERIOD)

    def _narrow_down(self) -> None:
        """Start narrowing the bounds, unless it is under way or done."""
        if self._widest().width > FINE and (self._narrowing is None or self._narrowing.done()):
            self._narrowing = asyncio.create_task(self._ask_for_ticks(), name="narrow the clock of etcd down")

    async def _ask_for_ticks(self) -> None:
        for _ in range(ROUNDS * len(self._members)):
            if (widest := self._widest()).width <= FINE:
                return
            await self._sleep(widest.until_telling(self._clock.monotonic()))
            async with self._asking:
                try:
                    await self._agree()
                except Unavailable:
                    return  # the next call of `now` raises the error

    def _widest(self) -> Estimate:
        return max(self._answered, key=lambda estimate: estimate.width)


def members_clock(settings: EtcdSettings, clock: Clock) -> AgreedClock:
    """The agreed clock of the members a URL names."""

    async def ask(member: EtcdEndpoint) -> ClockReading:
        try:
            async with asyncio.timeout(settings.timeout):
                return await asyncio.to_thread(_read, member, settings.tls, settings.timeout, clock)
        except TimeoutError:
            raise TimeoutError(f"{member}: no answer within {settings.timeout:g} s") from None

    return AgreedClock(settings.store, settings.endpoints, clock, ask)


def _read(member: EtcdEndpoint, tls: EtcdTls | None, timeout: float, clock: Clock) -> ClockReading:
    """One member's clock, by HTTP; OSError if it is not available. Blocks."""
    with closing(http.client.HTTPConnection(member.host, member.port)) as connection:
        connection.sock = _connected(member, tls, timeout)
        try:
            sent = clock.monotonic()
            connection.request("GET", "/version")
            answer = connection.getresponse()
            received = clock.monotonic()
            shown = parsedate_to_datetime(answer.getheader("Date", ""))
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"{member} does not speak HTTP as etcd does: {error}") from error
        return ClockReading(shown.timestamp(), sent, received)


def _connected(member: EtcdEndpoint, tls: EtcdTls | None, timeout: float) -> socket.socket:
    plain = socket.create_connection((member.host, member.port), timeout)
    if tls is None:
        return plain
    try:
        return tls.context.wrap_socket(plain, server_hostname=tls.server_name or member.host)
    except BaseException:
        plain.close()
        raise
