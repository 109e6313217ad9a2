"""One stream task: reads what its group says, makes rows, publishes them with their offsets, and says how it is.

Its decisions are `progress`; this is the shell. Four things go on at a time: following the group's record, reading,
publishing, and writing the status. Reading is a loop of small steps, so that a pause takes effect within one batch.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import random
from typing import TypeVar

import msgspec

from rota.kit.bell import Bell
from rota.kit.record import replace
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound, RotaError, Unavailable, Unknown
from rota.model.ids import Instant, LeaseId, NodeId, Revision
from rota.outputs.port import Committer, Draft, KeepsLetters, Letter, Unfit
from rota.outputs.verdict import Turn
from rota.sdk.context import Batch
from rota.sources.port import Batch as Read
from rota.sources.port import Reader, Replaceable, Source, Vanished
from rota.store.follow import follow
from rota.store.port import Put, Store
from rota.streams.core.group import hesitation
from rota.streams.core.manifest import Offsets
from rota.streams.core.plan import MADE_ANEW
from rota.streams.core.records import Group, StreamTaskStatus
from rota.streams.task.letters import letter_of
from rota.streams.task.pace import ReadPace
from rota.streams.task.progress import ClosedSequence, Next, TaskProgress
from rota.streams.task.remake import remake
from rota.streams.task.transform import DeadLetter, TooManyErrors, TooSlow, Transform, TransformResult
from rota.streams.task.window import taken

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = timedelta(milliseconds=50), timedelta(seconds=2)
"""Shortest and longest wait before something is tried again that could not be done."""

FEW, REST = 100, 0.02
"""A read of at most this many records is followed by a rest of this many seconds, as a small read costs as much as a
large one."""

LOOK = 5.0
"""Seconds between looks at where the source ends."""

SLOW = 10.0
"""Seconds after which a function that has not returned is mentioned in the status."""

UNREADABLE, UNFIT, VANISHED = "not readable", "does not fit", "vanished"


class Over(RotaError):
    """The task has failed, or was dismissed: the current step is abandoned."""


class SequenceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a sequence a task has in its hands before it asks for a checkpoint, and how long it is silent."""

    rows: int = 5_000_000
    bytes: int = 256 * 1024 * 1024
    letters: int = 16 * 1024 * 1024
    """Bytes of dead letters, which are in memory until they are published."""

    time: timedelta | None = None
    batch: int = 2000
    """Records that are read at a time."""

    tell: timedelta = timedelta(seconds=1)
    """The time between statuses, while nothing changes but figures."""

    repeat: timedelta = timedelta(seconds=10)
    """The time between statuses that are all alike: one may have gone with a lease, and its age shows that it lives."""


class Assigned(msgspec.Struct, frozen=True, kw_only=True):
    """Which task it is."""

    stream: str
    group: str
    slot: int
    epoch: Revision
    node: NodeId
    life: str = ""
    """Which process it is, of those that have this epoch one after the other."""

    def __str__(self) -> str:
        return f"{self.stream}/{self.group}#{self.slot} epoch {self.epoch} on {self.node}"


@dataclass
class _Troubles:
    """What keeps a task from its work, each empty if nothing does."""

    group: str = ""
    """Why what the group is now is not understood; the task goes on by what the group was before."""

    output: str = ""
    """Why nothing can be opened or published."""

    source: str = ""
    """Why nothing can be read."""

    @property
    def gravest(self) -> str:
        """What to report of them."""
        return self.group or self.output or self.source


class StreamTask:
    """One task, from its start to its end."""

    def __init__(
        self,
        assigned: Assigned,
        transform: Transform,
        store: Store,
        source: Source,
        committer: Committer,
        clock: Clock,
        *,
        limits: SequenceLimits | None = None,
        lease: LeaseId | None = None,
        put_aside: Callable[[Sequence[DeadLetter]], None] = lambda letters: None,
        vanished: Callable[[Vanished], Awaitable[int | None]] | None = None,
    ) -> None:
        """`lease`: what its status is put under.

        `vanished` says where to go on where records are gone, or None; what is left out is on record when it returns.
        """
        self._assigned, self._transform, self._store = assigned, transform, store
        self._source, self._committer, self._clock = source, committer, clock
        self._limits, self._lease = limits or SequenceLimits(), lease
        self._put_aside, self._vanished = put_aside, vanished
        self._pace = ReadPace(self._limits.batch)
        self._called: Instant | None = None
        """Since when the function is at work."""

        self._progress: TaskProgress | None = None
        self._drafts: dict[int, Draft] = {}
        self._remade: set[int] = set()
        """Sequences that were made again, without records that the output refuses."""

        self._remaking = transform.again()
        """What the function failed on, and the output refused, in sequences that were made again."""

        self._aside: dict[int, set[tuple[int, int]]] = {}
        self._letters: dict[int, list[Letter]] = {}
        """By sequence: dead letters that are published with it, where the output keeps them."""
        """Sequence → its records that were put aside, by partition and offset."""

        self._verified = 0
        """Sequences before this one were read from one source."""

        self._opened = 0, clock.monotonic()
        """The open sequence, and since when it is."""

        self._bell = Bell()
        """Rings when something changed that another part should look at."""

        self._started: datetime | None = None
        self._rows = 0
        self._dropped: Counter[str] = Counter()
        self._latest: dict[int, int] = {}
        self._troubles = _Troubles()
        self._face: object = None
        self._told: tuple[StreamTaskStatus, Instant] | None = None
        """The status that is in the store, and since when."""

    async def run(self) -> str:
        """Run until everything of the group is published or the task has failed; returns why it failed, or an empty
        text."""
        # While it stands by: connecting takes longer than all else between one group and the next.
        opening = asyncio.ensure_future(self._until_it_works(lambda: self._source.reader({})))
        try:
            async with asyncio.TaskGroup() as parts:
                beside = [
                    parts.create_task(self._follow(), name="group"),
                    parts.create_task(self._tell_for_ever(), name="status"),
                    parts.create_task(self._look_for_ever(), name="lag"),
                ]
                progress = await self._begin()
                if progress.next is not Next.END:
                    async with asyncio.TaskGroup() as work:
                        work.create_task(self._publish(progress), name="publish")
                        work.create_task(self._read(progress, opening), name="read")
                for each in beside:
                    each.cancel()
            await self._tell()
        finally:
            await _closed(opening)
            for draft in self._drafts.values():
                draft.discard()
        return progress.error

    @property
    def hesitation(self) -> timedelta:
        """How long a task that has failed should wait before another takes its place."""
        return hesitation(self._progress.group) if self._progress else timedelta()

    # The group

    async def _follow(self) -> None:
        key = keys.stream_group(self._assigned.stream, self._assigned.group)
        async with aclosing(follow(self._store, key)) as entries:
            async for entry in entries:
                try:
                    group = codec.decode(Group, entry.value) if entry else None
                except Invalid as error:
                    self._troubles.group = f"its group is not understood here: {error}"
                    log.warning("stream group not understood", extra={"task": str(self._assigned), "why": str(error)})
                else:
                    self._troubles.group = ""
                    self._hear(group)
                self._bell.ring()

    def _hear(self, group: Group | None) -> None:
        if self._progress is not None:
            self._progress.heard(group)
            self._see_opened(self._progress)
        elif group is not None:
            self._progress = TaskProgress(slot=self._assigned.slot, epoch=self._assigned.epoch, group=group)

    async def _begin(self) -> TaskProgress:
        """Wait until the group says where to begin, and begin."""
        heard = 0
        while self._progress is None or not (self._progress.group.starts or self._progress.next is Next.END):
            heard = await self._bell.wait(heard)
        progress = self._progress
        if progress.next is not Next.END:
            try:
                is_fresh = not progress.group.sequences  # then nothing of it is published
                committed = await self._until_it_works(self._committer.attach)
                progress.begin({} if is_fresh else committed)
                self._opened = progress.number, self._clock.monotonic()
                self._started = self._clock.wall()
            except RotaError as error:
                progress.fail(str(error))
        self._note(progress)
        return progress

    async def _until_it_works(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of the call, retried while it is Unavailable or Unknown; other errors are raised."""
        waits = delays(*PATIENCE, random)
        while True:
            try:
                found = await call()
                self._troubles.output = ""
                return found
            except (Unavailable, Unknown) as error:
                self._troubles.output = str(error)
            await asyncio.sleep(next(waits).total_seconds())

    def _note(self, progress: TaskProgress) -> None:
        """Ring if the task has become something else to those who look at it."""
        face = (progress.state, progress.number, len(progress.closed), bool(self._wants(progress)))
        if face != self._face:
            self._face = face
            self._bell.ring()

    # Reading

    async def _read(self, progress: TaskProgress, opening: asyncio.Future[Reader]) -> None:
        try:
            reader = await opening
            while progress.next in (Next.WAIT, Next.READ):
                heard = self._bell.count
                if progress.next is Next.WAIT:
                    await self._bell.wait(heard)
                elif await self._read_once(progress, reader) <= FEW:
                    await self._bell.wait(heard, REST)
                self._note(progress)
        except RotaError as error:  # retrying will not help
            progress.fail(str(error))
            self._note(progress)

    async def _read_once(self, progress: TaskProgress, reader: Reader) -> int:
        """Take one batch of each partition, or nothing if something is heard before it comes; how many records."""
        before = progress.moves
        wanted = {each: at for each, at in progress.offsets.items() if at < _first(progress.limit(each), at + 1)}
        try:
            if dict(reader.positions) != wanted:
                await reader.assign(wanted)
            await self._take_all(progress, await self._unless_it_rings(reader))
        except Vanished as error:
            await self._go_past(progress, error)
        except (TooManyErrors, TooSlow) as error:
            progress.fail(str(error))
        except (Unavailable, Unknown) as error:
            self._troubles.source = str(error)
            await asyncio.sleep(PATIENCE[1].total_seconds())
        return progress.moves - before

    async def _unless_it_rings(self, reader: Reader) -> list[Read]:
        """What is read; nothing if something is heard first. What a reader had in hand it gives the next time."""
        reading = asyncio.ensure_future(reader.read(self._pace.size))
        hearing = asyncio.ensure_future(self._bell.wait(self._bell.count))
        try:
            tell = self._limits.tell.total_seconds()
            await asyncio.wait([reading, hearing], timeout=tell, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            hearing.cancel()
            await asyncio.wait([reading, hearing])
        self._troubles.source = reader.trouble or ""
        return [] if reading.cancelled() else reading.result()

    async def _take_all(self, progress: TaskProgress, batches: Sequence[Read]) -> None:
        """Make rows of what was read, and see how long that takes."""
        self._called = began = self._clock.monotonic()
        try:
            for batch in batches:
                await self._take(progress, batch)
        finally:
            self._called = None
        self._pace.took(sum(len(batch.records) for batch in batches), self._clock.monotonic() - began)

    async def _take(self, progress: TaskProgress, batch: Read) -> None:
        """Make rows of a batch, up to where the sequence ends; what is beyond is read again in the next one."""
        partition, number = batch.partition, progress.number
        end = _first(progress.limit(partition), batch.next)
        records = batch.records if end == batch.next else [each for each in batch.records if each.offset < end]
        dropped: Counter[str] = Counter()
        shown = taken(partition, records, progress.group, dropped, self._clock.wall())
        shown_batch = Batch(self._assigned.stream, shown, {partition: end}, batch.topic)
        made = await self._transform.make(shown_batch, self._committer.fitted)
        agreed = progress.ends
        if progress.next is not Next.READ or progress.number != number or (agreed and end > agreed[partition]):
            self._transform.forget(made)
            return  # something was asked or agreed while the rows were made: they are read again, as it says
        for rows in made.rows:
            draft = self._draft(number, progress.starts)
            before = draft.rows
            draft.append(rows)
            self._rows += draft.rows - before
        self._drop(number, made)
        self._dropped += dropped
        self._move(progress, partition, end, len(records))

    def _drop(self, number: int, made: TransformResult) -> None:
        """Put records of a sequence aside, and count them; those that are aside already stay as they are."""
        known = self._aside.setdefault(number, set())
        for why, letters in ((UNREADABLE, made.letters), (UNFIT, made.unfit)):
            if fresh := [each for each in letters if _place(each) not in known]:
                if isinstance(self._committer, KeepsLetters):
                    self._letters.setdefault(number, []).extend(
                        letter_of(self._assigned.stream, each) for each in fresh
                    )
                else:
                    self._put_aside(fresh)
                self._dropped[why] += len(fresh)
                known.update(map(_place, fresh))

    async def _go_past(self, progress: TaskProgress, error: Vanished) -> None:
        """Go on behind what is gone, if that is what the stream wants, or end."""
        upto = await self._vanished(error) if self._vanished else None
        if progress.next is not Next.READ:
            return  # a pause began meanwhile, and the status already has the offsets of this task
        at = progress.offsets[error.partition]
        if upto is None or upto < at:
            progress.fail(str(error))
            return
        end = _first(progress.limit(error.partition), upto)
        log.warning("records are gone", extra={"stream": self._assigned.stream, "why": str(error), "next": end})
        self._dropped[VANISHED] += end - at
        self._move(progress, error.partition, end, 0)

    def _move(self, progress: TaskProgress, partition: int, end: int, records: int) -> None:
        progress.read(partition, end, records)
        self._see_opened(progress)

    def _see_opened(self, progress: TaskProgress) -> None:
        """Note when a sequence was opened: by an agreement that was heard, or by reading up to one."""
        if progress.number != self._opened[0]:
            self._opened = progress.number, self._clock.monotonic()

    def _draft(self, number: int, starts: Offsets) -> Draft:
        """The draft of a sequence; it is made when it is first needed, which may be never until its publish."""
        if number not in self._drafts:
            self._drafts[number] = self._committer.draft(str(self._assigned), starts)
        return self._drafts[number]

    def _wants(self, progress: TaskProgress) -> str:
        """Why the open sequence should end."""
        if not progress.starts or progress.ends is not None or progress.offsets == progress.starts:
            return ""
        draft, age = self._drafts.get(progress.number), self._clock.monotonic() - self._opened[1]
        if draft is not None and draft.rows >= self._limits.rows:
            return f"it has {draft.rows} rows"
        if draft is not None and draft.bytes >= self._limits.bytes:
            return f"it has {draft.bytes} bytes"
        letters = sum(len(each.line) for each in self._letters.get(progress.number, ()))
        if letters >= self._limits.letters:
            return f"it has {letters} bytes of dead letters"
        if self._limits.time is not None and age >= self._limits.time.total_seconds():
            return f"it is {age:.0f} s old"
        return ""

    # Publishing

    async def _publish(self, progress: TaskProgress) -> None:
        """Publish what is closed, in order, until nothing more can come."""
        waits = delays(*PATIENCE, random)
        while progress.next is not Next.END:
            heard = self._bell.count
            if not progress.closed:
                await self._bell.wait(heard)
            elif await self._is_of_one_source(progress) and await self._publish_one(progress, progress.closed[0]):
                waits = delays(*PATIENCE, random)
                self._note(progress)
            else:
                await asyncio.sleep(next(waits).total_seconds())

    async def _is_of_one_source(self, progress: TaskProgress) -> bool:
        """Was the next sequence read from its group's source alone? False: not, or it has to be asked again.

        A client may follow a topic's name into the one made anew under it. If the source is still the same once all
        was read, all was read from it. One that is deleted has no other in its place, and what was read is published.
        """
        if progress.closed[0].number < self._verified:
            return True
        upto = progress.number
        try:
            is_same = await self._source_is_same(progress.group)
        except (Unavailable, Unknown) as error:
            self._troubles.output = str(error)
            return False
        except RotaError as error:
            progress.fail(str(error))
            return False
        if is_same:
            self._verified = upto
        else:
            progress.fail(f"it cannot publish: {MADE_ANEW}")
        return is_same

    async def _source_is_same(self, group: Group) -> bool:
        source = self._source
        try:
            if isinstance(source, Replaceable) and await source.replaced(group.partitions):
                return False
            now = await source.identity()
        except NotFound:
            return True
        return None in (now, group.identity) or now == group.identity

    async def _publish_one(self, progress: TaskProgress, sequence: ClosedSequence) -> bool:
        """Try to publish a sequence; True if its verdict is final."""
        starts = {each.partition: each.start for each in sequence.ranges}
        draft = self._draft(sequence.number, starts)
        if isinstance(self._committer, KeepsLetters):
            self._committer.keep_letters(draft, self._letters.get(sequence.number, ()))
        try:
            verdict = await self._committer.publish(draft, sequence.ranges)
        except (Unavailable, Unknown) as error:
            self._troubles.output = str(error)
            return False
        except Unfit as error:
            return await self._publish_the_rest(progress, sequence, error)
        except RotaError as error:
            progress.fail(f"it cannot publish: {error}")
            return True
        self._troubles.output = ""
        progress.told(sequence, verdict)
        if verdict.turn is Turn.AHEAD:
            return False
        self._drafts.pop(sequence.number).discard()
        self._aside.pop(sequence.number, None)
        self._letters.pop(sequence.number, None)
        return True

    async def _publish_the_rest(self, progress: TaskProgress, sequence: ClosedSequence, refused: Unfit) -> bool:
        """Make a sequence again without the records whose rows its output refuses; True if it need not be retried."""
        if sequence.number in self._remade:
            progress.fail(
                f"it cannot publish: {refused}; no single record is at fault, only several together are refused"
            )
            return True
        self._troubles.output = str(refused)
        try:
            draft = await self._made_again(progress, sequence)
        except (RotaError, TooManyErrors, TooSlow) as error:
            self._troubles.output = str(error)
            if not isinstance(error, Unavailable | Unknown):
                progress.fail(f"it cannot publish: {error}")
            return bool(progress.error)
        self._remade.add(sequence.number)
        self._verified = min(self._verified, sequence.number)  # it was read once more: perhaps of another source
        before, self._drafts[sequence.number] = self._drafts[sequence.number], draft
        self._rows += draft.rows - before.rows
        before.discard()
        return False

    async def _made_again(self, progress: TaskProgress, sequence: ClosedSequence) -> Draft:
        """A draft with the rows of a sequence that its output takes; the records of the others are put aside."""
        draft = self._committer.draft(str(self._assigned), {each.partition: each.start for each in sequence.ranges})
        transform, show = self._remaking.copied(), partial(self._shown_again, progress)
        with ExitStack() as undo:
            undo.callback(draft.discard)
            made = await remake(sequence.ranges, self._source, show, transform, self._committer, draft, self._pace.size)
            self._drop(sequence.number, made)  # on disk before anything without them is published
            self._remaking = transform
            undo.pop_all()
        return draft

    def _shown_again(self, progress: TaskProgress, batch: Read, end: int) -> Batch:
        """What the function saw of a batch up to `end`; what was dropped then is counted already."""
        if progress.error:
            raise Over(progress.error)
        records = [each for each in batch.records if each.offset < end]
        progress.moves += len(records)  # it is no standstill
        shown = taken(batch.partition, records, progress.group, Counter(), self._clock.wall())
        return Batch(self._assigned.stream, shown, {batch.partition: min(end, batch.next)}, batch.topic)

    # Telling

    async def _tell_for_ever(self) -> None:
        """Write the status until cancelled: at once when something changes, every `tell` if only figures do, else every
        `repeat`."""
        heard = 0
        while True:
            heard = await self._bell.wait(heard, self._limits.tell.total_seconds())
            await self._tell()

    async def _tell(self) -> None:
        status, now = self._status(), self._clock.monotonic()
        if status is None or self._is_known(status, now):
            return
        self._told = None
        key = keys.stream_task(status.stream, status.group, status.slot, status.epoch)
        with suppress(Unavailable, Unknown):  # it is written again
            await self._store.commit(Put(key, codec.encode(status), self._lease))
            self._told = status, now

    def _is_known(self, status: StreamTaskStatus, now: Instant) -> bool:
        """Was the same status, apart from its time, written less than `repeat` ago?"""
        if self._told is None:
            return False
        told, since = self._told
        return now - since < self._limits.repeat.total_seconds() and replace(status, at=told.at) == told

    def _status(self) -> StreamTaskStatus | None:
        progress, assigned = self._progress, self._assigned
        if progress is None:
            return None
        return StreamTaskStatus(
            stream=assigned.stream,
            group=assigned.group,
            slot=assigned.slot,
            node=assigned.node,
            epoch=assigned.epoch,
            state=progress.state,
            life=assigned.life,
            started=self._started,
            sequence=progress.number,
            offsets=dict(progress.offsets),
            progress=progress.moves,
            wants_checkpoint=self._wants(progress),
            rows=self._rows,
            dropped=dict(self._dropped),
            latest=dict(self._latest),
            trouble=self._troubles.gravest or self._slowness(),
            error=progress.error,
            at=self._clock.wall(),
        )

    def _slowness(self) -> str:
        if self._called is None or self._clock.monotonic() - self._called < SLOW:
            return ""
        return f"its function takes longer than {SLOW:.0f} s for up to {self._pace.size} records"

    async def _look_for_ever(self) -> None:
        """Query where the source ends, for the lag, until cancelled."""
        while True:
            if self._progress is not None:
                with suppress(RotaError):
                    bounds = await self._source.bounds(self._progress.group.partitions)
                    self._latest = {each: bound.end for each, bound in bounds.items()}
            await asyncio.sleep(LOOK)


async def _closed(opening: asyncio.Future[Reader]) -> None:
    """Close the reader, if it was opened."""
    opening.cancel()
    with suppress(asyncio.CancelledError, RotaError):
        await (await opening).close()


def _place(letter: DeadLetter) -> tuple[int, int]:
    return letter.record.partition, letter.record.offset


def _first(limit: int | None, offset: int) -> int:
    """An offset, or the limit before it."""
    return offset if limit is None else min(limit, offset)
