"""The publishing port of streams: what Rota asks of a folder of Parquet files or a database, and the laws it relies on.

A task writes rows into a draft. `publish` makes the draft's rows part of the output and moves the offsets of the
partitions they came from, both or neither. That is what makes the output exactly once: a range of records is either
behind the committed offset, and then its rows are there, or it is not, and then they are not.

Adapters are opened by URL (`outputs.open`) and translate their driver's errors at the edge; no caller imports one.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from rota.model.errors import Invalid, RotaError, Unavailable
from rota.outputs.verdict import PublishVerdict
from rota.streams.core.manifest import Manifest, Offsets, Range
from rota.streams.core.records import MoveRecord

if TYPE_CHECKING:
    import pyarrow

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = "Sequence[Row] | pyarrow.RecordBatch | pyarrow.Table"
"""What a transform returns: rows as dicts, or a batch of columns."""

Fitted: TypeAlias = Any
"""Rows in the form in which a committer's drafts take them."""


class Spoiled(RotaError):
    """A draft could not be written and may lack rows: its records have to be read again, into another draft."""


class Unfit(Invalid):
    """The output refuses a row: a value does not fit its column, or violates a constraint of the table."""


class PublishedLost(Unavailable):
    """Something that was published is gone from the output, or damaged."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What was cleared away or put right."""

    drafts: int = 0
    """Drafts that can never be published, and are gone now."""

    handed_off: int = 0
    """Files of publishes whose task died before it had made them visible."""


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A record that made no row, or none that the output takes."""

    partition: int
    offset: int
    error: str
    line: str
    """All of it, as a line of JSON."""


class Draft(Protocol):
    """Rows that are not published yet. It belongs to one process and one range of records."""

    @property
    def rows(self) -> int:
        """How many there are."""

    @property
    def bytes(self) -> int:
        """How large they are, roughly: limits are compared with this."""

    def append(self, rows: Fitted) -> None:
        """Add rows, as they are or as `fitted` returned them, all or none; Invalid names what does not fit.

        It may wait for the disk.

        Spoiled: the draft is lost with all its rows; a retry would publish an incomplete draft.
        """

    def discard(self) -> None:
        """Discard the draft and everything it wrote; after its publish, nothing that the output needs."""


class Committer(Protocol):
    """The output of one stream. Every adapter keeps these laws (`tests/contract/test_committer.py`):

    1. `begin` gives partitions that have no committed offset one, and changes no other. Of concurrent ones, one wins.
    2. `publish` is judged by the committed offsets (`verdict.judge`): it is published if they are where its
       ranges start, `ahead` if some are not there yet, `behind` if they went past a start on another way, and `there`
       if they are at its ends or past them. Only the first changes anything. Once offsets of its partitions were set by
       hand after the committer's last `attach`, a draft that was made since then is `behind` too.
    3. Rows and offsets change together, or not at all, even if a process dies at any point.
    4. Rows of a draft are not in the output before it is published, and all of them are from then on.
    5. Of concurrent publishes of one range, one is published, and the others are `there`. Publishes of other partitions
       do not disturb each other.
    6. Unknown says that it may have been published: asking again tells. Unavailable and Invalid: it was not. Unfit:
       because of rows, which `fitted` finds if they are refused by themselves too.
    7. `move` sets offsets if all of them are where they were before it, or raises Conflict and sets none. It is made
       once: a repeated move of the same id returns what it set, wherever the offsets are by then.
    8. `sweep` removes only drafts that can never be published, and finishes what a dead publisher began.
    """

    async def begin(self, offsets: Offsets) -> dict[int, int]:
        """The committed offsets, after partitions without one were given that of `offsets`."""

    async def committed(self) -> dict[int, int]:
        """Partition → up to where it is in the output."""

    async def attach(self) -> dict[int, int]:
        """The committed offsets, for a task that reads on: what it reads is void once they are set by hand."""

    async def fitted(self, rows: Rows, *, is_tried: bool = False) -> Fitted:
        """The rows as drafts take them; Invalid names what does not fit.

        `is_tried`: also check what only the output knows, such as constraints of a table; raises Unfit with the reason.
        """

    def draft(self, task: str, starts: Offsets) -> Draft:
        """A new draft by a task, for records from `starts` on."""

    async def publish(self, draft: Draft, ranges: Sequence[Range]) -> PublishVerdict:
        """Make the draft's rows part of the output, if it is their turn; what came of it."""

    async def move(self, move: MoveRecord) -> MoveRecord:
        """Set offsets by hand: records are skipped, or read again. What was set, perhaps long ago."""

    async def moved(self, id: str) -> MoveRecord | None:
        """What the move of this id has set; None if there was none."""

    async def sweep(self) -> Swept:
        """Delete the drafts of dead tasks, and finish their publishes."""

    async def close(self) -> None:
        """Close connections and threads. Drafts stay as they are."""


@runtime_checkable
class KeepsLetters(Protocol):
    """A committer that publishes dead letters too. Those that do keep this law:

    11. The letters of a draft are there, on the medium that its rows are on, once its offsets are committed, and never
        if they are not. Nothing deletes them.
    """

    def keep_letters(self, draft: Draft, letters: Sequence[Letter]) -> None:
        """Have these published with the draft, in the place of those that were named before."""


class Output(Protocol):
    """What is published of one stream, read-only. Adapters keep these laws too:

    9. `rows` gives all that is published and nothing else, also what is not handed off yet.
    10. Reading creates nothing and changes nothing.
    """

    async def committed(self) -> dict[int, int]:
        """Partition → up to where it is in the output."""

    async def manifests(self) -> list[Manifest] | None:
        """Every publish, the oldest first; None where the output keeps no list of them."""

    async def counted(self, manifest: Manifest) -> int | None:
        """How many rows of a publish are really there; None where rows do not say which publish they came with."""

    async def total(self) -> int | None:
        """How many rows there are in all; None where they are counted by publish."""

    def rows(self, most: int | None = None, *, is_whole: bool = True) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The rows, some at a time, at most `most` of them; the oldest first where that is known.

        Raises Lost where rows are gone; unless `is_whole`, those are left out, and `counted` shows where.
        """

    async def close(self) -> None:
        """Close connections."""
