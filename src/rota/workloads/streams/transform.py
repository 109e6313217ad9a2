"""A stream's own function: batches in, rows out, and the records that it cannot read put aside.

Where the function raises, the batch is halved until the record is found that it fails on; that one becomes a dead
letter, and the rest goes on. So the function may be called again with a part of what it was called with: it should do
nothing but make rows. More dead letters than the stream allows end the task, and say so: something is wrong then with
the function or with the source, and not with a record.
"""

import inspect
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rota.model.errors import Invalid
from rota.workloads.context import Batch, Record

Rows: TypeAlias = Any
"""A list of dicts, or columns (`pyarrow.RecordBatch`): what a committer's draft takes."""

LONGEST = 1000
"""Characters of an error that a dead letter keeps."""


@dataclass(frozen=True)
class DeadLetter:
    """A record that made no rows, and why."""

    record: Record
    error: str


@dataclass
class Made:
    """What became of a batch."""

    rows: list[Rows] = field(default_factory=list)
    """Pieces in the order of the records; each is a list of dicts, or columns."""

    letters: list[DeadLetter] = field(default_factory=list)


class TooManyErrors(Exception):
    """More records could not be read than the stream allows."""


class Transform:
    """The function of one stream, and what it failed on."""

    def __init__(self, function: Callable[..., Any], most_errors: int | None = None) -> None:
        self._function, self._most = function, most_errors
        self.errors = 0
        """Records that it could not read."""

    async def make(self, batch: Batch) -> Made:
        """The rows of a batch; TooManyErrors if too many of its records, and of those before it, make none."""
        made = Made()
        if batch.records:
            await self._take(batch, made)
        return made

    async def _take(self, batch: Batch, made: Made) -> None:
        try:
            rows = await _rows(self._function(batch))
        except Exception as error:  # whatever a user's function raises
            if len(batch.records) == 1:
                self._put_aside(batch.records[0], error, made)
                return
            for half in _halves(batch):
                await self._take(half, made)
            return
        if not isinstance(rows, list) or rows:
            made.rows.append(rows)

    def _put_aside(self, record: Record, error: Exception, made: Made) -> None:
        said = f"{type(error).__name__}: {error}"[:LONGEST]
        made.letters.append(DeadLetter(record, said))
        self.errors += 1
        if self._most is not None and self.errors > self._most:
            where = f"partition {record.partition}, offset {record.offset}"
            raise TooManyErrors(
                f"{self.errors} records could not be read, and {self._most} may; the last one is {where}: {said}"
            )


def _halves(batch: Batch) -> tuple[Batch, Batch]:
    middle = len(batch.records) // 2
    return _part(batch, batch.records[:middle]), _part(batch, batch.records[middle:])


def _part(batch: Batch, records: Sequence[Record]) -> Batch:
    offsets = {record.partition: record.offset + 1 for record in records}
    return Batch(batch.stream, records, offsets, batch.topic)


async def _rows(made: Any) -> Rows:
    """What a function made, checked: a list of dicts, or columns."""
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "to_pylist"):  # columns: pyarrow's, which need not be here to be recognised
        return made
    rows = [row async for row in made] if isinstance(made, AsyncIterable) else list(made or ())
    for kind in set(map(type, rows)):  # of the rows' types rather than of the rows: there are many
        if not issubclass(kind, Mapping):
            raise Invalid(f"it made a row of type {kind.__name__}; each row must be a dict")
    return rows
