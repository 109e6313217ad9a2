"""What a stream task says of itself: its status in the store, under the lease of its node."""

from contextlib import suppress

from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Instant, LeaseId
from rota.store.port import Put, Store
from rota.streams.core.records import StreamTaskStatus
from rota.streams.task.assigned import SequenceLimits


class StatusTelling:
    """The status of one task, as the store has it."""

    def __init__(self, store: Store, clock: Clock, limits: SequenceLimits, lease: LeaseId | None) -> None:
        self._store, self._clock, self._limits, self._lease = store, clock, limits, lease
        self._told: tuple[StreamTaskStatus, Instant] | None = None
        """The status that is in the store, and since when."""

    async def tell(self, status: StreamTaskStatus) -> None:
        """Write a status, unless it is known."""
        now = self._clock.monotonic()
        if self._is_known(status, now):
            return
        self._told = None
        key = keys.stream_task(status.stream, status.group, status.slot, status.epoch)
        with suppress(Unavailable, Unknown):  # it is told again
            await self._store.commit(Put(key, codec.encode(status), self._lease))
            self._told = status, now

    def _is_known(self, status: StreamTaskStatus, now: Instant) -> bool:
        """Was it told a short while ago, but for the time?"""
        if self._told is None:
            return False
        told, since = self._told
        return now - since < self._limits.repeat.total_seconds() and replace(status, at=told.at) == told
