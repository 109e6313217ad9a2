"""A reader whose work is done by calls that block, in a thread of its own.

The adapter is a `Cursor`; here is what all such readers need around one: the event loop stays free, a cancelled `read`
loses nothing, and positions count what the caller was given, not what was fetched. One fetch is under way at a time, so
what is ahead of the caller is one fetch and whatever the cursor itself bounds.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Protocol, Self

from rota.kit.time import backoff
from rota.model.errors import Unavailable
from rota.sources.gaps import split
from rota.sources.port import Batch

FIRST_WAIT = timedelta(milliseconds=2)


class Cursor(Protocol):
    """What an adapter does in the thread; one call at a time."""

    def move(self, offsets: Mapping[int, int], dropped: Iterable[int]) -> None:
        """Read these partitions from these offsets, and those no more; the others go on."""

    def fetch(self, most: int) -> list[Batch]:
        """The next records, at most `most`; empty if none arrived within a moment.

        Vanished again and again until the partition is moved; Unavailable is an outage that may pass.
        """

    def close(self) -> None:
        """Let go."""


class ThreadedReader:
    """A reader around a cursor; `wait` is how long it lets a cursor rest at most when nothing comes."""

    def __init__(self, cursor: Cursor, name: str, wait: timedelta) -> None:
        self._cursor, self._wait = cursor, wait
        self._positions: dict[int, int] = {}
        self._trouble: str | None = None
        self._ready: list[Batch] = []
        """What was fetched and not given."""
        self._fetching: asyncio.Future[list[Batch]] | None = None
        self._thread = ThreadPoolExecutor(1, name)

    @classmethod
    async def opened(cls, cursor: Cursor, name: str, wait: timedelta, offsets: Mapping[int, int]) -> Self:
        """A reader of these partitions; closed again if they cannot be read."""
        reader = cls(cursor, name, wait)
        try:
            await reader.assign(offsets)
        except BaseException:
            await reader.close()
            raise
        return reader

    @property
    def positions(self) -> Mapping[int, int]:
        return self._positions

    @property
    def trouble(self) -> str | None:
        return self._trouble

    async def assign(self, offsets: Mapping[int, int]) -> None:
        await self._settle()
        moved = {number: offset for number, offset in offsets.items() if self._positions.get(number) != offset}
        dropped = self._positions.keys() - offsets.keys()
        self._ready = [batch for batch in self._ready if batch.partition not in moved.keys() | dropped]
        self._positions = dict(offsets)
        await self._do(partial(self._cursor.move, moved, dropped))

    async def read(self, most: int = 1000) -> list[Batch]:
        waits = self._waits()
        while not self._ready:
            try:
                self._ready = await self._fetch(most)
                self._trouble = None
            except Unavailable as error:
                self._trouble = str(error)
            if not self._ready:
                await asyncio.sleep(next(waits).total_seconds())
        given, self._ready = _share(self._ready, most)
        self._positions.update((batch.partition, batch.next) for batch in given)
        return given

    async def close(self) -> None:
        await self._settle()
        await self._do(self._cursor.close)
        self._thread.shutdown(wait=False)

    def _waits(self) -> Iterator[timedelta]:
        return backoff.delays(FIRST_WAIT, max(FIRST_WAIT, self._wait), lambda: 1.0)

    async def _fetch(self, most: int) -> list[Batch]:
        """Have the cursor fetch; if the caller is cancelled meanwhile, the next caller gets the result."""
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().run_in_executor(self._thread, self._cursor.fetch, most)
        await asyncio.wait([self._fetching])
        fetched, self._fetching = self._fetching, None
        return fetched.result()

    async def _settle(self) -> None:
        """Return when nothing is under way, with what came of it kept."""
        if self._fetching is not None:
            await asyncio.wait([self._fetching])
            if self._fetching.exception() is None:
                self._ready += self._fetching.result()
            self._fetching = None

    async def _do(self, call: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _share(batches: list[Batch], most: int) -> tuple[list[Batch], list[Batch]]:
    """The first records of these batches, at most `most`, and the rest."""
    given: list[Batch] = []
    for place, batch in enumerate(batches):
        if len(batch.records) > most:
            head, tail = split(batch, most)
            return [*given, *([head] if most else [])], [tail, *batches[place + 1 :]]
        given.append(batch)
        most -= len(batch.records)
    return given, []
