"""One stream task: reads what its group says, makes rows, publishes them with their offsets, and says how it is.

Its decisions are `progress`; this is the shell. Four things go on at a time: following the group's record, reading,
publishing, and writing the status. Reading is a loop of small steps, so that a pause takes effect within one batch.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from random import random
from typing import TypeVar

from rota.kit.bell import Bell
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Instant, LeaseId
from rota.outputs.port import Committer
from rota.sources.port import Batch as Read
from rota.sources.port import Reader, Source, Vanished
from rota.store.follow import follow
from rota.store.port import Store
from rota.streams.core.context import Batch
from rota.streams.core.group import hesitation
from rota.streams.core.records import Group, StreamTaskStatus
from rota.streams.task.assigned import PATIENCE, Assigned, SequenceLimits, Troubles
from rota.streams.task.drafts import Drafts
from rota.streams.task.pace import ReadPace
from rota.streams.task.progress import Next, TaskProgress
from rota.streams.task.publishing import Publishing
from rota.streams.task.telling import StatusTelling
from rota.streams.task.transform import DeadLetter, TooManyErrors, TooSlow, Transform
from rota.streams.task.window import taken

log = logging.getLogger(__name__)

T = TypeVar("T")

FEW, REST = 100, 0.02
"""A read of at most this many records is followed by a rest of this many seconds, as a small read costs as much as a
large one."""

LOOK = 5.0
"""Seconds between looks at where the source ends."""

SLOW = 10.0
"""Seconds after which a function that has not returned is mentioned in the status."""

VANISHED = "vanished"


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
        self._limits, self._vanished = limits or SequenceLimits(), vanished
        self._pace = ReadPace(self._limits.batch)
        self._called: Instant | None = None
        """Since when the function is at work."""

        self._progress: TaskProgress | None = None
        self._drafts = Drafts(assigned, committer, put_aside)
        self._opened = 0, clock.monotonic()
        """The open sequence, and since when it is."""

        self._bell = Bell()
        """Rings when something changed that another part should look at."""

        self._started: datetime | None = None
        self._latest: dict[int, int] = {}
        self._troubles = Troubles()
        self._face: object = None
        self._telling = StatusTelling(store, clock, self._limits, lease)
        parts = self._pace, self._drafts, self._troubles, self._bell
        self._publishing = Publishing(assigned, transform, source, committer, clock, *parts, self._note)

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
                        work.create_task(self._publishing.run(progress), name="publish")
                        work.create_task(self._read(progress, opening), name="read")
                for each in beside:
                    each.cancel()
            await self._tell()
        finally:
            await _closed(opening)
            self._drafts.discard()
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
        self._drafts.append(number, progress.starts, made.rows)
        self._drafts.drop(number, made)
        self._drafts.dropped += dropped
        self._move(progress, partition, end, len(records))

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
        self._drafts.dropped[VANISHED] += end - at
        self._move(progress, error.partition, end, 0)

    def _move(self, progress: TaskProgress, partition: int, end: int, records: int) -> None:
        progress.read(partition, end, records)
        self._see_opened(progress)

    def _see_opened(self, progress: TaskProgress) -> None:
        """Note when a sequence was opened: by an agreement that was heard, or by reading up to one."""
        if progress.number != self._opened[0]:
            self._opened = progress.number, self._clock.monotonic()

    def _wants(self, progress: TaskProgress) -> str:
        """Why the open sequence should end."""
        if not progress.starts or progress.ends is not None or progress.offsets == progress.starts:
            return ""
        if full := self._drafts.fullness(progress.number, self._limits):
            return full
        age = self._clock.monotonic() - self._opened[1]
        if self._limits.time is not None and age >= self._limits.time.total_seconds():
            return f"it is {age:.0f} s old"
        return ""

    # Telling

    async def _tell_for_ever(self) -> None:
        """Write the status until cancelled: at once when something changes, every `tell` if only figures do, else every
        `repeat`."""
        heard = 0
        while True:
            heard = await self._bell.wait(heard, self._limits.tell.total_seconds())
            await self._tell()

    async def _tell(self) -> None:
        if (status := self._status()) is not None:
            await self._telling.tell(status)

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
            rows=self._drafts.rows,
            dropped=dict(self._drafts.dropped),
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


def _first(limit: int | None, offset: int) -> int:
    """An offset, or the limit before it."""
    return offset if limit is None else min(limit, offset)
