"""Appending to a log: its partitions, each locked when it is first appended to.

A record with a key goes to the partition that the key's CRC-32 names, as librdkafka shares keys out; records without
one go to the partitions in turn, a whole call to one. All calls block; an event loop makes them in a thread.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from zlib import crc32

from rota.kit.time.clock import SYSTEM, Clock
from rota.model.errors import NotFound, Unknown
from rota.sources.log import partition as reading
from rota.sources.log.layout import LogFolder, PartitionFolder
from rota.sources.log.settings import LogSettings
from rota.sources.log.writer import PartitionWriter
from rota.sources.port import Bounds, NewRecord

log = logging.getLogger(__name__)


class Appended(NamedTuple):
    """Where some records are now."""

    partition: int
    first: int
    size: int


class Described(NamedTuple):
    """What a partition has, and what it takes."""

    partition: int
    start: int
    end: int
    segments: int
    size: int


class Log:
    """A log that is appended to; a context manager. Several threads may use it."""

    def __init__(self, settings: LogSettings, clock: Clock = SYSTEM) -> None:
        self.place = LogFolder(Path(settings.folder), settings.shown)
        self.meta = self.place.load()
        self._fsync, self._clock = settings.fsync, clock
        self._writers: dict[int, PartitionWriter] = {}
        self._turn = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._syncing: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def torn(self) -> Mapping[int, int]:
        """Bytes that were cut off the ends of the partitions taken so far, because they were half written."""
        return {number: writer.torn for number, writer in self._writers.items() if writer.torn}

    def append(self, records: Sequence[NewRecord], partition: int | None = None) -> list[Appended]:
        """Append records; a partition's share of them is appended as a whole or not at all."""
        with self._lock:
            return [
                Appended(number, self._writer(number).append(share), len(share))
                for number, share in self._shared_out(records, partition).items()
            ]

    def truncate(self, partition: int, before: int) -> int:
        """Delete the records below an offset; returns the offset at which the partition starts now."""
        with self._lock:
            return self._writer(partition).truncate(before)

    def retain(self) -> int:
        """Delete what need not be kept, now; the number of segments."""
        with self._lock:
            return sum(self._writer(number).retain() for number in range(self.meta.partitions))

    def bounds(self) -> dict[int, Bounds]:
        """What each partition has."""
        return {partition.number: reading.bounds(partition) for partition in self._partitions()}

    def describe(self) -> list[Described]:
        """What each partition has, and what it takes on disk."""
        described = []
        for partition in self._partitions():
            whole, sizes = reading.bounds(partition), partition.sizes()
            described.append(Described(partition.number, whole.start, whole.end, len(sizes), sum(sizes)))
        return described

    def close(self) -> None:
        """Sync everything to disk, and release the locks."""
        self._over.set()
        if self._syncing is not None:
            self._syncing.join()
        with self._lock:
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()

    def _partitions(self) -> list[PartitionFolder]:
        return [self.place.partition(number, self.meta) for number in range(self.meta.partitions)]

    def _shared_out(self, records: Sequence[NewRecord], partition: int | None) -> Mapping[int, Sequence[NewRecord]]:
        if partition is not None:
            return {partition: records}
        shares: dict[int, list[NewRecord]] = {}
        keyless = self._turn
        for record in records:
            number = keyless if record.key is None else crc32(record.key) % self.meta.partitions
            shares.setdefault(number, []).append(record)
        self._turn = (self._turn + 1) % self.meta.partitions
        return shares

    def _writer(self, number: int) -> PartitionWriter:
        if not 0 <= number < self.meta.partitions:
            have = self.meta.partitions
            raise NotFound(f"source {self.place.shown} has no partition {number}; it has {have}, counted from 0")
        if number not in self._writers:
            partition = self.place.partition(number, self.meta)
            writer = PartitionWriter(partition, self.meta, self._fsync, self._clock, self.place.shown)
            self._writers[number] = writer
            if writer.torn:
                cut = {"log": self.place.shown, "partition": number, "bytes": writer.torn, "end": writer.end}
                log.warning("half written end cut off", extra=cut)
            self._begin_to_sync()
        return self._writers[number]

    def _begin_to_sync(self) -> None:
        if isinstance(self._fsync, timedelta) and self._syncing is None:
            self._syncing = threading.Thread(target=self._sync, args=[self._fsync], name="log sync", daemon=True)
            self._syncing.start()

    def _sync(self, period: timedelta) -> None:
        """What was appended last is on disk in time also when nothing follows it."""
        while not self._over.wait(period.total_seconds()):
            with self._lock:
                for writer in self._writers.values():
                    with suppress(Unknown):  # the writer accepts nothing more, and raises at the next append
                        writer.sync_if_due()
