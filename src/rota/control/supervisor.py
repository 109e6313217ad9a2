"""The supervisor: keeps every resource covered, for as long as this node leads.

A term begins with everything read at one revision; from there only commits are followed, nobody is polled. Whatever
changes makes resources dirty; they are planned together, and the plan is written in commits of at most 100 writes, each
resource whole: its assignments and its status in one commit, which expects the resource and its status as they were
planned for. A conflict is no error: the world moved, and what it touched is planned again.

A commit of unknown outcome may still arrive, however late. Before anything is planned by what it left behind, its
statuses are written once more: then it can no longer be accepted, or it turns out that it was.

The assignments *are* the instructions, so the leader may die at any point. A new one finds them in the store and moves
nothing that is healthy. Only after a cold start, when nobody has led the nodes that are here, it waits a while for
those that were there last (warm-up), so that the first to come does not get everything.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rota.control.term import Term
from rota.control.view import FleetView
from rota.decide.coverage import Coverage, End, Hold, cover, free_slot
from rota.decide.placement import POLICIES, Bind, Demand, Pending, Place, place
from rota.kit.clock import Clock
from rota.model import codec, keys
from rota.model.assignment import Assignment
from rota.model.config import SupervisorConfig
from rota.model.errors import Compacted, Conflict, Unavailable, Unknown
from rota.model.ids import NodeId, Revision, SessionId
from rota.model.node import Roster
from rota.model.resource import ResourceRecord, ResourceStatus
from rota.store.port import Absent, At, Delete, Expect, Put, Write

log = logging.getLogger(__name__)

WRITES = 100
"""Of one commit."""

AT_ONCE = 8
"""Commits under way at a time."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

EVICT_EVERY = 1.0
"""Seconds between steps when a node has fewer slots than tasks."""

RETRY = 0.5
"""Seconds to wait for a store that is away."""

REASONS = 20
"""Refusals kept with a status."""

Tell = Callable[..., None]


@dataclass(frozen=True)
class Change:
    """What one resource gets: all of it, or nothing."""

    name: str
    writes: tuple[Write, ...]
    expect: tuple[Expect, ...]
    planned: Expect
    """The resource's status as it was when this was planned; part of `expect`."""

    barrier: Put
    """That status once more: what makes this change impossible from then on."""


async def supervise(
    term: Term, session: SessionId | None, last_known: Roster, config: SupervisorConfig, clock: Clock, tell: Tell
) -> None:
    """Keep resources covered until the term ends."""
    is_cold = bool(last_known.nodes) and session not in last_known.nodes.values()
    while True:
        view = FleetView()
        await view.load(term.store)
        try:
            await Supervisor(term, view, config, clock, tell).run(last_known if is_cold else None)
        except* Compacted:
            log.warning("the fleet's view fell behind, reading it anew", extra={"term": term.number})
        is_cold = False


class Supervisor:
    """One view, kept true, and everything it asks for, done."""

    def __init__(self, term: Term, view: FleetView, config: SupervisorConfig, clock: Clock, tell: Tell) -> None:
        self._term, self._view, self._config, self._clock, self._tell = term, view, config, clock, tell
        self._news = asyncio.Event()
        self._news.set()
        self._has_just_evicted = False

    async def run(self, expected: Roster | None) -> None:
        """Follow and plan, for ever."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow(), name="fleet")
            await self._warm_up(expected)
            while True:
                while (
                    not self._view.dirty
                ):  # not the news alone: somebody else may have waited for them, and taken them
                    self._news.clear()
                    await self._news.wait()
                await self._plan_and_commit()

    async def _follow(self) -> None:
        async with aclosing(self._term.store.watch("/", self._view.revision)) as commits:
            async for commit in commits:
                self._view.fold(commit)
                if self._view.dirty:
                    self._news.set()

    async def _warm_up(self, expected: Roster | None) -> None:
        if expected is None:
            return
        began = self._clock.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.warm_up.total_seconds()):
                while missing := self._not_back(expected, timedelta(seconds=self._clock.monotonic() - began)):
                    log.info("warming up", extra={"missing": ", ".join(sorted(missing))})
                    await self._wait(timedelta(seconds=1))
        took = round(self._clock.monotonic() - began, 1)
        log.info("warmed up", extra={"nodes": len(self._view.nodes), "took_s": took, "term": self._term.number})
        self._news.set()

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
        dirty, self._view.dirty = self._view.dirty, set()
        changes = plan(self._view, dirty, self._config, self._clock.wall(), self._evicted())
        if not changes:
            return
        waiting = iter(list(batches(changes)))
        reached = Revision(0)

        async def work() -> None:
            nonlocal reached
            for batch in waiting:
                reached = max(reached, await self._commit(batch))

        async with asyncio.TaskGroup() as lanes:
            for _ in range(AT_ONCE):
                lanes.create_task(work(), name="commit")
        await self._until_seen(reached)

    def _evicted(self) -> set[str]:
        """Tasks to take now from nodes that are too full; in steps, so that others can take them up in between."""
        if self._has_just_evicted or not (evicted := self._view.overfull()):
            return set()
        self._has_just_evicted = True
        asyncio.get_running_loop().call_later(EVICT_EVERY, self._look_at, {_resource_of(task) for task in evicted})
        return evicted

    def _look_at(self, names: set[str]) -> None:
        self._has_just_evicted = False
        self._view.dirty |= names
        self._news.set()

    async def _commit(self, batch: list[Change]) -> Revision:
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

    async def _settle(self, batch: list[Change]) -> Revision:
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

    async def _one_by_one(self, batch: list[Change]) -> Revision:
        """Find out whom a conflict is about, without holding up the others."""
        reached = Revision(0)
        for change in batch:
            reached = max(reached, await self._commit([change]))
        return reached

    def _again(self, batch: list[Change]) -> None:
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


def plan(
    view: FleetView, dirty: Iterable[str], config: SupervisorConfig, now: datetime, evicted: Collection[str] = ()
) -> list[Change]:
    """What brings the dirty resources closer to being covered; nothing for those that are.

    `evicted` are tasks that have to leave their nodes.
    """
    dirty = {*dirty, *map(_resource_of, evicted)}
    coverages = {name: _coverage(view, name, evicted) for name in sorted(dirty)}
    demands = [_demand(view, name, each, now - config.avoid_for) for name, each in coverages.items() if each.missing]
    placement = place(demands, list(_places(view)), POLICIES[config.policy])
    binds: dict[str, list[Bind]] = {}
    for bind in placement.binds:
        binds.setdefault(bind.key, []).append(bind)
    pending = {each.key: each for each in placement.pending}
    changes = [_change(view, name, each, binds.get(name, []), pending.get(name)) for name, each in coverages.items()]
    view.pending -= coverages.keys()
    view.pending |= {
        name for name, each in coverages.items() if name in view.resources and _is_short(each, binds, name)
    }
    return [change for change in changes if change.writes]


def _resource_of(task: str) -> str:
    return task.rpartition("#")[0]


def batches(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Changes in groups that fit into one commit; stores limit expectations as they limit writes."""
    batch: list[Change] = []
    size = 0
    for change in changes:
        more = max(len(change.writes), len(change.expect))
        if batch and size + more > WRITES:
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += more
    if batch:
        yield batch


def _is_short(coverage: Coverage, binds: dict[str, list[Bind]], name: str) -> bool:
    return len(coverage.keep) + len(binds.get(name, ())) < coverage.wanted


def _coverage(view: FleetView, name: str, evicted: Collection[str]) -> Coverage:
    record = view.resources.get(name)
    kind = view.kinds.get(record.kind) if record else None
    return cover(record, kind, list(view.holds.get(name, {}).values()), view.nodes.keys(), evicted)


def _demand(view: FleetView, name: str, coverage: Coverage, since: datetime) -> Demand:
    """What a resource misses; nodes that could not keep it alive lately are better avoided."""
    record = view.resources[name]
    kind = view.kinds[record.kind]
    return Demand(
        key=name,
        kind=record.kind,
        missing=coverage.missing,
        holders=frozenset(hold.node for hold in coverage.keep),
        avoid=frozenset(node for node, trouble in view.trouble.get(name, {}).items() if trouble.at >= since),
        priority=record.priority,
        cost=record.cost,
        labels={**kind.labels, **record.labels},
        pin=record.pin,
        level=len(coverage.keep),
    )


def _places(view: FleetView) -> Iterator[Place]:
    """The nodes that work. What this very plan frees is not given out by it: that may be written and this not."""
    for node_id, node in view.nodes.items():
        if not node.role.may_work:
            continue
        work, cordon = view.work.get(node_id), view.cordons.get(node_id)
        yield Place(
            id=node_id,
            slots=view.slots(node_id),
            used=view.used[node_id],
            labels=node.labels,
            kinds=frozenset(work.kinds if work else ()),
            is_open=cordon is None,
            why_closed=f"it is cordoned: {cordon.why}" if cordon and cordon.why else "it is cordoned",
        )


def _change(view: FleetView, name: str, coverage: Coverage, binds: list[Bind], pending: Pending | None) -> Change:
    writes: list[Write] = []
    expect: list[Expect] = []
    for end in coverage.end:
        writes.append(_ending(end))
        expect.append(At(_key(end.hold), end.hold.epoch))
        if end.hold.node not in view.nodes:
            # Gone it must still be. One that came back in a new session may have read its old assignments already.
            expect.append(Absent(keys.node(end.hold.node)))
    record = view.resources.get(name)
    if record is None:
        writes += [Delete(f"{keys.TROUBLE}{name}/{node}") for node in view.trouble.get(name, {})]
        writes += [Delete(keys.SAVED + task) for task in sorted({end.hold.task for end in coverage.end})]
        status: ResourceStatus | None = None
    else:
        _renew_and_bind(view, record, coverage, binds, writes, expect)
        status = _status(view, record, coverage, binds, pending)
    before, key = view.statuses.get(name), keys.RESOURCE_STATUS + name
    if writes or status != before:
        writes.append(Put(key, codec.encode(status)) if status else Delete(key))
        expect.append(At(keys.RESOURCES + name, view.versions[name]) if record else Absent(keys.RESOURCES + name))
    planned: Expect = At(key, view.planned[name]) if name in view.planned else Absent(key)
    blank = ResourceStatus(ID="", Name=name, AssignedNode="", CreationTime=0, kind="", replicas=0, assigned=0)
    return Change(name, tuple(writes), (*expect, planned), planned, Put(key, codec.encode(before or blank)))


def _renew_and_bind(
    view: FleetView,
    record: ResourceRecord,
    coverage: Coverage,
    binds: list[Bind],
    writes: list[Write],
    expect: list[Expect],
) -> None:
    """Tell tasks what changed, and give new ones to nodes."""
    is_exclusive = view.kinds[record.kind].exclusive if record.kind in view.kinds else False
    for hold in coverage.renew:
        writes.append(Put(_key(hold), codec.encode(_assignment(record, hold.assignment.slot, is_exclusive))))
        expect.append(At(_key(hold), hold.epoch))
    # A task that moves keeps its slot, and with it its saved state. Only where the very key is given up in this commit
    # it must be another: a commit writes a key once.
    given_up = {_key(end.hold) for end in coverage.end}
    taken = {hold.assignment.slot for hold in coverage.keep}
    taken |= {end.hold.assignment.slot for end in coverage.end if end.must_confirm}
    for bind in binds:
        slot = free_slot(taken)
        while (key := keys.assignment(bind.node, keys.task(record.kind, record.id, slot))) in given_up:
            slot = free_slot({*taken, *range(slot + 1)})
        taken.add(slot)
        writes.append(Put(key, codec.encode(_assignment(record, slot, is_exclusive))))
        expect.append(Absent(key))


def _ending(end: End) -> Write:
    if not end.must_confirm:
        return Delete(_key(end.hold))
    told = end.hold.assignment
    stopping = Assignment(
        kind=told.kind,
        resource=told.resource,
        slot=told.slot,
        spec=told.spec,
        exclusive=told.exclusive,
        cost=told.cost,
        stopping=True,
    )
    return Put(_key(end.hold), codec.encode(stopping))


def _key(hold: Hold) -> str:
    return keys.assignment(hold.node, hold.task)


def _assignment(record: ResourceRecord, slot: int, is_exclusive: bool) -> Assignment:
    return Assignment(
        kind=record.kind,
        resource=record.id,
        slot=slot,
        spec=record.spec,
        exclusive=is_exclusive,
        cost=record.cost,
    )


def _status(
    view: FleetView, record: ResourceRecord, coverage: Coverage, binds: list[Bind], pending: Pending | None
) -> ResourceStatus:
    before = view.statuses.get(f"{record.kind}/{record.id}")
    holders = [*(hold.node for hold in coverage.keep), *(bind.node for bind in binds)]
    known = before.chosen if before else {}
    chosen = {node: known[node] for node in holders if node in known} | {bind.node: bind.why for bind in binds}
    return ResourceStatus(
        ID=record.uid,
        Name=record.id,
        AssignedNode=",".join(f"{node}|{_address(view, node)}" for node in holders),
        CreationTime=(record.created - EPOCH) // timedelta(microseconds=1) * 1000,
        kind=record.kind,
        replicas=coverage.wanted,
        assigned=len(holders),
        pending=_why_pending(view, record, coverage, pending),
        refusals=dict(sorted(pending.refusals.items())[:REASONS]) if pending else {},
        chosen=dict(sorted(chosen.items())),
    )


def _why_pending(view: FleetView, record: ResourceRecord, coverage: Coverage, pending: Pending | None) -> str:
    if record.kind not in view.kinds:
        return f'no node\'s app declares the kind "{record.kind}"'
    if pending is not None:
        return pending.why
    stopping = [hold.node for hold in coverage.keep if hold.assignment.stopping]
    return f"waiting for {stopping[0]} to stop it" if stopping else ""


def _address(view: FleetView, node: NodeId) -> str:
    there = view.nodes.get(node)
    return there.grpc or there.http if there else ""
