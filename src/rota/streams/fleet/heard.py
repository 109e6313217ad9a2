"""What is heard of a stream from the store: what its tasks say of themselves, and what operators request of it."""

import asyncio
import logging
from collections import defaultdict
from contextlib import aclosing
from datetime import datetime

from rota.fleet.leading.term import Term
from rota.kit.bell import Bell
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.ids import Key, Revision, origin
from rota.store.clock import StoreClock
from rota.store.follow import follow, follow_all
from rota.store.port import Absent, At, Entry, Expect, Put, Write
from rota.store.records import understood
from rota.streams.core.group import GroupMember
from rota.streams.core.plan import GroupPlan
from rota.streams.core.records import Group, Phase, Reset, StreamTaskStatus, StreamWishes
from rota.streams.fleet.placed import Placements

log = logging.getLogger(__name__)


class TasksHeard:
    """The tasks of a stream, as they say of themselves."""

    def __init__(self, term: Term, name: str, placements: Placements, store_clock: StoreClock, bell: Bell) -> None:
        """`bell` is rung when something is heard."""
        self._term, self._name, self._placements = term, name, placements
        self._store_clock, self._bell = store_clock, bell
        self.said: dict[Key, StreamTaskStatus] = {}
        self._lives: dict[Key, tuple[str, datetime]] = {}
        """Which life of each task this leader has heard of last, and since when."""

        self.are_known = asyncio.Event()

    async def follow(self) -> None:
        """Hear what tasks say."""
        async with aclosing(follow_all(self._term.store, f"{keys.STREAM_TASKS}{self._name}/")) as coming:
            async for news in coming:
                if news.is_whole:
                    self.said.clear()
                for change in news.changes:
                    self._hear(change.key, understood(StreamTaskStatus, change.entry, log))
                if news.is_whole:
                    self._lives = {key: life for key, life in self._lives.items() if key in self.said}
                self.are_known.set()
                self._bell.ring()

    def _hear(self, key: Key, status: StreamTaskStatus | None) -> None:
        """Note what a task says, and since when this life of it says something."""
        if status is None:
            self.said.pop(key, None)
            self._lives.pop(key, None)
            return
        self.said[key] = status
        if key not in self._lives or self._lives[key][0] != status.life:
            self._lives[key] = status.life, self._store_clock.now()

    def members(self) -> dict[str, list[GroupMember]]:
        """Each group's tasks, with what they say."""
        found: defaultdict[str, list[GroupMember]] = defaultdict(list)
        for each in self._placements.of(origin(self._name)):
            key = keys.stream_task(self._name, each.group, each.slot, each.epoch)
            _, since = self._lives.get(key, ("", each.since))
            placed, status = max(each.since, since), self.said.get(key)
            found[each.group].append(
                GroupMember(slot=each.slot, epoch=each.epoch, node=each.node, placed=placed, status=status)
            )
        return found


class WishesHeard:
    """What operators request of a stream."""

    def __init__(self, term: Term, name: str, bell: Bell) -> None:
        """`bell` is rung when something is heard."""
        self._term, self._name, self._bell = term, name, bell
        self._entry: Entry | None = None
        self.now = StreamWishes()
        self.may_be_written = True
        """Not if a newer Rota has written wishes that we do not understand: they would be lost."""

        self.are_known = asyncio.Event()

    async def follow(self) -> None:
        """Hear what is wanted."""
        async with aclosing(follow(self._term.store, keys.STREAM_WISHES + self._name)) as coming:
            async for entry in coming:
                known = understood(StreamWishes, entry, log)
                self._entry, self.now = entry, known or StreamWishes()
                self.may_be_written = entry is None or known is not None
                self.are_known.set()
                self._bell.ring()

    def written_with(self, reset: Reset | None) -> Put:
        """The wishes, with another reset or none."""
        return Put(keys.STREAM_WISHES + self._name, codec.encode(replace(self.now, reset=reset)))

    def without_handed_off(self, before: dict[str, Group], found: GroupPlan) -> list[Write]:
        """Take out the wishes that are being fulfilled."""
        ending = {
            group.number
            for id, group in found.groups.items()
            if id in before
            and before[id].phase is Phase.READING
            and (group.is_final or group.phase is Phase.PUBLISHING)
        }
        if self._entry is None or not ending.intersection(self.now.hand_off):
            return []
        left = tuple(each for each in self.now.hand_off if each not in ending)
        return [Put(self._entry.key, codec.encode(replace(self.now, hand_off=left)))]

    def expected(self, writes: list[Write]) -> list[Expect]:
        """What must hold for those of these writes that change wishes."""
        return [At(each.key, self._entry.modified) if self._entry else Absent(each.key) for each in _wishes(writes)]

    def wrote(self, writes: list[Write], revision: Revision) -> None:
        """Take in what was written: it is followed too, but not before the next turn perhaps."""
        for write in _wishes(writes):
            self._entry = Entry(write.key, write.value, revision, revision)
            self.now = codec.decode(StreamWishes, write.value)


def _wishes(writes: list[Write]) -> list[Put]:
    return [write for write in writes if isinstance(write, Put) and write.key.startswith(keys.STREAM_WISHES)]
