"""A stream's own function: batches in, rows out, and the records that it cannot read put aside.

Where the function raises, or the output does not take its rows, the batch is halved until the record is found that is
at fault; that one becomes a dead letter, and the rest goes on. So the function may be called again with a part of what
it was called with: it should do nothing but make rows. More dead letters than the stream allows end the task, and say
so: something is wrong then with the function or with the source, and not with a record.
"""

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rota.kit.faults import described
from rota.model.errors import Denied, Invalid, Unavailable, Unknown
from rota.workloads.context import Batch, Record

Rows: TypeAlias = Any
"""A list of dicts, or columns (`pyarrow.RecordBatch`): what a committer's draft takes."""

Fits: TypeAlias = Callable[[Rows], Awaitable[Rows]]
"""The rows as the output takes them; raises what is against them."""


async def as_they_are(rows: Rows) -> Rows:
    """Any rows fit."""
    return rows


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
    """Of records that the function could not read."""

    unfit: list[DeadLetter] = field(default_factory=list)
    """Of records whose rows the output does not take."""


class TooManyErrors(Exception):
    """More records could not be read than the stream allows."""


class Transform:
    """The function of one stream, and what it failed on."""

    def __init__(self, function: Callable[..., Any], most_errors: int | None = None) -> None:
        self._function, self._most = function, most_errors
        self.errors = 0
        """Records that it could not read."""

    def again(self) -> "Transform":
        """The same function, with nothing failed yet."""
        return Transform(self._function, self._most)

    async def make(self, batch: Batch, fits: Fits = as_they_are) -> Made:
        """The rows of a batch; TooManyErrors if too many of its records, and of those before it, make none."""
        made = Made()
        if batch.records:
            await self._take(batch, fits, made)
        return made

    async def _take(self, batch: Batch, fits: Fits, made: Made) -> None:
        try:
            rows = await _rows(self._function(batch))
        except Exception as error:  # whatever a user's function raises
            await self._part(batch, fits, made, made.letters, error)
            return
        if isinstance(rows, list) and not rows:
            return
        try:
            made.rows.append(await fits(rows))
        except (Unavailable, Unknown, Denied):
            raise  # the output cannot be asked: that is no fault of a record
        except Exception as error:  # whatever comes of the values in a user's rows
            await self._part(batch, fits, made, made.unfit, error)

    async def _part(self, batch: Batch, fits: Fits, made: Made, aside: list[DeadLetter], error: Exception) -> None:
        """Put the only record of a batch aside, or take its halves."""
        if len(batch.records) == 1:
            self._put_aside(batch.records[0], error, aside)
            return
        for half in _halves(batch):
            await self._take(half, fits, made)

    def _put_aside(self, record: Record, error: Exception, aside: list[DeadLetter]) -> None:
        said = described(error, LONGEST)
        aside.append(DeadLetter(record, said))
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
