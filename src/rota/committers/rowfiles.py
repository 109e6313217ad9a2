"""Rows into Parquet files, sorted into folders by time.

Rows wait in memory until there are enough for a row group. A file has one schema. Where rows come that do not fit it
(a new field, another type) the file is closed and another begun, so that every row is kept as it is; readers join the
schemas. A field that is nowhere set in a file is left out of it: a column without a type fits no other.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rota.kit.files import fsync_folder, make_folder
from rota.model.errors import Invalid
from rota.model.manifest import Segment

DRAFT_SUFFIX = ".draft"
ROW_GROUP = 50_000
"""Rows that are written together."""

MOST_PARTS = 256
"""Pieces in which rows wait before they are put together: where little comes at a time, there are many."""

MOST_OPEN = 32
"""Files that are written at the same time; the one that waited longest is closed when there are more."""

_FOLDERS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m"}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How rows are sorted into folders and files."""

    by: str = "none"
    field: str = ""
    """The time that folders go by."""

    compression: str = "zstd"


@dataclass
class _Written:
    """A file that is being written."""

    path: Path
    schema: pa.Schema
    writer: pq.ParquetWriter
    rows: int = 0


class RowFiles:
    """The files of one draft."""

    def __init__(self, folder: Path, name: str, layout: Layout) -> None:
        self._folder, self._name, self._layout = folder, name, layout
        self._waiting: dict[str, list[pa.Table]] = {}
        self._waiting_rows: Counter[str] = Counter()
        self._open: dict[str, _Written] = {}
        self._done: list[Segment] = []
        self._files = 0
        self.rows = self.bytes = 0

    def append(self, rows: object) -> None:
        """Add rows: dicts, or columns."""
        table = as_table(rows)
        if not table.num_rows:
            return
        if not _without_nulls(table.schema):
            raise Invalid("rows without a single field that is set; filter them out")
        parts = dict(self._parts(table))  # all of them, before any is taken: a bad time refuses the whole
        for place, part in parts.items():
            self._waiting.setdefault(place, []).append(part)
            self._waiting_rows[place] += part.num_rows
        self.rows += table.num_rows
        self.bytes += table.nbytes
        for place in parts:
            if self._waiting_rows[place] >= ROW_GROUP:
                self._write(place)
            elif len(self._waiting[place]) > MOST_PARTS:
                self._waiting[place] = [part.combine_chunks() for part in _joined(self._waiting[place])]

    def close(self) -> tuple[Segment, ...]:
        """Everything on disk; the files. Done again, it is the same."""
        for place in list(self._waiting):
            self._write(place)
        for place in list(self._open):
            self._finish(place)
        return tuple(self._done)

    def abandon(self) -> None:
        """Let go of what is open."""
        for written in self._open.values():
            with contextlib.suppress(OSError, pa.ArrowException):
                written.writer.close()
        self._open.clear()
        self._waiting.clear()

    def _parts(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if self._layout.by == "none":
            yield "", table
            return
        labels = _labels(table, self._layout)
        places = labels.unique().to_pylist()
        for place in places:
            part = table if len(places) == 1 else table.filter(pc.equal(labels, place))
            yield f"{self._layout.by}={place}", part

    def _write(self, place: str) -> None:
        del self._waiting_rows[place]
        for table in _joined(self._waiting.pop(place)):
            written = self._open.get(place)
            if written is None or not _fits(table.schema, written.schema):
                self._finish(place)
                written = self._begin(place, _without_nulls(table.schema))
            written.writer.write_table(_shaped(table, written.schema), row_group_size=ROW_GROUP)
            written.rows += table.num_rows
            self._open[place] = self._open.pop(place)  # the last in line to be closed

    def _begin(self, place: str, schema: pa.Schema) -> _Written:
        while len(self._open) >= MOST_OPEN:
            self._finish(next(iter(self._open)))
        folder = self._folder / place
        make_folder(folder)
        path = folder / f"{self._name}-{self._files}.parquet{DRAFT_SUFFIX}"
        self._files += 1
        compression = self._layout.compression
        written = _Written(path, schema, pq.ParquetWriter(path, schema, compression=compression))
        self._open[place] = written
        return written

    def _finish(self, place: str) -> None:
        written = self._open.pop(place, None)
        if written is None:
            return
        written.writer.close()
        with written.path.open("rb") as file:
            os.fsync(file.fileno())
        fsync_folder(written.path.parent)
        shown = str(written.path.relative_to(self._folder)).removesuffix(DRAFT_SUFFIX)
        self._done.append(Segment(path=shown, rows=written.rows, bytes=written.path.stat().st_size))


def as_table(rows: object) -> pa.Table:
    """Rows as columns."""
    match rows:
        case pa.Table():
            return rows
        case pa.RecordBatch():
            return pa.Table.from_batches([rows])
        case Sequence() if not isinstance(rows, str | bytes):
            return _from_dicts(rows)
    raise Invalid(f"rows are {type(rows).__name__}; return dicts, or a pyarrow RecordBatch")


def _from_dicts(rows: Sequence[Any]) -> pa.Table:
    for kind in set(map(type, rows)):
        if not issubclass(kind, Mapping):
            raise Invalid(f"a row is {kind.__name__}; each row must be a dict")
    # from_pylist looks at the first row's fields only.
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    columns = []
    for name in names:
        try:
            columns.append(pa.array(_values(rows, name)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = " ".join(str(error).split())
            raise Invalid(
                f'field "{name}" has values of several types, or of none that Parquet knows: {said}'
            ) from None
    return pa.table(columns, names=names)


def _values(rows: Sequence[Any], name: str) -> list[Any]:
    """A field of all rows; None where a row has no such field."""
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def _labels(table: pa.Table, layout: Layout) -> pa.ChunkedArray:
    """For each row, the time its folder goes by."""
    if layout.field not in table.column_names:
        raise Invalid(f'rows have no field "{layout.field}", which their folders go by; return it, or correct time=')
    times = table.column(layout.field)
    if pa.types.is_timestamp(times.type):
        in_utc = times.cast(pa.timestamp("us", "UTC")) if times.type.tz else times.cast(pa.timestamp("us"))
    else:
        in_utc = pa.chunked_array([[_time(value, layout.field) for value in times.to_pylist()]], pa.timestamp("us"))
    if in_utc.null_count:
        raise Invalid(f'field "{layout.field}" is empty in a row, and folders go by it; give it a time')
    return pc.strftime(in_utc, format=_FOLDERS[layout.by])


def _time(value: object, field: str) -> datetime | None:
    """A time as it comes in JSON: ISO text, or seconds or milliseconds since 1970."""
    match value:
        case None:
            return None
        case datetime():
            found = value
        case date():
            found = datetime(value.year, value.month, value.day)  # noqa: DTZ001  # a day is a day
        case str():
            try:
                found = datetime.fromisoformat(value)
            except ValueError:
                raise Invalid(f'field "{field}" is "{value[:40]}"; write a time like 2026-01-31T12:00:00Z') from None
        case int() | float() if not isinstance(value, bool):
            try:
                found = datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
            except (OverflowError, OSError, ValueError):
                raise Invalid(f'field "{field}" is {value}; that is no time since 1970') from None
        case _:
            raise Invalid(f'field "{field}" is {type(value).__name__}; it must be a time')
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found


def _joined(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Neighbours with fitting schemas as one."""
    group: list[pa.Table] = []
    schema: pa.Schema | None = None
    for table in tables:
        if schema is not None and not _fits(table.schema, schema):
            yield pa.concat_tables(group)
            group, schema = [], None
        if schema is None:
            schema = _without_nulls(table.schema)
        group.append(_shaped(table, schema))
    yield pa.concat_tables(group)


def _fits(schema: pa.Schema, other: pa.Schema) -> bool:
    """Can rows of one schema be written by another, with nothing lost?"""
    return all(
        pa.types.is_null(field.type)
        or (other.get_field_index(field.name) >= 0 and other.field(field.name).type == field.type)
        for field in schema
    )


def _shaped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with exactly these columns."""
    if table.schema.equals(schema):
        return table
    found = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in found else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema) if columns else table.select([])


def _without_nulls(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if not pa.types.is_null(field.type)])
