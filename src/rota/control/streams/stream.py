"""One stream, kept going for as long as this node leads.

A turn looks at the source and the output, asks `decide.streams` what the groups should be, and writes what changed. The
supervisor places what stands for a group in the store, and the tasks say how they are: nobody is called, and nothing is
kept here that is not in the store, so a leader may die between any two turns.

Every commit expects and writes the stream's status. Of two commits only one can therefore go by what was read; one of
unknown outcome, however late it arrives, is refused once another was written.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime

from rota.control.streams.outside import Outside
from rota.control.streams.placed import Placements
from rota.control.streams.writing import changes
from rota.control.term import Term
from rota.decide.streams import health as healths
from rota.decide.streams.chain import in_order
from rota.decide.streams.group import Member, Tuning
from rota.decide.streams.health import Health, Quiet
from rota.decide.streams.plan import Aims, Plan, plan
from rota.kit.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, RotaError, TermOver, Unavailable, Unknown
from rota.model.ids import Instant, Key
from rota.model.resource import ResourceRecord
from rota.model.stream import (
    Group,
    Phase,
    StreamError,
    StreamRecord,
    StreamState,
    StreamStatus,
    StreamTaskStatus,
    StreamWishes,
    kind_of,
)
from rota.store.follow import follow, follow_all
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Write
from rota.store.records import understood
from rota.workloads.streams.spec import StreamSpec, spec_of

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between turns when nothing is heard."""

SPACING = 0.05
"""Seconds between turns, however much is heard."""

LOOK = 5.0
"""Seconds between looks at the source."""

SWEEP = 60.0
"""Seconds between looks for what dead tasks left."""

ERRORS = 10
"""How many of the last errors are shown."""

RETRY = 0.5
"""Seconds to wait for a store that is away."""

LONGEST = 500
"""Characters of an error that is shown."""

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
        tell: Tell,
    ) -> None:
        self._term, self._name, self._record, self._placements = term, name, record, placements
        self._clock, self._tell = clock, tell
        self._outside = Outside(term.store)
        self._bell = placements.bell(name)
        self._groups: dict[str, Group] = {}
        self._placed_by: dict[str, int | None] = {}
        """Replicas of each group's resource, as they are written."""

        self._status: Entry | None = None
        self._said: StreamStatus | None = None
        self._wishes: Entry | None = None
        self._wished = StreamWishes()
        self._tasks: dict[Key, StreamTaskStatus] = {}
        self._are_tasks_known = asyncio.Event()
        self._are_wishes_known = asyncio.Event()
        self._health, self._quiet = Health(), Quiet()
        self._errors: list[StreamError] = []
        self._committed: dict[int, int] = {}
        self._detail = ""
        self._is_idle = False
        self._looked: Instant | None = None
        self._swept = clock.monotonic()
        self._told = clock.monotonic()

    async def run(self) -> None:
        """Turn for ever."""
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._follow_tasks(), name="stream tasks")
                parts.create_task(self._follow_wishes(), name="wishes")
                await self._load()
                for known in (self._are_tasks_known, self._are_wishes_known, self._placements.is_known):
                    await known.wait()
                while True:
                    heard = self._bell.count
                    await self._turn()
                    await asyncio.sleep(SPACING)
                    await self._bell.wait(heard, TICK)
        finally:
            await self._outside.close()

    # What the store says

    async def _load(self) -> None:
        """Read the groups, and the status that guards them."""
        while True:
            try:
                self._status = await self._term.store.get(keys.STREAM_STATUS + self._name)
                groups = (await self._term.store.scan(f"{keys.STREAM_GROUPS}{self._name}/")).entries
                self._groups = {group.id: group for entry in groups if (group := codec.decode(Group, entry.value))}
                await self._load_resources()
                break
            except (Unavailable, Unknown) as error:
                log.debug("stream not read yet", extra={"stream": self._name, "why": str(error)})
                await asyncio.sleep(RETRY)
        self._said = understood(StreamStatus, self._status, log)
        if not self._errors and self._said is not None:
            self._errors = list(self._said.errors)

    async def _load_resources(self) -> None:
        entries = (await self._term.store.scan(f"{keys.RESOURCES}{kind_of(self._name)}/")).entries
        records = [record for entry in entries if (record := understood(ResourceRecord, entry, log))]
        self._placed_by = {record.id: record.replicas for record in records}

    async def _follow_tasks(self) -> None:
        async with aclosing(follow_all(self._term.store, f"{keys.STREAM_TASKS}{self._name}/")) as coming:
            async for news in coming:
                if news.is_whole:
                    self._tasks.clear()
                for change in news.changes:
                    if (status := understood(StreamTaskStatus, change.entry, log)) is not None:
                        self._tasks[change.key] = status
                    else:
                        self._tasks.pop(change.key, None)
                self._are_tasks_known.set()
                self._bell.ring()

    async def _follow_wishes(self) -> None:
        async with aclosing(follow(self._term.store, keys.STREAM_WISHES + self._name)) as coming:
            async for entry in coming:
                self._wishes, self._wished = entry, understood(StreamWishes, entry, log) or StreamWishes()
                self._are_wishes_known.set()
                self._bell.ring()

    # A turn

    async def _turn(self) -> None:
        """Look, plan, write."""
        now = self._clock.wall()
        planned = None
        try:
            spec = spec_of(self._record())
            await self._look(spec, now)
            if await self._see_output(spec, now):
                aims = self._aims(spec, now)
                planned = plan(aims, list(self._groups.values()), self._members(), self._committed, now)
                await self._write(spec, planned, now)
        except (TermOver, asyncio.CancelledError):
            raise
        except RotaError as error:
            self._failed(str(error), now)
            self._health = self._health.looked(is_good=False)
        if planned is None or self._clock.monotonic() - self._told >= TICK:
            await self._commit([], now)

    async def _look(self, spec: StreamSpec, now: datetime) -> None:
        """See what the source has, every so often; what is not seen is as it was."""
        since = self._clock.monotonic()
        if self._looked is not None and since - self._looked < LOOK:
            return
        self._looked = since
        try:
            await self._outside.look(spec)
            self._health = self._health.looked(is_good=True)
        except RotaError as error:
            self._health = self._health.looked(is_good=False)
            contact = "lost contact with the source" if self._outside.partitions else "unable to connect to the source"
            self._failed(f"{contact}: {error}", now)

    async def _see_output(self, spec: StreamSpec, now: datetime) -> bool:
        """Up to where the output is; False if that is not known, and nothing can be decided."""
        output = await self._outside.output(spec)
        self._committed = await output.committed()
        if starts := self._outside.starts(spec, self._committed):
            self._committed = await output.begin(starts)
        if self._is_made_anew() and spec.vanished != "halt":
            bounds = self._outside.bounds
            at_end = spec.vanished == "latest"
            offsets = {each: bound.end if at_end else bound.start for each, bound in bounds.items()}
            expect = {each: self._committed[each] for each in offsets}
            await output.move(offsets, expect)
            self._tell("stream.moved", self._name, why="the source was made anew", policy=spec.vanished)
            self._committed |= offsets
            self._said = replace(self._said or self._blank(now), identity=self._outside.identity)
        if self._clock.monotonic() - self._swept >= SWEEP:
            self._swept = self._clock.monotonic()
            await output.sweep()
            await self._sweep_statuses()
            await self._load_resources()
        return bool(self._committed)

    def _is_made_anew(self) -> bool:
        known, now = self._said.identity if self._said else None, self._outside.identity
        return None not in (known, now) and known != now

    async def _sweep_statuses(self) -> None:
        """Forget what tasks said that are nowhere any more."""
        here = {(each.group, each.slot, each.epoch) for each in self._placements.of(self._name)}
        old = [key for key, each in self._tasks.items() if (each.group, each.slot, each.epoch) not in here]
        for start in range(0, len(old), 100):
            await self._term.commit(*(Delete(key) for key in old[start : start + 100]))

    def _aims(self, spec: StreamSpec, now: datetime) -> Aims:
        wished, known = self._wished, self._outside.partitions or tuple(self._committed)
        self._quiet.look({each: bound.end for each, bound in self._outside.bounds.items()}, self._lag(), now)
        self._is_idle = self._quiet.is_idle(spec.idle_after, now)
        is_halted = self._is_made_anew()
        gone = {} if is_halted else self._gone(spec)
        self._detail = "the source was made anew: reset the offsets to go on" if is_halted else ""
        for partition, why in gone.items():
            self._detail = f"partition {partition} waits: {why}"
        return Aims(
            stream=self._name,
            spec=spec.digest,
            tasks=wished.tasks or spec.tasks,
            partitions=[each for each in known if each in self._committed and each not in gone],
            tuning=Tuning(duration=spec.duration, completion_timeout=spec.completion_timeout),
            at_a_time=spec.at_a_time,
            late=spec.late,
            early=spec.early,
            late_start=spec.late_start,
            is_stopping=wished.is_suspended or wished.is_terminated or is_halted,
            is_idle=self._is_idle,
            hand_off=frozenset(wished.hand_off),
            generation=self._said.generation if self._said else 0,
        )

    def _gone(self, spec: StreamSpec) -> dict[int, str]:
        """Partitions that nobody can read on, and nobody reads: somebody has to say where to go on."""
        if spec.vanished != "halt":
            return {}
        held = {partition for group in self._groups.values() for partition in group.partitions}
        found = {}
        for partition, bounds in self._outside.bounds.items():
            at = self._committed.get(partition, bounds.start)
            if partition not in held and not bounds.start <= at <= bounds.end:
                found[partition] = f"it is committed up to {at}, and has offsets from {bounds.start} to {bounds.end}"
        return found

    def _members(self) -> dict[str, list[Member]]:
        """Each group's tasks, with what they say."""
        found: defaultdict[str, list[Member]] = defaultdict(list)
        for each in self._placements.of(self._name):
            key = keys.stream_task(self._name, each.group, each.slot, each.epoch)
            status = self._tasks.get(key)
            found[each.group].append(
                Member(slot=each.slot, epoch=each.epoch, node=each.node, placed=each.since, status=status)
            )
        return found

    # Writing

    async def _write(self, spec: StreamSpec, planned: Plan, now: datetime) -> None:
        """Write what a plan changes, and tell what it says."""
        before = self._groups
        statuses: defaultdict[str, list[Key]] = defaultdict(list)
        for key, status in self._tasks.items():
            statuses[status.group].append(key)
        writes = changes(before, planned, spec.replicas, self._placed_by, statuses)
        if not writes:
            return
        self._tell_about(before, planned, now)
        self._groups = planned.groups
        self._placed_by = dict.fromkeys(planned.groups, spec.replicas)
        handed_off = self._handed_off(before, planned)
        for some in writes:
            if not await self._commit([*some, *handed_off], now):
                return
            handed_off = []

    def _handed_off(self, before: dict[str, Group], planned: Plan) -> list[Write]:
        """Take out the wishes that are being fulfilled."""
        ending = {
            group.number
            for id, group in planned.groups.items()
            if id in before
            and before[id].phase is Phase.READING
            and (group.is_final or group.phase is Phase.PUBLISHING)
        }
        if self._wishes is None or not ending.intersection(self._wished.hand_off):
            return []
        left = tuple(each for each in self._wished.hand_off if each not in ending)
        self._wished = replace(self._wished, hand_off=left)
        return [Put(self._wishes.key, codec.encode(self._wished))]

    def _tell_about(self, before: dict[str, Group], planned: Plan, now: datetime) -> None:
        failures = 0
        for id, why in planned.given_up.items():
            failures += 1
            self._failed(f"group {id} is given up: {why}", now)
            self._tell("stream.given_up", self._name, group=id, why=why)
        for id, group in planned.groups.items():
            old = before[id].dismissed if id in before else {}
            for slot, dismissal in group.dismissed.items():
                if old.get(slot) != dismissal:
                    failures += 1
                    self._failed(f"task {id}#{slot}: {dismissal.why}", now)
                    self._tell("stream.dismissed", self._name, group=id, slot=slot, why=dismissal.why)
        agreed = sum(
            len(group.sequences) > len(before[group.id].sequences)
            for group in planned.groups.values()
            if group.id in before
        )
        self._health = self._health.tasked(failures=failures, successes=agreed + len(planned.published))

    async def _commit(self, writes: list[Write], now: datetime) -> bool:
        """Write as leader, with the status; if that was not to be, False, and everything is read again."""
        status = self._new_status(now)
        if not writes and self._said is not None and replace(status, since=self._said.since) == self._said:
            self._told = self._clock.monotonic()
            return True
        key = keys.STREAM_STATUS + self._name
        expect: list[Expect] = [At(key, self._status.modified) if self._status else Absent(key)]
        if self._wishes is not None and any(write.key == self._wishes.key for write in writes):
            expect.append(At(self._wishes.key, self._wishes.modified))
        value = codec.encode(status)
        try:
            revision = await self._term.commit(*writes, Put(key, value), expect=expect)
        except (Conflict, Unavailable, Unknown) as error:
            log.debug("stream not written", extra={"stream": self._name, "why": str(error)})
            await asyncio.sleep(RETRY)
            await self._load()
            return False
        if self._said is None or self._said.state is not status.state:
            self._tell("stream.state", self._name, state=status.state.value, why=status.detail or None)
        self._status = Entry(key, value, revision, revision, None)
        self._said, self._told = status, self._clock.monotonic()
        return True

    def _new_status(self, now: datetime) -> StreamStatus:
        said = self._said or self._blank(now)
        state = healths.state(self._health, self._wished, is_idle=self._is_idle)
        latest = {each: bound.end for each, bound in self._outside.bounds.items()}
        return StreamStatus(
            stream=self._name,
            state=state,
            detail=self._detail or (self._errors[-1].why if self._errors and _is_bad(state) else ""),
            since=said.since if said.state is state else now,
            generation=max((said.generation, *(group.generation for group in self._groups.values()))),
            identity=said.identity or self._outside.identity,
            phases=dict(Counter(group.phase.value for group in in_order(self._groups.values()))),
            committed=dict(self._committed) or said.committed,
            latest=latest or said.latest,
            lag=self._lag(),
            errors=tuple(self._errors[-ERRORS:]),
        )

    def _blank(self, now: datetime) -> StreamStatus:
        return StreamStatus(stream=self._name, since=now)

    def _lag(self) -> int:
        bounds = self._outside.bounds
        return sum(max(0, bounds[each].end - at) for each, at in self._committed.items() if each in bounds)

    def _failed(self, why: str, now: datetime) -> None:
        """Note an error; one that is the last one already only gets its time."""
        why = why[:LONGEST]
        if self._errors and self._errors[-1].why == why:
            self._errors.pop()
        else:
            log.warning("stream", extra={"stream": self._name, "why": why})
        self._errors = [*self._errors[-(ERRORS - 1) :], StreamError(at=now, why=why)]


def _is_bad(state: StreamState) -> bool:
    return state in (StreamState.UNHEALTHY_SUPERVISOR, StreamState.UNHEALTHY_TASKS, StreamState.PENDING)
