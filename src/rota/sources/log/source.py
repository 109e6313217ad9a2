"""The source on an embedded log: `log:///path/name` (`sources.log.settings` has the options).

Readers read the files themselves, in a thread, without a server. At the end of the log they poll, less often the longer
nothing arrives, up to `poll`. They read ahead at most one chunk of a segment.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NoReturn

from rota.kit.time.epoch import milliseconds
from rota.model.errors import NotFound, Unavailable
from rota.sources.log import layout, settings
from rota.sources.log import partition as reading
from rota.sources.log.layout import LogFolder
from rota.sources.log.partition import PartitionReader, RecordsLost
from rota.sources.log.settings import LogSettings
from rota.sources.port import Batch, Bounds, Vanished
from rota.sources.threaded import ThreadedReader
from rota.sources.url import SourceUrl


async def open(url: SourceUrl) -> "LogSource":
    """A source on the log that the URL names."""
    source = LogSource(settings.read(url))
    await source.partitions()
    return source


class LogSource:
    """A log that is read."""

    def __init__(self, settings: LogSettings) -> None:
        self._place, self._poll = LogFolder(settings.folder, settings.shown), settings.poll

    async def partitions(self) -> tuple[int, ...]:
        return tuple(range((await self._meta()).partitions))

    async def identity(self) -> str | None:
        return (await self._meta()).id

    async def bounds(self, partitions: Iterable[int]) -> dict[int, Bounds]:
        wanted = await self._known(partitions)
        return await asyncio.to_thread(self._bounds, wanted)

    async def offset_at(self, partition: int, when: datetime) -> int:
        await self._known([partition])
        return await asyncio.to_thread(self._offset_at, partition, milliseconds(when))

    async def reader(self, offsets: Mapping[int, int]) -> ThreadedReader:
        await self._known(offsets)
        return await ThreadedReader.opened(LogCursor(self._place), self._place.shown, self._poll, offsets)

    async def close(self) -> None:
        """Do nothing: no resources are held."""

    async def _known(self, partitions: Iterable[int]) -> list[int]:
        """These partitions; NotFound names one that is not there."""
        have, wanted = await self.partitions(), list(partitions)
        for number in wanted:
            if number not in have:
                shown = self._place.shown
                raise NotFound(f"source {shown} has no partition {number}; it has {len(have)}, counted from 0")
        return wanted

    async def _meta(self) -> layout.Meta:
        return await asyncio.to_thread(self._place.load)

    def _bounds(self, partitions: Iterable[int]) -> dict[int, Bounds]:
        try:
            meta = self._place.load()
            return {number: reading.bounds(self._place.partition(number, meta)) for number in partitions}
        except OSError as error:
            raise unusable(self._place, error) from error

    def _offset_at(self, partition: int, time_ms: int) -> int:
        try:
            return reading.offset_at(self._place.partition(partition, self._place.load()), time_ms)
        except OSError as error:
            raise unusable(self._place, error) from error


class LogCursor:
    """Some partitions of a log, looked at in turn."""

    def __init__(self, place: LogFolder) -> None:
        self._place = place
        self._readers: dict[int, PartitionReader] = {}

    def move(self, offsets: Mapping[int, int], dropped: Iterable[int]) -> None:
        for number in [*offsets, *dropped]:
            if number in self._readers:
                self._readers.pop(number).close()
        meta = self._place.load()
        for number, offset in offsets.items():
            self._readers[number] = PartitionReader(self._place.partition(number, meta), offset)

    def fetch(self, most: int) -> list[Batch]:
        found: list[Batch] = []
        try:
            for number, reader in list(self._readers.items()):
                if most and (records := reader.take(most)):
                    most -= len(records)
                    found.append(Batch(number, records, records[-1].offset + 1))
                    self._readers[number] = self._readers.pop(number)  # who had something comes last the next time
        except RecordsLost as lost:
            if not found:
                self._raise_vanished(number, lost)
        except OSError as error:
            if not found:
                raise unusable(self._place, error) from error
        return found

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _raise_vanished(self, number: int, lost: RecordsLost) -> NoReturn:
        whole = reading.bounds(self._place.partition(number, self._place.load()))
        raise Vanished(self._place.shown, number, lost.missing.gap, whole, lost.missing.why) from None


def unusable(place: LogFolder, error: OSError) -> Unavailable:
    """The error for files that cannot be read."""
    return Unavailable(f"source {place.shown}: {error.strerror}; make the folder readable")
