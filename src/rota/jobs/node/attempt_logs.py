"""The logs of the attempts that run here: taken in as they come, and written down each second.

What is not written down yet is in memory, and is lost with the node; that is at most what came in the last second or
two. While the place where logs are kept is out of reach it stays in memory, within the bound of each log. Logs of
attempts that are over share a bound; beyond it the oldest are dropped.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeAlias

from rota.jobs.logs.port import LogChunk, Logs
from rota.jobs.node.output import Bounded
from rota.kit.time.clock import SYSTEM, Clock
from rota.link.records import AttemptId, LogPiece
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two writes."""

AT_ONCE = 1024 * 1024
"""Bytes written in one call."""

HELD = 64 * 1024 * 1024
"""Bytes of logs of finished attempts that wait in memory while the place for logs is out of reach."""

EACH = 1024
"""Bytes of memory that a log takes besides its content."""

LogKey: TypeAlias = tuple[str, int]
"""A run and the number of the attempt."""


class RunLog(Bounded):
    """The log of an attempt that runs here, or has just ended."""

    def __init__(self, key: LogKey, most: int) -> None:
        super().__init__(most)
        self.key = key


class RunLogs:
    """The logs of a node's attempts."""

    def __init__(self, most: int, clock: Clock = SYSTEM) -> None:
        self._most, self._clock = most, clock
        self._live: dict[LogKey, RunLog] = {}
        self._kept: Logs | None = None
        self._writing = asyncio.Lock()

    def take(self, key: LogKey, data: bytes) -> None:
        """Take in what an attempt wrote."""
        found = self._live.get(key)
        if found is None:
            found = self._live[key] = RunLog(key, self._most)
        found.feed(data)

    def close(self, key: LogKey) -> int:
        """An attempt is over; returns how many bytes of its log are kept."""
        found = self._live.get(key)
        if found is None:
            return 0
        found.close()
        return found.size

    async def keep(self, kept: Logs) -> None:
        """Write the logs as they grow, until cancelled."""
        self._kept = kept
        try:
            while True:
                await asyncio.sleep(EVERY)
                if self._live:
                    await self.write_down()
        finally:
            self._kept = None

    async def write_down(self) -> None:
        """Write all that has come; what cannot be written now stays for the next call."""
        kept = self._kept
        if kept is None:
            return
        async with self._writing:
            portions = deque(_in_portions(self._unwritten()))
            while portions:
                chunks = portions.popleft()
                try:
                    await kept.append(chunks)
                except (Unavailable, Unknown) as error:
                    log.warning("logs not written down yet", extra={"runs": len(self._live), "why": str(error)})
                    self._give_up_surplus()
                    return
                except RotaError as error:
                    if isinstance(error, Invalid) and len(chunks) > 1:  # it may be one of them: write each alone
                        portions.extendleft([chunk] for chunk in reversed(chunks))
                        continue
                    runs = sorted({chunk.run for chunk in chunks})
                    more = {"more": len(runs) - 1} if len(runs) > 1 else {}
                    log.error("log given up", extra={"run": runs[0], **more, "why": str(error)})
                self._forget(chunks)

    def has(self, attempt: AttemptId) -> bool:
        """Is a part of a log in memory, or was it a moment ago?"""
        return (attempt.run, attempt.number) in self._live

    def unwritten(self, attempt: AttemptId, offset: int) -> LogPiece | None:
        """A piece of a log that is not written down yet; None if it is, or if there is no such log in memory."""
        live = self._live.get((attempt.run, attempt.number))
        data = live.unwritten(offset) if live is not None else None
        if live is None or data is None:
            return None
        return LogPiece(data, live.is_closed and offset + len(data) >= live.size)

    def _unwritten(self) -> Iterator[LogChunk]:
        for live in list(self._live.values()):
            live.glimpse(self._clock.monotonic())
            pieces = live.sealed()
            if live.is_closed and not pieces:  # all was written before the log was known to be complete
                pieces = [(live.size, b"")]
            for place, data in pieces:
                is_last = live.is_closed and place + len(data) == live.size
                yield LogChunk(*live.key, place, data, is_last)

    def _give_up_surplus(self) -> None:
        """Drop the oldest finished logs, so that an outage cannot fill the memory."""
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
        """Drop from memory what is written, and logs that are closed and whole."""
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
