"""A stream's own function: batches in, rows out, and the records that it cannot read put aside.

Where the function raises, or the output does not take its rows, the batch is halved until the record is found that is
at fault; that one becomes a dead letter, and the rest goes on. So the function may be called again with a part of what
it was called with: it should do nothing but make rows. More dead letters than the stream allows fail the task: the
fault then lies with the function or the source, not with a record. A stream that sets no limit allows any number, as
long as most records can be read.

`call` decides which thread makes the calls: a function that is not async has a thread of its own in a worker, so that
the task hears and answers while it works. A call that does not return in time ends the task.
"""

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

import msgspec

from rota.kit.faults import described
from rota.model.errors import Denied, Invalid, Unavailable, Unknown
from rota.streams.core.context import Batch, Record

Rows: TypeAlias = Any
"""A list of dicts, or columns (`pyarrow.RecordBatch`): what a committer's draft takes."""

Fits: TypeAlias = Callable[[Rows], Awaitable[Rows]]
"""The rows as the output takes them; raises if it would refuse them."""


async def as_they_are(rows: Rows) -> Rows:
    """Any rows fit."""
    return rows


LONGEST = 1000
"""Characters of an error that a dead letter keeps."""

SURPLUS = 100
"""By how many the records that cannot be read may outnumber those that can, where the stream sets no limit."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that made no rows, and why."""

    record: Record
    error: str


@dataclass
class TransformResult:
    """What became of a batch."""

    rows: list[Rows] = field(default_factory=list)
    """Pieces in the order of the records; each is a list of dicts, or columns."""

    letters: list[DeadLetter] = field(default_factory=list)
    """Of records that the function could not read."""

    unfit: list[DeadLetter] = field(default_factory=list)
    """Of records whose rows the output does not take."""


class TooManyErrors(Exception):
    """More records could not be read than the stream allows."""


class TooSlow(Exception):
    """The function did not return in time."""


Call: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Makes a call, in a thread it chooses."""


async def call_here(function: Callable[[], Any]) -> Any:
    """What the function returns, called in this thread."""
    return function()


class Transform:
    """The function of one stream, and what it failed on."""

    def __init__(
        self,
        function: Callable[..., Any],
        most_errors: int | None = None,
        *,
        call: Call = call_here,
        timeout: timedelta | None = None,
    ) -> None:
        """`timeout`: how long one call may take."""
        self._function, self._most, self._call = function, most_errors, call
        self._limit = timeout
        self._timeout = None if timeout is None else timeout.total_seconds()
        self._turn = asyncio.Lock()
        """Held during a call: there is one at a time, also while a sequence is made again, and each has its time."""

        self.errors = 0
        """Records that it could not read."""

        self._surplus = 0
        """By how many those lately outnumber the records that it could read."""

    def again(self) -> "Transform":
        """The same function, with nothing failed yet."""
        found = Transform(self._function, self._most, call=self._call, timeout=self._limit)
        found._turn = self._turn
        return found

    def copied(self) -> "Transform":
        """The same function, with all that it has failed on."""
        found = self.again()
        found.errors, found._surplus = self.errors, self._surplus
        return found

    async def make(self, batch: Batch, fits: Fits = as_they_are) -> TransformResult:
        """The rows of a batch.

        TooManyErrors if too many of its records, and of those before it, make none; TooSlow if a call takes too long.
        """
        made = TransformResult()
        if batch.records:
            await self._take(batch, fits, made)
        return made

    def forget(self, made: TransformResult) -> None:
        """Discard the last errors: the rows made are not used, and their records are read again."""
        failed = len(made.letters) + len(made.unfit)
        self.errors -= failed
        self._surplus = max(0, self._surplus - failed)

    async def _take(self, batch: Batch, fits: Fits, made: TransformResult) -> None:
        try:
            rows = await self._rows(batch)
        except TooSlow:
            raise
        except Exception as error:  # whatever a user's function raises
            await self._part(batch, fits, made, made.letters, error)
            return
        if not isinstance(rows, list) or rows:
            try:
                made.rows.append(await fits(rows))
            except (Unavailable, Unknown, Denied):
                raise  # the output cannot be asked: that is no fault of a record
            except Exception as error:  # any error that the values in a user's rows cause
                await self._part(batch, fits, made, made.unfit, error)
                return
        self._surplus = max(0, self._surplus - len(batch.records))

    async def _part(
        self, batch: Batch, fits: Fits, made: TransformResult, aside: list[DeadLetter], error: Exception
    ) -> None:
        """Put the only record of a batch aside, or take its halves."""
        if len(batch.records) == 1:
            self._put_aside(batch.records[0], error, aside)
            return
        for half in _halves(batch):
            await self._take(half, fits, made)

    async def _rows(self, batch: Batch) -> Rows:
        """What the function makes of a batch, checked."""
        try:
            async with self._turn, asyncio.timeout(self._timeout) as limit:
                return await _awaited(await self._call(partial(_called, self._function, batch)))
        except TimeoutError:
            if not limit.expired():
                raise  # the function's own
        last = batch.records[-1]
        raise TooSlow(
            f"the function did not return within {self._timeout:g} s from {len(batch.records)} records, up to offset "
            f"{last.offset} of partition {last.partition}; correct it, or raise batch_timeout or lower batch"
        )

    def _put_aside(self, record: Record, error: Exception, aside: list[DeadLetter]) -> None:
        said = described(error, LONGEST)
        aside.append(DeadLetter(record, said))
        self.errors += 1
        self._surplus += 1
        if why := self._why_too_many():
            where = f"partition {record.partition}, offset {record.offset}"
            raise TooManyErrors(f"{why}; the last one is {where}: {said}")

    def _why_too_many(self) -> str:
        if self._most is not None:
            too_many = self.errors > self._most
            return f"{self.errors} records could not be read, and {self._most} may" if too_many else ""
        if self._surplus <= SURPLUS:
            return ""
        return (
            f"more records than not cannot be read, {self._surplus} in surplus; correct the function or set max_errors"
        )


def _halves(batch: Batch) -> tuple[Batch, Batch]:
    middle = len(batch.records) // 2
    return _part(batch, batch.records[:middle]), _part(batch, batch.records[middle:])


def _part(batch: Batch, records: Sequence[Record]) -> Batch:
    offsets = {record.partition: record.offset + 1 for record in records}
    return Batch(batch.stream, records, offsets, batch.topic)


def _called(function: Callable[..., Any], batch: Batch) -> Any:
    """What a function made; all of it, unless it has to be awaited."""
    made = function(batch)
    return made if inspect.isawaitable(made) or isinstance(made, AsyncIterable) else _checked(made)


async def _awaited(made: Any) -> Rows:
    """What a function made, once it is there."""
    if inspect.isawaitable(made):
        made = _checked(await made)
    return _checked([row async for row in made]) if isinstance(made, AsyncIterable) else made


def _checked(made: Any) -> Rows:
    """What a function made: a list of dicts, or columns."""
    if hasattr(made, "to_pylist"):  # columns: pyarrow's, which need not be here to be recognised
        return made
    rows = list(made or ())
    for kind in set(map(type, rows)):  # of the rows' types rather than of the rows: there are many
        if not issubclass(kind, Mapping):
            raise Invalid(f"it made a row of type {kind.__name__}; each row must be a dict")
    return rows
