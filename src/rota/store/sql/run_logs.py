"""Run logs in the tables of a SQL store: the same database, the same connections, none of its revisions."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from rota.store.logs import rules
from rota.store.logs.port import CHUNK, LogChunk
from rota.store.sql.steps import Batch, Driver, Query, Row, Steps
from rota.store.sql.transactions import KeysParameter


class SqlLogs:
    """Logs beside the store of a driver. Closing them leaves the driver to the store."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        rules.check(chunks)
        if chunks:
            await self._driver.write(partial(_append, [_row(chunk) for chunk in chunks]))

    async def read(self, run: str, attempt: int, offset: int = 0) -> bytes:
        return await self._driver.read(partial(_read, run, attempt, offset), alone=True)

    async def is_whole(self, run: str, attempt: int) -> bool:
        return await self._driver.read(partial(_is_whole, run, attempt), alone=True)

    async def forget(self, runs: Sequence[str]) -> None:
        if runs:
            await self._driver.write(partial(_forget, runs, self._driver.keys_parameter))

    async def older(self, than: datetime, limit: int) -> list[str]:
        return await self._driver.read(partial(_older, _milliseconds(than), limit), alone=True)

    async def close(self) -> None:
        """The driver is the store's."""


def _row(chunk: LogChunk) -> Row:
    return (chunk.run, chunk.attempt, chunk.offset, _milliseconds(chunk.at), int(chunk.is_last), chunk.data)


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _append(rows: Sequence[Row]) -> Steps[None]:
    yield Batch("keep_output", rows)


def _read(run: str, attempt: int, offset: int) -> Steps[bytes]:
    """From the one chunk that may begin before `offset` on; chunks that fit on to each other, up to one's size."""
    rows = yield Query("output", (run, attempt, offset - CHUNK, offset + CHUNK))
    found = b""
    for place, data in rows:
        start = offset + len(found) - place
        if 0 <= start < len(data):
            found += data[start:]
    return found[:CHUNK]


def _is_whole(run: str, attempt: int) -> Steps[bool]:
    return bool((yield Query("output_is_whole", (run, attempt))))


def _forget(runs: Sequence[str], keys_parameter: KeysParameter) -> Steps[None]:
    yield Query("forget_output", (keys_parameter(list(runs)),))


def _older(than_ms: int, limit: int) -> Steps[list[str]]:
    rows = yield Query("old_output", (than_ms, limit))
    return [run for run, _ in rows]
