"""Rows into a table, and offsets into another, in one transaction.

The table is the user's: its rows come from the stream's transform, field by column. The offsets stand beside it, in
`rota_stream_offsets`. A publish locks the offsets of its partitions, judges them, inserts the rows and moves the
offsets. What differs between databases is behind `Database`.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, cast

import msgspec

from rota.committers.catalogue import moved
from rota.committers.memory import as_dicts
from rota.committers.port import Draft, Rows, Swept
from rota.committers.verdict import Turn, Verdict, judge
from rota.model.errors import Invalid, NotFound
from rota.model.manifest import Manifest, Offsets, Range
from rota.model.url import Options, Url

OFFSETS = "rota_stream_offsets"
CREATE_OFFSETS = f"""CREATE TABLE IF NOT EXISTS {OFFSETS} (
    stream VARCHAR(200) NOT NULL, part INTEGER NOT NULL, next_offset BIGINT NOT NULL, PRIMARY KEY (stream, part))"""
CELL = 48
"""Bytes that a value takes in memory, roughly, beside its own length."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")


class Work(Protocol):
    """One transaction. Parameters are written `?`."""

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a query finds."""

    async def execute(self, query: str, *parameters: object) -> None:
        """Change something."""

    async def insert(self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows, as fast as this database can; Invalid if a value does not fit its column."""


class Database(Protocol):
    """A database with transactions."""

    for_update: str
    """What locks the rows that a query finds."""

    insert_new: str
    """How an INSERT begins and ends that leaves rows alone which are there, with `{}` between."""

    quote: str
    """What stands around names."""

    def work(self) -> AbstractAsyncContextManager[Work]:
        """A transaction, committed at the end unless something was raised.

        Unknown if the commit's outcome is not known, Unavailable if nothing was changed.
        """

    async def columns(self, table: str) -> list[str]:
        """The columns of a table; none if there is no such table."""

    async def close(self) -> None:
        """Let go of connections."""


class TableDraft:
    """Rows in memory: a stream publishes before they are too many (`checkpoint_rows`, `checkpoint_bytes`)."""

    def __init__(self, table: str, known: Sequence[str]) -> None:
        self._table, self._known = table, frozenset(known)
        self.columns: dict[str, None] = {}
        self.content: list[dict[str, Any]] = []
        self._bytes = 0

    @property
    def rows(self) -> int:
        return len(self.content)

    @property
    def bytes(self) -> int:
        return self._bytes

    def append(self, rows: Rows) -> None:
        taken = [{name: _plain(value) for name, value in row.items()} for row in as_dicts(rows)]
        columns = dict.fromkeys(name for row in taken for name in row)
        if unknown := next((name for name in columns if name not in self._known), None):
            raise Invalid(
                f'table {self._table} has no column "{unknown}"; add it, or leave the field out '
                f"(it has {', '.join(sorted(self._known))})"
            )
        self.columns.update(columns)
        self.content += taken
        self._bytes += sum(_size(row) for row in taken)

    def tuples(self) -> Iterable[tuple[Any, ...]]:
        """The rows as values of `columns`."""
        names = list(self.columns)
        return (tuple(row.get(name) for name in names) for row in self.content)

    def discard(self) -> None:
        self.content.clear()


class SqlCommitter:
    """One stream's table."""

    def __init__(self, database: Database, stream: str, table: str, columns: Sequence[str]) -> None:
        self._database, self._stream, self._table, self._columns = database, stream, table, columns

    async def begin(self, offsets: Offsets) -> dict[int, int]:
        found = await self.committed()
        if not set(offsets) - set(found):
            return found
        # In a transaction of its own: who inserts and then looks may wait for another that does the same.
        async with self._database.work() as work:
            query = self._database.insert_new.format(f"INTO {OFFSETS} VALUES (?, ?, ?)")
            for partition, offset in sorted(offsets.items()):
                await work.execute(query, self._stream, partition, offset)
        return await self.committed()

    async def committed(self) -> dict[int, int]:
        async with self._database.work() as work:
            return await self._offsets(work)

    def draft(self, task: str, starts: Offsets) -> Draft:
        return TableDraft(self._table, self._columns)

    async def publish(self, draft: Draft, ranges: Sequence[Range]) -> Verdict:
        own = cast(TableDraft, draft)
        async with self._database.work() as work:
            verdict = judge(await self._offsets(work), ranges)
            if verdict.turn is Turn.PUBLISHED:
                if own.content:
                    await work.insert(self._table, list(own.columns), own.tuples())
                await self._set(work, {each.partition: each.end for each in ranges})
        return verdict

    async def move(self, offsets: Offsets, expect: Offsets) -> None:
        async with self._database.work() as work:
            found = await self._offsets(work)
            for partition in offsets:
                if found.get(partition) != expect.get(partition):
                    raise moved(self._stream, partition, found.get(partition))
            for partition in sorted(set(offsets) - set(found)):
                await work.execute(f"INSERT INTO {OFFSETS} VALUES (?, ?, 0)", self._stream, partition)
            await self._set(work, offsets)

    async def manifests(self) -> None:
        """A table does not say which publish a row came with."""

    async def counted(self, manifest: Manifest) -> int:
        return manifest.rows

    async def rows(self, most: int | None = None) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The table as a whole: it is the user's, and may have rows of others."""
        quote = self._database.quote
        names = ", ".join(f"{quote}{name}{quote}" for name in self._columns)
        query = f"SELECT {names} FROM {quote}{self._table}{quote}{'' if most is None else f' LIMIT {most}'}"
        async with self._database.work() as work:
            found = await work.fetch(query)
        yield [dict(zip(self._columns, row, strict=True)) for row in found]

    async def sweep(self) -> Swept:
        """Nothing of a draft outlives its task."""
        return Swept()

    async def close(self) -> None:
        await self._database.close()

    async def _offsets(self, work: Work) -> dict[int, int]:
        """The offsets of the whole stream: locked, and always in the same order, so that nobody waits in a circle."""
        query = f"SELECT part, next_offset FROM {OFFSETS} WHERE stream = ? ORDER BY part {self._database.for_update}"
        return {int(part): int(offset) for part, offset in await work.fetch(query, self._stream)}

    async def _set(self, work: Work, offsets: Offsets) -> None:
        query = f"UPDATE {OFFSETS} SET next_offset = ? WHERE stream = ? AND part = ?"
        for partition, offset in sorted(offsets.items()):
            await work.execute(query, offset, self._stream, partition)


async def prepared(database: Database, url: Url, stream: str, table: str, *, create: bool) -> SqlCommitter:
    """The committer, once the table was found and that of offsets is there, or was made if it may be."""
    columns = await database.columns(table)
    if not columns:
        await database.close()
        raise Invalid(f"output {url}: there is no table {table}; create it, with a column for each field of a row")
    if not await database.columns(OFFSETS):
        if not create:
            await database.close()
            raise NotFound(f"output {url}: no stream has published into {table} yet; look again when one has")
        async with database.work() as work:
            await work.execute(CREATE_OFFSETS)
    return SqlCommitter(database, stream, table, columns)


def table_of(options: Options) -> str:
    """The table that the URL names."""
    table = options.text("table")
    if table is None or not _NAME.fullmatch(table):
        raise options.wrong(f"table={table or ''}; name the table that rows go to, in letters, digits and _")
    return table


def _plain(value: object) -> object:
    """A value as databases take it: what is nested becomes JSON."""
    return msgspec.json.encode(value).decode() if isinstance(value, Mapping | list | tuple) else value


def _size(row: Mapping[str, Any]) -> int:
    return sum(CELL + (len(value) if isinstance(value, str | bytes) else 0) for value in row.values())
