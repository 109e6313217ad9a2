"""The supervisor: keeps every resource covered, for as long as this node leads.

A term begins with everything read at one revision; from there only commits are followed, nobody is polled. Whatever
changes makes resources dirty; those that lack tasks are planned together, and the plan is written in commits of at most
100 writes, each resource whole: its assignments and its status in one commit, which expects the resource and its status
as they were planned for. A conflict is no error: the world moved, and what it touched is planned again.

A commit of unknown outcome may still arrive, however late. Before anything is planned by what it left behind, its
statuses are written once more: then it can no longer be accepted, or it turns out that it was.

The assignments *are* the instructions, so the leader may die at any point. A new one finds them in the store and moves
nothing that is healthy. Only after a cold start, when nobody has led the nodes that are here, it waits a while for
those that were there last (warm-up), so that the first to come does not get everything. In a new fleet nobody knows
who will come: there it waits until no node has joined for a moment (`settle`).

A resource that fails on a node rests from it, longer each time (`Rests`); a node that comes back again and again gets
nothing for the sake of balance for a while (`Damping`).

A reload may change the settings in the middle of a term (`Placing`): they count from the next tick on.

A plan of many resources takes seconds, and renewing the lease must not wait for it: it is made aside, in a thread
(`kit.aside`). Until it is done the view stands still; commits that come meanwhile are taken in afterwards, and what
they make of the plan shows as conflicts or is planned next.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from functools import partial

from rota.fleet.leading.term import Term
from rota.kit.aside import Offload, in_thread
from rota.kit.time.clock import Clock
from rota.kit.time.rate import TokenBucket
from rota.model import codec, keys
from rota.model.errors import Compacted, Conflict, Unavailable, Unknown
from rota.model.ids import Key, NodeId, Revision, SessionId
from rota.model.node import Roster
from rota.placement.fleet.moves import Damping, Ramp, shifts
from rota.placement.fleet.overfull import overfull
from rota.placement.fleet.placing import Current, Placing
from rota.placement.fleet.plan import PlacementPlan, PlannedChange, Shift, batches, chosen_by, plan, portion
from rota.placement.fleet.rests import Rests, Version
from rota.placement.fleet.view import FleetView, read_fleet
from rota.resources.core.records import PlacingRecord
from rota.store.clock import StoreClock
from rota.store.port import Put

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Commits under way at a time."""

FEW = 200
"""Resources that are planned at once: some 20 ms, for which a thread is not worth its while."""

EVICT_EVERY = 1.0
"""Seconds between steps when a node has fewer slots than tasks."""

RETRY = 0.5
"""Seconds to wait for a store that is away."""

TICK = 1.0
"""Seconds between checks without a commit: tasks that wait to be moved, drains that take too long, balance."""

Tell = Callable[..., None]


async def supervise(
    term: Term,
    session: SessionId | None,
    last_known: Roster,
    placing: Placing,
    clock: Clock,
    tell: Tell,
    *,
    aside: Offload = in_thread,
) -> None:
    """Keep resources covered until the term ends; `aside` makes large plans."""
    is_new = not last_known.nodes
    is_cold = not is_new and session not in last_known.nodes.values()
    while True:
        view = await read_fleet(term.store)
        try:
            supervisor = Supervisor(term, view, placing, clock, tell, aside)
            await supervisor.run(last_known if is_cold else None, is_new=is_new)
        except* Compacted:
            log.warning("the fleet's view fell behind, reading it anew", extra={"term": term.number})
        is_cold = is_new = False


class Supervisor:
    """One view, kept true, and everything it asks for, done."""

    def __init__(
        self,
        term: Term,
        view: FleetView,
        placing: Placing,
        clock: Clock,
        tell: Tell,
        aside: Offload = in_thread,
    ) -> None:
        self._term, self._view, self._placing, self._clock, self._tell = term, view, placing, clock, tell
        self._aside = aside
        self._use(placing.current)
        self._published: Current | None = None
        """The settings that the fleet knows of."""

        self._still = asyncio.Lock()
        """Held while a plan is made: then nothing else looks at the view or changes it."""

        self._news = asyncio.Event()
        self._news.set()
        self._has_just_evicted = False
        """Does some node shed tasks, in steps?"""

        self._is_due = False
        """Has a tick found something to do?"""

        self._looked_at = Revision(0)
        """How new the view was when the balance was last looked at."""

        self._waiting: frozenset[str] = frozenset()
        self._store_clock = StoreClock(term.store, clock)
        """Deadlines and troubles were noted by the store's clock, on other machines."""

        self._began: datetime | None = None
        self._draining: set[NodeId] = set()
        self._drained: set[NodeId] = set()
        self._failed: set[tuple[str, str]] = set()
        self._damping = Damping()
        self._damped: frozenset[NodeId] = frozenset()
        self._rests = Rests(view.trouble)

    async def run(self, expected: Roster | None, *, is_new: bool = False) -> None:
        """Follow and plan until cancelled; in a new fleet, work is given out when its first nodes have joined."""
        await self._publish_settings()
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow(), name="fleet")
            parts.create_task(self._store_clock.run(), name="the store's clock")
            await self._store_clock.is_known.wait()
            self._began = self._store_clock.now()
            await self._warm_up(expected)
            parts.create_task(self._tick(), name="tick")
            while True:
                # Check more than the new commits: another waiter may have taken them already.
                while not (self._view.dirty or self._view.has_retries or self._is_due):
                    self._news.clear()
                    await self._news.wait()
                if is_new and self._workers():
                    await self._settle_in()
                    is_new = False
                await self._plan_and_commit()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            await self._publish_settings()
            async with self._still:
                self._take_in_settings()
                self._tell_drained()
                self._let_rested_ones_in()
                self._view.tick()
                is_moved = self._config.rebalance and self._view.changed != self._looked_at
                if is_moved or self._waiting or self._view.has_retries or self._overdue():
                    self._is_due = True
                    self._news.set()

    def _use(self, settings: Current) -> None:
        config = settings.config
        self._settings, self._config = settings, config
        self._how = chosen_by(config, settings.rules)
        self._ramp = Ramp(config.ramp)
        self._budget = TokenBucket(config.rebalance, timedelta(minutes=1), self._clock.monotonic())

    def _take_in_settings(self) -> None:
        """Go on with the settings of a reload: plan everything by them, and look at the balance again."""
        if self._placing.current is self._settings:
            return
        self._use(self._placing.current)
        self._looked_at = Revision(0)
        self._view.dirty.update(self._view.resources)
        self._news.set()
        log.info("places work by new settings", extra={"policy": self._config.policy, "term": self._term.number})

    async def _publish_settings(self) -> None:
        """Write how nodes are chosen, so that `rota plan` can say what we would do."""
        settings = self._placing.current
        if settings is self._published:
            return
        config = settings.config
        how = codec.encode(
            PlacingRecord(
                policy=config.policy, avoid_for=config.avoid_for, tolerance=config.tolerance, rules=config.rule_names
            )
        )
        try:
            entry = await self._term.store.get(keys.PLACING)
            if entry is None or entry.value != how:
                await self._term.commit(Put(keys.PLACING, how))
        except (Unavailable, Unknown) as error:  # the next tick tries again
            log.debug("not written how nodes are chosen", extra={"why": str(error)})
        else:
            self._published = settings

    def _let_rested_ones_in(self) -> None:
        """Plan again what has rested; look at the balance again when a node is damped no more."""
        now = self._clock.monotonic()
        if due := self._rests.due(now):
            self._view.dirty.update(due)
            self._news.set()
        before, self._damped = self._damped, self._damping.nodes(self._view, now)
        if before - self._damped:
            self._looked_at = Revision(0)

    def _tell_drained(self) -> None:
        """Report nodes that lost their last task by a drain, unless that was before this term."""
        view = self._view
        drained = {node for node in view.drains if not view.on_node.get(node)}
        for node in sorted(drained - self._drained):
            if node in self._draining or (self._began is not None and view.drains[node].since >= self._began):
                self._tell("node.drained", node, tasks=view.drains[node].tasks)
        self._drained, self._draining = drained, view.drains.keys() - drained

    def _overdue(self) -> set[str]:
        """Resources with tasks on nodes whose drain has taken too long."""
        view, now = self._view, self._store_clock.now()
        late = [node for node, drain in view.drains.items() if drain.deadline is not None and drain.deadline <= now]
        return {hold.resource for node in late for hold in view.on_node[node].values() if not hold.assignment.stopping}

    async def _follow(self) -> None:
        async with aclosing(self._term.store.watch("/", self._view.revision)) as commits:
            async for commit in commits:
                async with self._still:
                    self._view.fold(commit)
                if self._view.dirty or self._view.has_retries:
                    self._news.set()

    async def _warm_up(self, expected: Roster | None) -> None:
        if expected is None:
            return
        began = self._clock.monotonic()
        said: set[NodeId] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.warm_up.total_seconds()):
                while missing := self._not_back(expected, timedelta(seconds=self._clock.monotonic() - began)):
                    if missing != said:
                        log.info("warming up", extra={"missing": ", ".join(sorted(missing))})
                        said = missing
                    await self._wait(timedelta(seconds=1))
        took = round(self._clock.monotonic() - began, 1)
        log.info("warmed up", extra={"nodes": len(self._view.nodes), "took_s": took, "term": self._term.number})
        self._news.set()

    async def _settle_in(self) -> None:
        """Wait until no node has joined for `settle`, but no longer than for a warm-up."""
        quiet = self._config.settle
        ends = self._clock.monotonic() + self._config.warm_up.total_seconds()
        before = -1
        while quiet and before != self._workers() and self._clock.monotonic() < ends:
            before = self._workers()
            await asyncio.sleep(quiet.total_seconds())

    def _workers(self) -> int:
        """How many nodes there are that work."""
        return sum(node.role.may_work for node in self._view.nodes.values())

    def _not_back(self, expected: Roster, elapsed: timedelta) -> set[NodeId]:
        """Nodes that were there last and are not there for sure.

        One in its old session may be dead, with a lease that has not ended yet; after a whole ttl that is settled.
        """
        there = self._view.nodes
        return {
            node
            for node, session in expected.nodes.items()
            if node not in there or (there[node].session == session and elapsed < there[node].lease_ttl)
        }

    async def _plan_and_commit(self) -> None:
        async with self._still:
            dirty, self._view.dirty = self._view.dirty, set()
            planned = await self._planned(dirty)
        if not planned.changes:
            return
        found = list(batches(planned.changes))
        waiting = iter(found)
        reached = Revision(0)

        async def work() -> None:
            nonlocal reached
            for batch in waiting:
                written = await self._commit(batch)  # first: another lane may move `reached` meanwhile
                reached = max(reached, written)

        async with asyncio.TaskGroup() as lanes:
            for _ in found[:AT_ONCE]:
                lanes.create_task(work(), name="commit")
        await self._until_seen(reached)

    async def _planned(self, dirty: set[str]) -> PlacementPlan:
        """The plan for what is dirty and, if a tick found something, for what is to be moved."""
        view, now = self._view, self._store_clock.now()
        ramp, evicted = self._ramp.left(view, self._clock.monotonic()), self._evicted()
        is_due, self._is_due = self._is_due, False
        if is_due:
            dirty |= self._waiting | self._overdue()

        def work() -> tuple[set[str], PlacementPlan]:
            dirty.update(view.retried())
            self._note_rests(dirty)
            # While a node sheds tasks, balance waits: it would move others in their place.
            better = self._shifts(ramp) if is_due and not self._has_just_evicted else {}
            first = portion(view, dirty)
            view.dirty |= dirty - first
            return first, plan(view, first, self._how, now, evicted, better, ramp)

        is_small = len(dirty) + len(evicted) <= FEW and not view.has_retries
        planned, found = work() if is_small else await self._aside(work)
        self._waiting = (self._waiting - planned) | found.waiting
        self._ramp.spend(found.moved)
        for rule, why in found.failed.items():
            if (rule, why) not in self._failed:
                self._failed.add((rule, why))
                self._tell("rule.failed", rule, why=why)
        return found

    def _note_rests(self, dirty: set[str]) -> None:
        """See which nodes the resources rest from that are about to be planned."""
        view, now, wall = self._view, self._clock.monotonic(), self._store_clock.now()
        for name in dirty:
            troubles = view.trouble.get(name, {})
            if resting := self._rests.resting(name, troubles, now, partial(self._version, name)):
                view.resting[name] = resting
            else:
                view.resting.pop(name, None)
            if unwell := self._rests.unwell(name, wall, now) if troubles else {}:
                view.unwell[name] = unwell
            else:
                view.unwell.pop(name, None)

    def _version(self, name: str, node: NodeId) -> Version:
        """What a resource runs with on a node; a node counts its generations anew each time it is started."""
        record, there, work = self._view.resources.get(name), self._view.nodes.get(node), self._view.work.get(node)
        return record and record.spec, there and there.session, work and work.generation

    def _shifts(self, ramp: dict[NodeId, int]) -> dict[str, Shift]:
        """Tasks to move now so that the nodes are balanced."""
        view, most = self._view, self._budget.left(self._clock.monotonic())
        if not self._config.rebalance or not most:
            return {}
        ramp = {node: 0 if node in self._damped else slots for node, slots in ramp.items()}
        found = shifts(view, self._how, self._store_clock.now(), most, ramp)
        self._budget.spend(len(found))
        if len(found) < most:
            self._looked_at = view.changed  # there is no more to do until something changes
        return found

    def _evicted(self) -> set[Key]:
        """What to take now from nodes that are too full; in steps, so that others can take it up in between."""
        if self._has_just_evicted or not (evicted := overfull(self._view)):
            return set()
        self._has_just_evicted = True
        asyncio.get_running_loop().call_later(EVICT_EVERY, self._look_again)
        return evicted

    def _look_again(self) -> None:
        self._has_just_evicted = False
        self._is_due = True
        self._news.set()

    async def _commit(self, batch: list[PlannedChange]) -> Revision:
        """Write a batch; what could not be written is dirty again."""
        writes = [write for change in batch for write in change.writes]
        expect = list(dict.fromkeys(each for change in batch for each in change.expect))
        try:
            return await self._term.commit(*writes, expect=expect)
        except Conflict as conflict:
            log.debug("planned again", extra={"keys": ", ".join(sorted(conflict.keys))})
            if len(batch) > 1:
                return await self._one_by_one(batch)
            reached = await self._newest()
        except Unavailable as error:
            log.warning("not written", extra={"why": str(error), "term": self._term.number})
            await asyncio.sleep(RETRY)
            reached = Revision(0)
        except Unknown as error:
            log.warning("perhaps written", extra={"why": str(error), "term": self._term.number})
            reached = await self._settle(batch)
        self._again(batch)
        return reached

    async def _settle(self, batch: list[PlannedChange]) -> Revision:
        """Make sure that a commit of unknown outcome was accepted, or that it never will be."""
        while True:
            await asyncio.sleep(RETRY)
            try:
                return await self._term.commit(
                    *(change.barrier for change in batch), expect=[change.planned for change in batch]
                )
            except Conflict:
                if len(batch) > 1:
                    return max([await self._settle([change]) for change in batch])
                return await self._newest()
            except (Unavailable, Unknown) as error:
                log.warning("still perhaps written", extra={"why": str(error), "term": self._term.number})

    async def _newest(self) -> Revision:
        """The revision that a conflict has seen, or a later one."""
        while True:
            try:
                return await self._term.store.revision()
            except (Unavailable, Unknown):
                await asyncio.sleep(RETRY)

    async def _one_by_one(self, batch: list[PlannedChange]) -> Revision:
        """Write each change alone, to find which one conflicts without delaying the others."""
        reached = Revision(0)
        for change in batch:
            reached = max(reached, await self._commit([change]))
        return reached

    def _again(self, batch: list[PlannedChange]) -> None:
        self._view.dirty |= {change.name for change in batch}
        self._news.set()

    async def _until_seen(self, revision: Revision) -> None:
        """What we wrote must be in the view before it is planned by again."""
        while self._view.revision < revision:
            await self._wait(timedelta(seconds=1))

    async def _wait(self, longest: timedelta) -> None:
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(longest.total_seconds()):
                await self._news.wait()
