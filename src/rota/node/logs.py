"""The logs of the attempts that run here: taken in as they come, written down each second, read by whoever follows.

What is not written down yet is in memory, and is lost with the node; that is at most what came in the last second or
two. While the place where logs are kept is out of reach it stays there, within the bound of each log; of attempts that
are over, within a bound for all of them, and the oldest are given up beyond that.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeAlias

from rota.kit.clock import SYSTEM, Clock
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.node.output import CHUNK, Bounded
from rota.store.logs.port import LogChunk, Logs

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two times of writing down."""

AT_ONCE = 1024 * 1024
"""Bytes that are written down in one go."""

HELD = 64 * 1024 * 1024
"""Bytes of logs of attempts that are over, which wait in memory for a place that is out of reach."""

EACH = 1024
"""Bytes that a log takes beside what is in it."""

LogKey: TypeAlias = tuple[str, int]
"""A run and the number of the attempt."""


class RunLog(Bounded):
    """The log of one attempt that runs here, or did a moment ago."""

    def __init__(self, key: LogKey, most: int) -> None:
        super().__init__(most)
        self.key = key
        self.changed = asyncio.Event()
        """Set, and another put in its place, whenever something comes."""

    def tell(self) -> None:
        """Wake those who follow."""
        self.changed.set()
        self.changed = asyncio.Event()


class RunLogs:
    """The logs of a node's attempts."""

    def __init__(self, most: int, clock: Clock = SYSTEM) -> None:
        self._most, self._clock = most, clock
        self._live: dict[LogKey, RunLog] = {}
        self.is_running: Callable[[LogKey], bool] = lambda key: False
        """Does an attempt run here? It may have said nothing yet."""

        self._kept: Logs | None = None
        self._writing = asyncio.Lock()

    def take(self, key: LogKey, data: bytes) -> None:
        """Take in what an attempt wrote."""
        found = self._log(key)
        found.feed(data)
        found.tell()

    def close(self, key: LogKey) -> int:
        """An attempt is over: how many bytes of its log are kept."""
        found = self._live.get(key)
        if found is None:
            return 0
        found.close()
        found.tell()
        return found.size

    async def keep(self, kept: Logs) -> None:
        """Write down what comes, for ever."""
        self._kept = kept
        try:
            while True:
                await asyncio.sleep(EVERY)
                if self._live:
                    await self.write_down()
        finally:
            self._kept = None

    async def write_down(self) -> None:
        """Write down all that has come; what cannot be written now stays for the next time."""
        kept = self._kept
        if kept is None:
            return
        async with self._writing:
            for chunks in _in_portions(self._unwritten()):
                try:
                    await kept.append(chunks)
                except (Unavailable, Unknown) as error:
                    log.warning("logs not written down yet", extra={"runs": len(self._live), "why": str(error)})
                    self._give_up_surplus()
                    return
                except RotaError as error:
                    log.error("logs given up", extra={"chunks": len(chunks), "why": str(error)})
                self._forget(chunks)

    async def follow(self, run: str, attempt: int, offset: int = 0) -> AsyncGenerator[bytes, None]:
        """The log from a place on, as it grows, to its end. Of an attempt that does not run here: what is kept."""
        if offset < 0:
            raise Invalid(f"offset is {offset}; it must be at least 0")
        key = (run, attempt)
        live = self._log(key) if self.is_running(key) else self._live.get(key)
        while live is not None:
            changed, is_closed, data = live.changed, live.is_closed, live.unwritten(offset)
            if data is None:
                data = await self._read(run, attempt, offset)
            if data:
                yield data[:CHUNK]
                offset += len(data[:CHUNK])
            elif is_closed:
                return
            else:
                await changed.wait()
        while data := await self._read(run, attempt, offset):
            yield data
            offset += len(data)

    def _log(self, key: LogKey) -> RunLog:
        found = self._live.get(key)
        if found is None:
            found = self._live[key] = RunLog(key, self._most)
        return found

    async def _read(self, run: str, attempt: int, offset: int) -> bytes:
        if self._kept is None:
            raise Unavailable("where logs are kept is out of reach; ask again")
        return await self._kept.read(run, attempt, offset)

    def _unwritten(self) -> Iterator[LogChunk]:
        for live in list(self._live.values()):
            live.glimpse(self._clock.monotonic())
            pieces = live.sealed()
            if live.is_closed and not pieces:  # all was written down before anybody knew that it was all
                pieces = [(live.size, b"")]
            for place, data in pieces:
                is_last = live.is_closed and place + len(data) == live.size
                yield LogChunk(*live.key, place, data, is_last)

    def _give_up_surplus(self) -> None:
        """An outage must not fill the memory: the oldest logs that are over go."""
        over = [live for live in self._live.values() if live.is_closed]
        held = sum(live.held + EACH for live in over)
        given_up = 0
        for live in over:
            if held <= HELD:
                break
            held -= live.held + EACH
            given_up += 1
            del self._live[live.key]
        if given_up:
            log.error("logs given up", extra={"runs": given_up, "why": "they wait for too long"})

    def _forget(self, chunks: Iterable[LogChunk]) -> None:
        """What is written down need not be held; nor need a log that is closed and whole."""
        for chunk in chunks:
            live = self._live.get((chunk.run, chunk.attempt))
            if live is None:
                continue
            live.written(chunk.offset + len(chunk.data))
            if live.is_closed and chunk.is_last:
                with suppress(KeyError):
                    del self._live[live.key]


def _in_portions(chunks: Iterable[LogChunk]) -> Iterator[list[LogChunk]]:
    portion: list[LogChunk] = []
    size = 0
    for chunk in chunks:
        if portion and size + len(chunk.data) > AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(chunk)
        size += len(chunk.data)
    if portion:
        yield portion
