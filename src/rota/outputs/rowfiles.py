"""Rows into Parquet files, sorted into folders by time.

Rows wait in memory until there are enough for a row group. A file has one schema. Where rows come that do not fit it
(a new field, another type) the file is closed and another begun, so that every row is kept as it is; readers join the
schemas. A field that is nowhere set in a file is left out of it: a column without a type fits no other.
"""

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rota.kit.files import fsync_folder, make_folder
from rota.model.errors import Invalid
from rota.streams.core.manifest import Segment

DRAFT_SUFFIX = ".draft"
ROW_GROUP = 50_000
"""Rows that are written together."""

MOST_PARTS = 256
"""Pieces in which rows wait before they are put together: where little comes at a time, there are many."""

MOST_OPEN = 32
"""Files that are written at the same time; the one that waited longest is closed when there are more."""

_FOLDERS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m"}


class FileLayout(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are sorted into folders and files."""

    by: str = "none"
    field: str = ""
    """The field with the time that decides the folder."""

    compression: str = "zstd"


@dataclass
class _OpenFile:
    """A file that is being written."""

    path: Path
    schema: pa.Schema
    writer: pq.ParquetWriter
    rows: int = 0


class FolderColumns:
    """Rows as columns, by the folder they belong into; Invalid names what does not fit."""

    def __init__(self, rows: object, layout: FileLayout) -> None:
        self._found = [part for table in as_tables(rows) if table.num_rows for part in _parts(table, layout)]

    def __iter__(self) -> Iterator[tuple[str, pa.Table]]:
        return iter(self._found)


class RowFiles:
    """The files of one draft."""

    def __init__(self, folder: Path, name: str, layout: FileLayout) -> None:
        self._folder, self._name, self._layout = folder, name, layout
        self._waiting: dict[str, list[pa.Table]] = {}
        self._waiting_rows: Counter[str] = Counter()
        self._open: dict[str, _OpenFile] = {}
        self._done: list[Segment] = []
        self._files = 0
        self.rows = self.bytes = 0

    def append(self, rows: object) -> None:
        """Add rows: dicts, columns, or parts."""
        parts = rows if isinstance(rows, FolderColumns) else FolderColumns(rows, self._layout)
        for place, part in parts:
            self._waiting.setdefault(place, []).append(part)
            self._waiting_rows[place] += part.num_rows
            self.rows += part.num_rows
            self.bytes += part.nbytes
        for place in dict.fromkeys(place for place, _ in parts):
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

    def _begin(self, place: str, schema: pa.Schema) -> _OpenFile:
        while len(self._open) >= MOST_OPEN:
            self._finish(next(iter(self._open)))
        folder = self._folder / place
        make_folder(folder)
        path = folder / f"{self._name}-{self._files}.parquet{DRAFT_SUFFIX}"
        self._files += 1
        compression = self._layout.compression
        written = _OpenFile(path, schema, pq.ParquetWriter(path, schema, compression=compression))
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


def as_tables(rows: object) -> list[pa.Table]:
    """Rows as columns; more than one table where rows have values of different types in a field."""
    match rows:
        case pa.Table():
            return [rows]
        case pa.RecordBatch():
            return [pa.Table.from_batches([rows])]
        case Sequence() if not isinstance(rows, str | bytes):
            return _from_dicts(rows)
    raise Invalid(f"rows are {type(rows).__name__}; return dicts, or a pyarrow RecordBatch")


def _from_dicts(rows: Sequence[Any]) -> list[pa.Table]:
    for kind in set(map(type, rows)):
        if not issubclass(kind, Mapping):
            raise Invalid(f"a row is {kind.__name__}; each row must be a dict")
    # from_pylist looks at the first row's fields only.
    columns: dict[str, pa.Array] = {}
    mixed: dict[str, str] = {}
    for name in dict.fromkeys(chain.from_iterable(rows)):
        if not isinstance(name, str):
            raise Invalid(f"a field is named {name!r}; names of fields must be text")
        try:
            columns[name] = pa.array(_values(rows, name))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            mixed[name] = " ".join(str(error).split())
    return _by_type(rows, mixed) if mixed else [pa.table(columns)]


def _by_type(rows: Sequence[Any], mixed: Mapping[str, str]) -> list[pa.Table]:
    """Rows with fields of several types, as a table for each; Invalid if the fault is not that they are mixed."""
    alike: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in rows:
        alike[tuple(_type(row.get(name)) for name in mixed)].append(row)
    if len(alike) == 1:
        name, said = next(iter(mixed.items()))
        raise Invalid(f'field "{name}" has a value that Parquet cannot keep: {said}; return another, or leave it out')
    return [table for some in alike.values() for table in _from_dicts(some)]


def _type(value: object) -> object:
    """What a value is, and what is in it: equal for values that can share a column."""
    match value:
        case Mapping():
            return frozenset((name, _type(each)) for name, each in value.items())
        case list() | tuple():
            return (list, frozenset(map(_type, value)))
    return type(value)


def _parts(table: pa.Table, layout: FileLayout) -> Iterator[tuple[str, pa.Table]]:
    """A table by the folders that its rows belong into."""
    _refuse_unwritable(table.schema)
    if layout.by == "none":
        yield "", table
        return
    labels = _labels(table, layout)
    places = labels.unique().to_pylist()
    for place in places:
        part = table if len(places) == 1 else table.filter(pc.equal(labels, place))
        yield f"{layout.by}={place}", part


@lru_cache(maxsize=100)
def _refuse_unwritable(schema: pa.Schema) -> None:
    """Invalid if Parquet has no way to keep such rows."""
    kept = _without_nulls(schema)
    if not kept:
        raise Invalid("rows without a single field that is set; filter them out")
    try:
        pq.write_table(kept.empty_table(), pa.BufferOutputStream())
    except pa.ArrowException as error:
        raise Invalid(f"Parquet cannot keep such rows: {' '.join(str(error).split())}; return other fields") from None


def _values(rows: Sequence[Any], name: str) -> list[Any]:
    """A field of all rows; None where a row has no such field."""
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def _labels(table: pa.Table, layout: FileLayout) -> pa.ChunkedArray:
    """For each row, the label of its folder, by time."""
    if layout.field not in table.column_names:
        raise Invalid(f'rows have no field "{layout.field}", which their folders go by; return it, or correct time=')
    times = table.column(layout.field)
    if pa.types.is_timestamp(times.type):
        in_utc = times.cast(pa.timestamp("us", "UTC" if times.type.tz else None), safe=False)
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
    try:
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except OverflowError:
        raise Invalid(f'field "{field}" is {found}; that is no time in UTC') from None


def _joined(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Those with fitting schemas as one: few files, however much types change from row to row."""
    groups: list[tuple[pa.Schema, list[pa.Table]]] = []
    for table in tables:
        fitting = next((group for group in groups if _fits(table.schema, group[0])), None)
        if fitting is None:
            fitting = _without_nulls(table.schema), []
            groups.append(fitting)
        fitting[1].append(_shaped(table, fitting[0]))
    for _, group in groups:
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
