"""One stream, kept going for as long as this node leads.

A turn looks at the source and the output, asks `streams.core` what the groups should be, and writes what changed. The
supervisor places what stands for a group in the store, and the tasks say how they are: nobody is called, and nothing is
kept here that is not in the store, so a leader may die between any two turns.

Every commit expects and writes the stream's status. So of two commits based on the same reading only one is accepted;
one of unknown outcome, however late it arrives, is refused once another was written.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import chain

from rota.fleet.leading.term import Term
from rota.kit.time import durations
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, RotaError, TermOver, Unavailable, Unknown
from rota.model.ids import Instant, Key, origin
from rota.outputs.port import Committer
from rota.resources.core.records import ResourceRecord
from rota.store.clock import StoreClock
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Write
from rota.store.records import understood
from rota.streams.core.gone import gone, reached
from rota.streams.core.group import GroupMember, Tuning
from rota.streams.core.health import dropped
from rota.streams.core.plan import Aims, GroupPlan, plan
from rota.streams.core.records import (
    Group,
    Phase,
    Reset,
    StreamRecord,
    StreamStatus,
    kind_of,
)
from rota.streams.core.spec import StreamSpec, spec_of
from rota.streams.fleet.account import Account, dismissals
from rota.streams.fleet.heard import TasksHeard, WishesHeard
from rota.streams.fleet.outside import Outside
from rota.streams.fleet.placed import Placements
from rota.streams.fleet.resets import Resets
from rota.streams.fleet.writing import changes

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between turns when nothing is heard, and between statuses when only figures change."""

SPACING, HURRY = 0.05, 0.01
"""Seconds between turns, however much is heard; and while a group has paused, so that nobody reads."""

LOOK = 5.0
"""Seconds between looks at the source."""

SWEEP = 60.0
"""Seconds between looks for what dead tasks left."""

RETRY = 0.5
"""Seconds to wait for a store that is away."""

Tell = Callable[..., None]


class StreamKeeper:
    """One stream of one term."""

    def __init__(
        self,
        term: Term,
        name: str,
        record: Callable[[], StreamRecord],
        placements: Placements,
        clock: Clock,
        store_clock: StoreClock,
        tell: Tell,
        tick: float = TICK,
    ) -> None:
        """`store_clock` is for what is written down: another leader compares it with its own time."""
        self._term, self._name, self._record, self._placements = term, name, record, placements
        self._clock, self._store_clock, self._tell, self._tick = clock, store_clock, tell, tick
        self._outside = Outside(term.store)
        self._account = Account(name, self._outside)
        self._bell = placements.bell(origin(name))
        self._tasks = TasksHeard(term, name, placements, store_clock, self._bell)
        self._wishes = WishesHeard(term, name, self._bell)
        self._resets = Resets(name, record, self._outside, self._account, self._wishes, self._commit, tell)
        self._groups: dict[str, Group] = {}
        self._strange = ""
        """What is wrong with a group that a newer Rota wrote, if there is one."""

        self._placed_by: dict[str, int | None] = {}
        """Replicas of each group's resource, as they are written."""

        self._understood: tuple[StreamRecord, StreamSpec] | None = None
        self._status: Entry | None = None
        self._looked: Instant | None = None
        self._before_look: dict[int, int] = {}
        """Up to where the output was when the source was last looked at."""

        self._began = self._swept = self._told = clock.monotonic()

    async def run(self) -> None:
        """Run turns until cancelled."""
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._tasks.follow(), name="stream tasks")
                parts.create_task(self._wishes.follow(), name="wishes")
                await self._load()
                for known in (self._tasks.are_known, self._wishes.are_known, self._placements.is_known):
                    await known.wait()  # or those would be taken for silent that were not heard yet
                while True:
                    heard = self._bell.count
                    await self._turn(self._store_clock.now())
                    is_paused = any(group.phase is Phase.PAUSING for group in self._groups.values())
                    await asyncio.sleep(HURRY if is_paused else SPACING)
                    await self._bell.wait(heard, self._tick)
        finally:
            await self._outside.close()

    # What the store says

    async def _load(self) -> None:
        """Read the groups, and the status that guards them."""
        while True:
            try:
                status = await self._term.store.get(keys.STREAM_STATUS + self._name)
                groups = (await self._term.store.scan(f"{keys.STREAM_GROUPS}{self._name}/")).entries
                await self._load_resources()
                break
            except (Unavailable, Unknown) as error:
                log.debug("stream not read yet", extra={"stream": self._name, "why": str(error)})
                await asyncio.sleep(RETRY)
        self._status = status
        self._account.read(understood(StreamStatus, status, log))
        self._groups, self._strange = {}, ""
        for entry in groups:
            try:
                group = codec.decode(Group, entry.value)
                self._groups[group.id] = group
            except Invalid as error:
                self._strange = f"group {entry.key.rpartition('/')[2]} is not understood here: {error}"

    async def _load_resources(self) -> None:
        entries = (await self._term.store.scan(f"{keys.RESOURCES}{kind_of(self._name)}/")).entries
        records = [record for entry in entries if (record := understood(ResourceRecord, entry, log))]
        self._placed_by = {record.id: record.replicas for record in records}

    @property
    def _spec(self) -> StreamSpec:
        """The declaration, as it is now; it is understood anew only when it has changed."""
        record = self._record()
        if self._understood is None or self._understood[0] is not record:
            self._understood = record, spec_of(record)
        return self._understood[1]

    # A turn

    async def _turn(self, now: datetime) -> None:
        """Look, plan, write."""
        try:
            await self._check_groups()
            spec = self._spec
            output = await self._outside.output(spec)
            self._account.committed = await output.committed()
            await self._look(spec, now)
            await self._begin(output, spec, now)
            if self._account.committed and not self._is_to_be_reset:
                members = self._tasks.members()
                self._account.saw_trouble(_trouble(chain.from_iterable(members.values())), now)
                groups = list(self._groups.values())
                found = plan(self._aims(spec, now), groups, members, self._account.committed, now)
                if found.published:  # who published may have died before it was visible: nobody looks after it then
                    await output.sweep()
                await self._write(found, spec, now)
            await self._sweep(output)
        except TermOver:
            raise
        except RotaError as error:
            self._account.looked(is_good=False)
            self._account.failed(str(error), now)
        if self._clock.monotonic() - self._told >= self._tick:
            await self._commit([], now)

    async def _check_groups(self) -> None:
        """Invalid while a group is a newer Rota's: its partitions are not known here, and it may still publish them."""
        if self._strange:
            await self._load()
        if self._strange:
            raise Invalid(f"{self._strange}; the stream is left to a leader of that version: update this node")

    async def _look(self, spec: StreamSpec, now: datetime) -> None:
        """See what the source has, every so often; what is not seen is taken to be as it was."""
        since = self._clock.monotonic()
        reset = self._wishes.now.reset
        is_asked = reset is not None and not reset.move  # what it comes to depends on it
        if self._looked is not None and since - self._looked < LOOK and not is_asked:
            return
        self._looked = since
        committed = self._account.committed
        try:
            await self._outside.look(spec)
            self._before_look = committed
            self._account.looked(is_good=True)
        except RotaError as error:
            self._account.looked(is_good=False)
            contact = "lost contact with the source" if self._outside.partitions else "unable to connect to the source"
            self._account.failed(f"{contact}: {error}", now)

    async def _begin(self, output: Committer, spec: StreamSpec, now: datetime) -> None:
        """Begin what is new, and begin anew what is another source."""
        account, bounds = self._account, self._outside.bounds
        if bounds and account.upto_as != spec.ends_as:
            account.upto, account.upto_as = await self._outside.ends(spec), spec.ends_as
        if starts := await self._outside.starts(spec, account.committed):
            account.committed = await output.begin(starts)
        if self._wishes.now.reset is not None and self._is_to_be_reset:
            await self._resets.make(output, spec, self._wishes.now.reset, now)
        elif bounds and self._wishes.may_be_written and account.is_made_anew and spec.vanished != "halt":
            await self._resets.make(output, spec, Reset(to=spec.vanished, by="", at=now), now)

    @property
    def _is_to_be_reset(self) -> bool:
        """Is an offset reset requested that can be carried out now?"""
        return self._wishes.now.reset is not None and bool(self._outside.bounds)

    def _aims(self, spec: StreamSpec, now: datetime) -> Aims:
        account, wished = self._account, self._wishes.now
        account.look_for_quiet(spec.idle_after, now)
        lost = {} if account.is_made_anew else self._gone(spec)
        account.waits = next((f"partition {each} waits: {why}" for each, why in lost.items()), "")
        account.delay = ""
        if not self._groups and self._is_starting(spec):
            account.delay = f"it begins {durations.render(spec.start_delay)} after a leader took it up: start_delay"
        if account.is_made_anew:
            account.waits = "the source was made anew; reset the offsets to go on"
        known = self._outside.partitions or tuple(account.committed)
        return Aims(
            stream=self._name,
            spec=spec.digest,
            tasks=wished.tasks or account.scale(spec, now),
            partitions=[
                each for each in known if each in account.committed and each not in lost and self._is_read(each)
            ],
            tuning=Tuning(
                duration=spec.duration,
                completion_timeout=spec.completion_timeout,
                pause_timeout=spec.pause_timeout,
            ),
            at_a_time=spec.at_a_time,
            late=spec.late,
            early=spec.early,
            late_start=spec.late_start,
            identity=account.identity,
            is_made_anew=account.is_made_anew,
            replaced=self._outside.replaced,
            is_stopping=wished.is_suspended or wished.is_terminated,
            is_starting=self._is_starting(spec),
            is_idle=account.is_idle,
            upto=account.upto,
            hand_off=frozenset(wished.hand_off),
            generation=account.generation,
        )

    def _is_starting(self, spec: StreamSpec) -> bool:
        """Is it too early to make groups?"""
        return self._clock.monotonic() - self._began < spec.start_delay.total_seconds()

    def _is_read(self, partition: int) -> bool:
        """Is it one that the stream reads? One that ends somewhere has only those that it began with."""
        return not self._account.upto_as or partition in self._account.upto

    def _gone(self, spec: StreamSpec) -> dict[int, str]:
        """Partitions that cannot be read on: an operator must set their offsets."""
        if spec.vanished != "halt":
            return {}
        spans = {each: (bounds.start, bounds.end) for each, bounds in self._outside.bounds.items()}
        held = reached(self._groups.values(), self._tasks.said.values())
        return gone(spans, self._account.committed, self._before_look, held)

    # Writing

    async def _write(self, found: GroupPlan, spec: StreamSpec, now: datetime) -> None:
        """Write what a plan changes, and record its events."""
        before, tasks = self._groups, list(self._tasks.said.values())
        said: defaultdict[str, list[Key]] = defaultdict(list)
        for key, status in self._tasks.said.items():
            said[status.group].append(key)
        writes = changes(before, found, spec.replicas, self._placed_by, said)
        if not writes:
            return
        self._account.planned(before, found, tasks, now)
        self._groups = found.groups
        self._placed_by = dict.fromkeys(found.groups, spec.replicas)
        writes[0] += self._wishes.without_handed_off(before, found)
        for some in writes:
            if not await self._commit(some, now):
                return
        for id in found.published:
            if left_out := dropped([id], tasks):
                self._tell("stream.dropped", self._name, group=id, count=left_out.total(), why=_reasons(left_out))
        for id, why in found.given_up.items():
            self._tell("stream.given_up", self._name, group=id, why=why)
        for group, slot, why in dismissals(before, found):
            self._tell("stream.dismissed", self._name, group=group.id, slot=slot, why=why)

    async def _commit(self, writes: list[Write], now: datetime) -> bool:
        """Write as leader, with the status; False if the commit was refused, and then everything is read again."""
        self._told = self._clock.monotonic()
        status, said = self._account.status(self._wishes.now, self._groups.values(), now), self._account.said
        if not writes and status == said:
            return True
        key, value = keys.STREAM_STATUS + self._name, codec.encode(status)
        expect: list[Expect] = [At(key, self._status.modified) if self._status else Absent(key)]
        expect += self._wishes.expected(writes)
        try:
            revision = await self._term.commit(*writes, Put(key, value), expect=expect)
        except (Conflict, Unavailable, Unknown) as error:
            log.debug("stream not written", extra={"stream": self._name, "why": str(error)})
            await asyncio.sleep(RETRY)
            await self._load()
            return False
        self._status, self._account.said = Entry(key, value, revision, revision), status
        self._wishes.wrote(writes, revision)
        if said is not None and said.tasks != status.tasks:
            tasks, before = (each or self._spec.tasks for each in (status.tasks, said.tasks))
            self._tell("stream.scaled", self._name, tasks=tasks, before=before, lag=status.lag)
        if status.waits and not (said and said.waits):
            self._tell("stream.waits", self._name, why=status.waits)
        if said is None or said.state is not status.state:
            self._tell("stream.state", self._name, state=status.state.value, why=status.detail or None)
        return True

    async def _sweep(self, output: Committer) -> None:
        """Delete what dead tasks left, periodically; restore what another process deleted."""
        since = self._clock.monotonic()
        if since - self._swept < SWEEP:
            return
        self._swept = since
        await output.sweep()
        here = {(each.group, each.slot, each.epoch) for each in self._placements.of(origin(self._name))}
        old = [key for key, each in self._tasks.said.items() if (each.group, each.slot, each.epoch) not in here]
        for start in range(0, len(old), 100):
            await self._term.commit(*(Delete(key) for key in old[start : start + 100]))
        await self._load_resources()


def _reasons(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))


def _trouble(members: Iterable[GroupMember]) -> str:
    """Why one of these tasks cannot read or publish at the moment; nothing if all can."""
    for each in members:
        if each.status and each.status.trouble:
            return f"task {each.status.group}#{each.slot} on {each.node}: {each.status.trouble}"
    return ""
