"""Run logs in the tables of a SQL store: the same database, the same connections, none of its revisions.

Forgetting takes a few rows at a time, and rests in between for as long as that took. One large DELETE would hold
SQLite's only write lock until leases end, and run into the time-out of a server, which then takes all of it back.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from rota.jobs.logs import rules
from rota.jobs.logs.port import CHUNK, LogChunk
from rota.store.sql.steps import Driver, Row, SqlBatch, SqlQuery, Steps
from rota.store.sql.transactions import KeysParameter

FEWEST, MOST = 4, 1024
"""Rows that one transaction deletes, at least and at most; each has up to 64 KiB."""

SHORT, LONG = 0.02, 0.1
"""Seconds: a portion that takes less is followed by a larger one, one that takes longer by a smaller one."""


MEASURED = 100
"""Runs whose output is measured by one query; all at once may exceed the time limit of queries."""


class SqlLogs:
    """Logs beside the store of a driver. Closing them leaves the driver to the store."""

    is_shared = True

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        rules.check(chunks)
        if chunks:
            await self._driver.write(partial(_append, chunks))

    async def read(self, run: str, attempt: int, offset: int = 0) -> bytes:
        return await self._driver.read(partial(_read, run, attempt, offset), alone=True)

    async def is_whole(self, run: str, attempt: int) -> bool:
        return await self._driver.read(partial(_is_whole, run, attempt), alone=True)

    async def forget(self, runs: Sequence[str]) -> None:
        rows, is_left, clock = FEWEST, bool(runs), asyncio.get_running_loop().time
        while is_left:
            began = clock()
            is_left = await self._driver.write(partial(_forget, runs, rows, self._driver.keys_parameter))
            took = clock() - began
            rows = next_portion(rows, took)
            await asyncio.sleep(max(SHORT, took) if is_left else 0.0)

    async def older(self, age: timedelta, limit: int) -> list[str]:
        return await self._driver.read(partial(_older, age, limit), alone=True)

    async def held(self, run: str | None = None) -> int:
        if run is not None:
            return await self._driver.read(partial(_size, run), alone=True)
        held, after = 0, ""
        while sizes := await self._driver.read(partial(_sizes, after), alone=True):
            held += sum(size for _, size in sizes)
            after = sizes[-1][0]
        return held

    async def close(self) -> None:
        """Nothing to close: the driver is the store's."""


def next_portion(rows: int, took: float) -> int:
    """How many rows to delete in the next transaction after `rows` took `took` seconds."""
    if took < SHORT:
        return min(MOST, 2 * rows)
    return max(FEWEST, rows // 2) if took > LONG else rows


def _row(chunk: LogChunk, at_ms: int) -> Row:
    return (chunk.run, chunk.attempt, chunk.offset, at_ms, int(chunk.is_last), chunk.data)


def _append(chunks: Sequence[LogChunk]) -> Steps[None]:
    """Keep chunks with the database's time: their age is measured by that clock, because nodes' clocks may be wrong."""
    ((now_ms,),) = yield SqlQuery("now")
    yield SqlBatch("keep_output", [_row(chunk, int(now_ms)) for chunk in chunks])


def _read(run: str, attempt: int, offset: int) -> Steps[bytes]:
    """Reads from the one chunk that may begin before `offset` on, up to one chunk's size; a filler is in each gap."""
    rows = yield SqlQuery("output", (run, attempt, offset - CHUNK, offset + CHUNK))
    found = b""
    for place, data in rows:
        if place > offset + len(found):
            found += yield from _hole(run, attempt, offset + len(found), place)
        start = offset + len(found) - place
        if start < 0:
            return found
        if start < len(data):
            found += data[start:]
    if len(found) < CHUNK:
        ((following,),) = yield SqlQuery("output_behind", (run, attempt, offset + CHUNK))
        if following is not None:
            found += yield from _hole(run, attempt, offset + len(found), following)
    return found[:CHUNK]


def _hole(run: str, attempt: int, begin: int, end: int) -> Steps[bytes]:
    """What stands between two places where there is nothing, since it was given up; empty if it has come meanwhile."""
    rows = yield SqlQuery("output_before", (run, attempt, begin))
    first = int(rows[0][0]) if rows else 0
    return rules.filler(end - first)[begin - first :] if first <= begin else b""


def _is_whole(run: str, attempt: int) -> Steps[bool]:
    return bool((yield SqlQuery("output_is_whole", (run, attempt))))


def _forget(runs: Sequence[str], rows: int, keys_parameter: KeysParameter) -> Steps[bool]:
    """Delete some rows; returns whether there are more."""
    those = keys_parameter(list(runs))
    yield SqlQuery("forget_output", (those, rows))
    return bool((yield SqlQuery("output_is_there", (those,))))


def _size(run: str) -> Steps[int]:
    ((size,),) = yield SqlQuery("output_size", (run,))
    return int(size)


def _sizes(after: str) -> Steps[list[tuple[str, int]]]:
    """The next runs after `after`, and the bytes of their output."""
    return [(run, int(size)) for run, size in (yield SqlQuery("output_sizes", (after, MEASURED)))]


def _older(age: timedelta, limit: int) -> Steps[list[str]]:
    ((now_ms,),) = yield SqlQuery("now")
    rows = yield SqlQuery("old_output", (int(now_ms) - age // timedelta(milliseconds=1), limit))
    return [run for run, _ in rows]
