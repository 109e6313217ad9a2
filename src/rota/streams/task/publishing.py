"""Publishing what a stream task has read: sequence after sequence, each whole, and each from its group's source alone.

A sequence whose rows the output refuses is made again without those records.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from random import random

from rota.kit.bell import Bell
from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model.errors import NotFound, RotaError, Unavailable, Unknown
from rota.outputs.port import Committer, Draft, KeepsLetters, Unfit
from rota.outputs.verdict import Turn
from rota.sources.port import Batch as Read
from rota.sources.port import Replaceable, Source
from rota.streams.core.context import Batch
from rota.streams.core.plan import MADE_ANEW
from rota.streams.core.records import Group
from rota.streams.task.assigned import PATIENCE, Assigned, Troubles
from rota.streams.task.drafts import Drafts
from rota.streams.task.pace import ReadPace
from rota.streams.task.progress import ClosedSequence, Next, TaskProgress
from rota.streams.task.remake import remake
from rota.streams.task.transform import TooManyErrors, TooSlow, Transform
from rota.streams.task.window import taken


class Over(RotaError):
    """The task has failed, or was dismissed: what it is about to do is of no use."""


class Publishing:
    """The publishing of one task."""

    def __init__(
        self,
        assigned: Assigned,
        transform: Transform,
        source: Source,
        committer: Committer,
        clock: Clock,
        pace: ReadPace,
        drafts: Drafts,
        troubles: Troubles,
        bell: Bell,
        note: Callable[[TaskProgress], None],
    ) -> None:
        """`bell` rings when there may be something to publish; `note` hears of what was published."""
        self._assigned, self._source, self._committer, self._clock = assigned, source, committer, clock
        self._pace, self._drafts, self._troubles, self._bell, self._note = pace, drafts, troubles, bell, note
        self._remade: set[int] = set()
        """Sequences that were made again, without records that the output refuses."""

        self._remaking = transform.again()
        """What the function failed on, and the output refused, in sequences that were made again."""

        self._verified = 0
        """Sequences before this one were read from one source."""

    async def run(self, progress: TaskProgress) -> None:
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
        """Try to publish a sequence; was it decided?"""
        starts = {each.partition: each.start for each in sequence.ranges}
        draft = self._drafts.draft(sequence.number, starts)
        if isinstance(self._committer, KeepsLetters):
            self._committer.keep_letters(draft, self._drafts.letters(sequence.number))
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
        self._drafts.decided(sequence.number)
        return True

    async def _publish_the_rest(self, progress: TaskProgress, sequence: ClosedSequence, refused: Unfit) -> bool:
        """Make a sequence again without the records whose rows its output refuses; is there nothing to try again?"""
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
        self._drafts.replace(sequence.number, draft)
        return False

    async def _made_again(self, progress: TaskProgress, sequence: ClosedSequence) -> Draft:
        """A draft with the rows of a sequence that its output takes; the records of the others are put aside."""
        draft = self._committer.draft(str(self._assigned), {each.partition: each.start for each in sequence.ranges})
        transform, show = self._remaking.copied(), partial(self._shown_again, progress)
        with ExitStack() as undo:
            undo.callback(draft.discard)
            made = await remake(sequence.ranges, self._source, show, transform, self._committer, draft, self._pace.size)
            self._drafts.drop(sequence.number, made)  # on disk before anything without them is published
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
