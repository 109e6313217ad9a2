"""Rows into a table, and offsets into another, in one transaction.

The table is the user's: its rows come from the stream's transform, field by column. The offsets stand beside it, in
`rota_stream_offsets`, the ranges of all publishes, in `rota_stream_publishes`, and offsets that were set by hand, in
`rota_stream_moves`. Dead letters are in `rota_stream_letters`. A publish locks the offsets of its partitions and no
others, judges them, inserts the rows, moves the offsets and notes its ranges. What differs between databases is behind
`Database`.
"""

import logging
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol, cast

import msgspec

from rota.kit.time.clock import SYSTEM, Clock
from rota.kit.time.epoch import milliseconds, moment
from rota.model import codec
from rota.model.errors import Denied, Invalid, NotFound, RotaError
from rota.model.ids import origin
from rota.model.url import Options, Url
from rota.outputs.catalogue import moved, new_draft
from rota.outputs.memory import as_dicts
from rota.outputs.port import Draft, Letter, Rows, Swept, Unfit
from rota.outputs.verdict import Moves, PublishVerdict, Turn, fenced, judge, moves_of
from rota.streams.core.manifest import Manifest, Offsets, Range
from rota.streams.core.records import MoveRecord

log = logging.getLogger(__name__)

OFFSETS = "rota_stream_offsets"
CREATE_OFFSETS = f"""CREATE TABLE IF NOT EXISTS {OFFSETS} (
    stream VARCHAR(200) NOT NULL, part BIGINT NOT NULL, next_offset BIGINT NOT NULL, PRIMARY KEY (stream, part))"""
PUBLISHES = "rota_stream_publishes"
CREATE_PUBLISHES = f"""CREATE TABLE IF NOT EXISTS {PUBLISHES} (
    stream VARCHAR(200) NOT NULL, publish VARCHAR(64) NOT NULL, part BIGINT NOT NULL, start_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL, row_count BIGINT NOT NULL, task VARCHAR(500) NOT NULL, at_ms BIGINT NOT NULL,
    PRIMARY KEY (stream, publish, part))"""
MOVES = "rota_stream_moves"
CREATE_MOVES = f"""CREATE TABLE IF NOT EXISTS {MOVES} (
    stream VARCHAR(200) NOT NULL, move VARCHAR(64) NOT NULL, at_ms BIGINT NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (stream, move))"""
"""Made when offsets are first set by hand: few streams need it, and the user may have no right to make tables later."""

LETTERS = "rota_stream_letters"
CREATE_LETTERS = f"""CREATE TABLE IF NOT EXISTS {LETTERS} (
    stream VARCHAR(200) NOT NULL, publish VARCHAR(64) NOT NULL, part BIGINT NOT NULL, record_offset BIGINT NOT NULL,
    at_ms BIGINT NOT NULL, record {{long_text}} NOT NULL, PRIMARY KEY (stream, publish, part, record_offset))"""
"""Made before the first dead letter: if the user may not make it, letters go elsewhere from the start."""

LETTER_COLUMNS = ("stream", "publish", "part", "record_offset", "at_ms", "record")

CELL = 48
"""Bytes that a value takes in memory, roughly, beside its own length."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")


class SqlWork(Protocol):
    """One transaction. Parameters are written `?`."""

    async def fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a query finds."""

    async def execute(self, query: str, *parameters: object) -> None:
        """Change something."""

    async def insert(self, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows, as fast as this database can; Unfit if a value does not fit its column."""


class Database(Protocol):
    """A database with transactions."""

    by_key: str
    """The clause after a table whose rows are locked by their keys, so that no other rows are locked."""

    for_update: str
    """The clause that locks the rows of a query."""

    insert_new: str
    """The frame of an INSERT that ignores existing rows, with `{}` for the rest."""

    quote: str
    """The quote character of names."""

    columns_query: str
    """The query for the columns of a table."""

    long_text: str
    """The type of texts of many megabytes."""

    check_now: str
    """The statement that checks deferred constraints before the commit; empty where there are none."""

    def work(self) -> AbstractAsyncContextManager[SqlWork]:
        """A transaction, committed at the end unless something was raised.

        Unknown if the commit's outcome is not known, Unavailable if nothing was changed. Locks and statements are
        waited for up to a limit, and so does the server wait for the next statement, where there is a server.
        """

    def view(self, *, is_patient: bool = False) -> AbstractAsyncContextManager[SqlWork]:
        """A transaction that only reads and waits for no writer; `is_patient`: a query may take any time."""

    async def columns(self, table: str) -> list[str]:
        """The columns of a table; none if there is no such table."""

    async def close(self) -> None:
        """Close connections."""


class TableRows:
    """Rows as databases take them; Invalid names a field without a column."""

    def __init__(self, rows: Rows, table: str, known: Collection[str]) -> None:
        self.content = [{name: _plain(value) for name, value in row.items()} for row in as_dicts(rows)]
        self.columns = dict.fromkeys(name for row in self.content for name in row)
        if unknown := next((name for name in self.columns if name not in known), None):
            raise Invalid(
                f'table {table} has no column "{unknown}"; add it, or leave the field out '
                f"(it has {', '.join(sorted(known))})"
            )


class TableDraft:
    """Rows in memory: a stream publishes before they are too many (`checkpoint_rows`, `checkpoint_bytes`)."""

    def __init__(self, task: str, table: str, known: Sequence[str], seen: Moves | None) -> None:
        self.task, self.seen = task, seen
        self._table, self._known = table, frozenset(known)
        self.columns: dict[str, None] = {}
        self.content: list[dict[str, Any]] = []
        self.letters: Sequence[Letter] = ()
        self._bytes = 0

    @property
    def rows(self) -> int:
        return len(self.content)

    @property
    def bytes(self) -> int:
        return self._bytes

    def append(self, rows: "Rows | TableRows") -> None:
        taken = rows if isinstance(rows, TableRows) else TableRows(rows, self._table, self._known)
        self.columns.update(taken.columns)
        self.content += taken.content
        self._bytes += sum(_size(row) for row in taken.content)

    def discard(self) -> None:
        self.content.clear()


class SqlCommitter:
    """One stream's table."""

    def __init__(
        self,
        database: Database,
        stream: str,
        table: str,
        columns: Sequence[str],
        clock: Clock = SYSTEM,
        *,
        is_listed: bool = True,
    ) -> None:
        """`is_listed`: the ranges of all publishes are noted."""
        self._database, self._stream, self._table, self._columns = database, stream, table, columns
        self._clock, self._is_listed = clock, is_listed
        self._seen: Moves | None = None
        self._has_moves = False
        """Is it known that there is a table of moves?"""

    async def begin(self, offsets: Offsets) -> dict[int, int]:
        found = await self.committed()
        missing = sorted(set(offsets) - set(found))
        if not missing:
            return found
        # In a transaction of its own: two transactions that insert and then read may wait for each other.
        async with self._database.work() as work:
            query = self._database.insert_new.format(f"INTO {OFFSETS} VALUES (?, ?, ?)")
            for partition in missing:
                await work.execute(query, self._stream, partition, offsets[partition])
        return await self.committed()

    async def committed(self) -> dict[int, int]:
        query = f"SELECT part, next_offset FROM {OFFSETS} WHERE stream = ?"
        async with self._database.view() as work:
            return _offsets(await work.fetch(query, self._stream))

    async def attach(self) -> dict[int, int]:
        async with self._database.view() as work:
            self._seen = await self._moves(work)
        return await self.committed()

    async def fitted(self, rows: Rows, *, is_tried: bool = False) -> TableRows:
        found = TableRows(rows, self._table, frozenset(self._columns))
        if is_tried:
            async with self._database.work() as work:
                await self._insert(work, found.columns, found.content)
                if self._database.check_now:
                    await work.execute(self._database.check_now)
                await work.execute("ROLLBACK")
        return found

    def draft(self, task: str, starts: Offsets) -> Draft:
        return TableDraft(task, self._table, self._columns, self._seen)

    async def publish(self, draft: Draft, ranges: Sequence[Range]) -> PublishVerdict:
        own = cast(TableDraft, draft)
        async with self._database.work() as work:
            verdict = judge(await self._locked(work, [each.partition for each in ranges]), ranges)
            if verdict.turn is Turn.PUBLISHED and own.seen is not None:
                verdict = fenced(ranges, own.seen, await self._moves(work))
            if verdict.turn is Turn.PUBLISHED:
                await self._insert(work, own.columns, own.content)
                await self._set(work, {each.partition: each.end for each in ranges})
                await self._note(work, own, ranges)
        return verdict

    async def _insert(self, work: SqlWork, columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows; Unfit if the database refuses one, or its driver cannot write a value."""
        names = list(columns)
        if not rows:
            return
        try:
            await work.insert(self._table, names, (tuple(row.get(name) for name in names) for row in rows))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise Unfit(f"table {self._table}: a row does not fit: {error}") from error

    async def move(self, move: MoveRecord) -> MoveRecord:
        await _have(self._database, MOVES, CREATE_MOVES)
        async with self._database.work() as work:
            found = await self._locked(work, move.after)
            if (already := await self._moved(work, move.id)) is not None:
                return already
            for partition in move.after:
                if found.get(partition) != move.before.get(partition):
                    raise moved(self._stream, partition, found.get(partition))
            for partition in sorted(set(move.after) - set(found)):
                await work.execute(f"INSERT INTO {OFFSETS} VALUES (?, ?, 0)", self._stream, partition)
            await self._set(work, move.after)
            query, kept = f"INSERT INTO {MOVES} VALUES (?, ?, ?, ?)", codec.encode(move).decode()
            await work.execute(query, self._stream, move.id, milliseconds(move.at), kept)
        return move

    async def moved(self, id: str) -> MoveRecord | None:
        if not await self._database.columns(MOVES):
            return None
        async with self._database.view() as work:
            return await self._moved(work, id)

    async def _moves(self, work: SqlWork) -> Moves:
        """The moves: offsets that were set by hand."""
        self._has_moves = self._has_moves or bool(await work.fetch(self._database.columns_query, MOVES))
        if not self._has_moves:
            return {}
        found = await work.fetch(f"SELECT record FROM {MOVES} WHERE stream = ?", self._stream)
        return moves_of(codec.decode(MoveRecord, str(record).encode()) for (record,) in found)

    async def _moved(self, work: SqlWork, id: str) -> MoveRecord | None:
        query = f"SELECT record FROM {MOVES} WHERE stream = ? AND move = ?"
        rows = await work.fetch(query, self._stream, id)
        return codec.decode(MoveRecord, str(rows[0][0]).encode()) if rows else None

    async def manifests(self) -> list[Manifest] | None:
        """The publishes; None if an older Rota began the output, and no newer one has published since."""
        if not self._is_listed:
            return None
        query = (
            f"SELECT publish, part, start_offset, next_offset, row_count, task, at_ms FROM {PUBLISHES} "
            "WHERE stream = ? ORDER BY at_ms, publish, part"
        )
        async with self._database.view(is_patient=True) as work:
            noted = await work.fetch(query, origin(self._stream))
        return [self._manifest(list(ranges)) for _, ranges in groupby(noted, itemgetter(0))]

    async def counted(self, manifest: Manifest) -> None:
        """A table does not say which publish a row came with."""

    async def total(self) -> int:
        quote = self._database.quote
        async with self._database.view(is_patient=True) as work:
            return int((await work.fetch(f"SELECT COUNT(*) FROM {quote}{self._table}{quote}"))[0][0])

    async def rows(
        self, most: int | None = None, *, is_whole: bool = True
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The table as a whole: it is the user's, and may have rows of others."""
        quote = self._database.quote
        names = ", ".join(f"{quote}{name}{quote}" for name in self._columns)
        query = f"SELECT {names} FROM {quote}{self._table}{quote}{'' if most is None else f' LIMIT {most}'}"
        async with self._database.view(is_patient=True) as work:
            found = await work.fetch(query)
        yield [dict(zip(self._columns, row, strict=True)) for row in found]

    async def sweep(self) -> Swept:
        """Nothing of a draft outlives its task."""
        return Swept()

    async def close(self) -> None:
        await self._database.close()

    async def _locked(self, work: SqlWork, partitions: Iterable[int]) -> dict[int, int]:
        """The offsets of these partitions, locked: always in the same order, to avoid deadlocks."""
        wanted, database = sorted(partitions), self._database
        query = (
            f"SELECT part, next_offset FROM {OFFSETS} {database.by_key} WHERE stream = ? "
            f"AND part IN ({', '.join('?' for _ in wanted)}) ORDER BY part {database.for_update}"
        )
        return _offsets(await work.fetch(query, self._stream, *wanted)) if wanted else {}

    async def _note(self, work: SqlWork, draft: TableDraft, ranges: Sequence[Range]) -> None:
        """List a publish: what was in it, by whom, and when."""
        at = self._clock.wall()
        query, id = f"INSERT INTO {PUBLISHES} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", new_draft(at)
        for each in sorted(ranges, key=lambda each: each.partition):
            span = each.partition, each.start, each.end
            await work.execute(query, origin(self._stream), id, *span, draft.rows, draft.task, milliseconds(at))
        if draft.letters:
            stream, at_ms = origin(self._stream), milliseconds(at)
            rows = ((stream, id, each.partition, each.offset, at_ms, each.line) for each in draft.letters)
            await work.insert(LETTERS, LETTER_COLUMNS, rows)

    def _manifest(self, noted: Sequence[tuple[Any, ...]]) -> Manifest:
        """A publish, as it was listed."""
        id, *_, rows, task, at_ms = noted[0]
        ranges = tuple(Range(partition=int(part), start=int(start), end=int(end)) for _, part, start, end, *_ in noted)
        return Manifest(
            id=id, stream=self._stream, ranges=ranges, rows=int(rows), segments=(), at=moment(int(at_ms)), by=task
        )

    async def _set(self, work: SqlWork, offsets: Offsets) -> None:
        query = f"UPDATE {OFFSETS} SET next_offset = ? WHERE stream = ? AND part = ?"
        for partition, offset in sorted(offsets.items()):
            await work.execute(query, offset, self._stream, partition)


class KeepingCommitter(SqlCommitter):
    """One stream's table, with one for its dead letters beside it."""

    def keep_letters(self, draft: Draft, letters: Sequence[Letter]) -> None:
        """Have these published with the draft."""
        cast(TableDraft, draft).letters = tuple(letters)


async def prepared(
    database: Database, url: Url, stream: str, table: str, clock: Clock = SYSTEM, *, create: bool
) -> SqlCommitter:
    """The committer, once the table was found and those beside it are there, or were made if they may be."""
    columns = await database.columns(table)
    if not columns:
        await database.close()
        raise Invalid(f"output {url}: there is no table {table}; create it, with a column for each field of a row")
    if not create and not await database.columns(OFFSETS):
        await database.close()
        raise NotFound(f"output {url}: no stream has published into {table} yet; look again when one has")
    if create:
        await _have(database, OFFSETS, CREATE_OFFSETS)
        await _have(database, PUBLISHES, CREATE_PUBLISHES)
    is_listed = bool(await database.columns(PUBLISHES))
    kind = KeepingCommitter if create and await _has_letters(database, url) else SqlCommitter
    return kind(database, stream, table, columns, clock, is_listed=is_listed)


async def _has_letters(database: Database, url: Url) -> bool:
    """Is there a table for dead letters, or can it be made? The user may have no right to make tables any more."""
    statement = CREATE_LETTERS.format(long_text=database.long_text)
    try:
        await _have(database, LETTERS, statement)
    except Denied as error:
        run = " ".join(statement.split())
        told = {"output": str(url), "why": str(error), "run": run}
        log.warning("dead letters go into a file of the node, not into the output: no table for them", extra=told)
        return False
    return True


async def _have(database: Database, table: str, statement: str) -> None:
    """Make a table beside the user's, unless it exists or another process is making it at this moment."""
    if await database.columns(table):
        return
    try:
        async with database.work() as work:
            await work.execute(statement)
    except RotaError:  # PostgreSQL refuses the slower of two, although they say IF NOT EXISTS
        if not await database.columns(table):
            raise


def table_of(options: Options) -> str:
    """The table that the URL names."""
    table = options.text("table")
    if table is None or not _NAME.fullmatch(table):
        raise options.wrong(f"table={table or ''}; name the table that rows go to, in letters, digits and _")
    return table


def _offsets(found: Iterable[tuple[Any, ...]]) -> dict[int, int]:
    return {int(part): int(offset) for part, offset in found}


def _plain(value: object) -> object:
    """A value as databases take it: what is nested becomes JSON."""
    return msgspec.json.encode(value).decode() if isinstance(value, Mapping | list | tuple) else value


def _size(row: Mapping[str, Any]) -> int:
    return sum(CELL + (len(value) if isinstance(value, str | bytes) else 0) for value in row.values())
