"""Planning: what the leader writes to bring resources closer to being covered. Pure but for the view it is handed.

`plan` looks at dirty resources: what each misses or has too much of (`resources.core.coverage`), where that goes
(`placement.core`), and where tasks go that are to leave their nodes. What is missing comes first; moves are given
what is left, and only as fast as nodes may be given tasks (`ramp`). A resource is changed whole or not at all: a
`PlannedChange` is its assignments and its status, with what they expect.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec

from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.ids import Key, NodeId
from rota.placement.core import POLICIES, BindReplica, Demand, Pending, Place, Policy, Rules, place
from rota.placement.fleet.view import FleetView, tags_of
from rota.resources.core.assignment import Assignment
from rota.resources.core.coverage import AssignedTask, Coverage, End, cover, free_slot, is_exclusive
from rota.resources.core.records import PlacingRecord, ResourceRecord, ResourceStatus
from rota.resources.core.trouble import kept_until, last, noted
from rota.store.port import Absent, At, Delete, Expect, Put, Write

WRITES = 100
"""Resources in one commit."""

PORTION = 20_000
"""Resources that are planned at a time, if all of them have tasks: some two seconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

REASONS = 20
"""Refusals kept with a status."""


class How(msgspec.Struct, frozen=True):
    """How nodes are chosen."""

    policy: Policy
    avoid_for: timedelta
    tolerance: float
    rules: Rules = msgspec.field(default_factory=dict)


def chosen_by(settings: SupervisorConfig | PlacingRecord, rules: Rules) -> How:
    """How nodes are chosen by these settings."""
    return How(POLICIES[settings.policy], settings.avoid_for, settings.tolerance / 100, rules)


class PlannedChange(msgspec.Struct, frozen=True):
    """What one resource gets: all of it, or nothing."""

    name: str
    writes: tuple[Write, ...]
    expect: tuple[Expect, ...]
    planned: Expect
    """The resource's status as it was when this was planned; part of `expect`."""

    barrier: Put
    """Writes that status unchanged: after it, this change can no longer be accepted."""


class Shift(msgspec.Struct, frozen=True):
    """A task that goes to another node, though it might stay."""

    hold: AssignedTask
    to: NodeId
    why: str


class PlacementPlan(msgspec.Struct, frozen=True):
    """What is to be written, and what has to be looked at again."""

    changes: list[PlannedChange]
    moved: Mapping[NodeId, int]
    """Slots that tasks on the move take on their new nodes."""

    waiting: frozenset[str] = frozenset()
    """Resources whose move waits only because their nodes get no more tasks at a time."""

    failed: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Users' rules that raised an error."""


class _Move(msgspec.Struct, frozen=True):
    """Where a task that is to leave its node goes, or why it cannot."""

    hold: AssignedTask
    to: NodeId | None
    why: str
    """The reason for the node, or what prevents the move."""

    is_next: bool = False
    """Does it only wait until nodes are given more tasks?"""


def plan(
    view: FleetView,
    dirty: Iterable[str],
    how: How,
    now: datetime,
    evicted: Collection[Key] = (),
    shifts: Mapping[str, Shift] | None = None,
    ramp: Mapping[NodeId, int] | None = None,
) -> PlacementPlan:
    """What brings the dirty resources closer to being covered; nothing for those that are.

    `evicted` are assignments of tasks that must leave their nodes; `shifts` tasks that should move, by resource;
    `ramp` how many slots each node may be given for moves now, if not as many as are free.
    """
    shifts = shifts or {}
    dirty = {*dirty, *map(_resource_of, evicted), *shifts}
    coverages = {name: coverage_of(view, name, evicted, now) for name in sorted(dirty)}
    demands = [demand_of(view, name, each, how, now) for name, each in coverages.items() if each.missing]
    placement = place(demands, places(view), how.policy, rules=how.rules)
    binds: dict[str, list[BindReplica]] = {}
    for bind in placement.binds:
        binds.setdefault(bind.key, []).append(bind)
    taken = _slots_taken(view, [(bind.key, bind.node) for bind in placement.binds])
    moves = _moves(view, coverages, placement.binds, how, now, ramp)
    taken.update(_slots_taken(view, _arriving(moves)))
    moves |= _shifted(view, coverages, shifts, taken)
    pending = {each.key: each for each in placement.pending}
    changes = [
        _change(view, name, each, binds.get(name, []), pending.get(name), moves.get(name))
        for name, each in coverages.items()
    ]
    _note_pending(view, coverages, binds, moves)
    return PlacementPlan(
        [change for change in changes if change.writes],
        _slots_taken(view, _arriving(moves)),
        frozenset(name for name, move in moves.items() if move.is_next),
        placement.failed,
    )


def portion(view: FleetView, dirty: set[str]) -> set[str]:
    """What to plan first of what is dirty: all that lack tasks, together; if there are none, `PORTION` of the others.

    Those that lack tasks share what is free, so they must be planned at once. The others mostly need nothing, and while
    a million of them are checked a node may die.
    """
    if len(dirty) <= PORTION:
        return dirty
    return {name for name in dirty if _is_lacking(view, name)} or set(islice(dirty, PORTION))


def _is_lacking(view: FleetView, name: str) -> bool:
    """Has a resource fewer tasks on nodes that are there than it should?"""
    record = view.resources.get(name)
    kind = view.kinds.get(record.kind) if record else None
    if record is None or kind is None:
        return False
    there = sum(hold.node in view.nodes for hold in view.holds[name].values()) if name in view.holds else 0
    return there < (record.replicas or kind.replicas)


def _resource_of(key: Key) -> str:
    return key.removeprefix(keys.ASSIGNMENTS).partition("/")[2].rpartition("#")[0]


def _arriving(moves: Mapping[str, _Move]) -> list[tuple[str, NodeId]]:
    return [(name, move.to) for name, move in moves.items() if move.to is not None]


def _slots_taken(view: FleetView, tasks: Iterable[tuple[str, NodeId]]) -> Counter[NodeId]:
    """The slots that new tasks of these resources take on these nodes."""
    taken: Counter[NodeId] = Counter()
    for name, node in tasks:
        taken[node] += view.resources[name].cost
    return taken


def _note_pending(
    view: FleetView,
    coverages: Mapping[str, Coverage],
    binds: Mapping[str, list[BindReplica]],
    moves: Mapping[str, _Move],
) -> None:
    """Note which resources wait for room, and which for a tag to be near to; drop promised nodes that were used."""
    for name in binds:
        view.promised.pop(name, None)
    view.pending -= coverages.keys()
    view.seeking -= coverages.keys()
    for name, each in coverages.items():
        is_stuck = name in moves and moves[name].to is None
        if name in view.resources and (is_stuck or _is_short(each, binds, name)):
            view.pending.add(name)
            if view.affinity(view.resources[name]).near:
                view.seeking.add(name)


def _moves(
    view: FleetView,
    coverages: Mapping[str, Coverage],
    binds: Sequence[BindReplica],
    how: How,
    now: datetime,
    ramp: Mapping[NodeId, int] | None,
) -> dict[str, _Move]:
    """Where tasks go whose nodes are drained. What is missing has been given its nodes before."""
    leaving = {name: each.leaving for name, each in coverages.items() if each.leaving and not each.missing}
    if not leaving:
        return {}
    largest = max(view.resources[name].cost for name in leaving)
    there = [replace(each, ramp=_at_once(ramp, each.id, largest)) for each in _after(view, binds)]
    demands = [
        replace(demand_of(view, name, coverages[name], how, now), missing=1, leaving=hold.node)
        for name, hold in leaving.items()
    ]
    found = place(demands, there, how.policy, rules=how.rules)
    waiting = {each.key for each in found.pending}
    # A move that only the ramp prevents just waits; the others get the real reason.
    free = place(
        [each for each in demands if each.key in waiting],
        _after(view, [*binds, *found.binds]),
        how.policy,
        rules=how.rules,
    )
    stuck = {each.key: each.why for each in free.pending}
    moves = {key: _Move(leaving[key], None, stuck.get(key, ""), key not in stuck) for key in sorted(waiting)}
    return moves | {bind.key: _Move(leaving[bind.key], bind.node, bind.why) for bind in found.binds}


def _at_once(ramp: Mapping[NodeId, int] | None, node: NodeId, largest: int) -> int | None:
    """The slots a node may be given now; while it may be given any, a task that takes more goes too, on credit."""
    if not ramp or node not in ramp:
        return None
    return max(ramp[node], largest) if ramp[node] > 0 else 0


def _after(view: FleetView, binds: Sequence[BindReplica]) -> list[Place]:
    """The nodes that work, as they will be when these binds are carried out."""
    taken = _slots_taken(view, [(bind.key, bind.node) for bind in binds])
    new: defaultdict[NodeId, list[ResourceRecord]] = defaultdict(list)
    for bind in binds:
        new[bind.node].append(view.resources[bind.key])
    return [
        replace(
            each,
            used=each.used + taken[each.id],
            tags={*each.tags, *(tag for record in new[each.id] for tag in tags_of(record))},
            shuns={*each.shuns, *(tag for record in new[each.id] for tag in view.affinity(record).apart.items())},
        )
        if each.id in taken
        else each
        for each in places(view)
    ]


def _shifted(
    view: FleetView, coverages: Mapping[str, Coverage], shifts: Mapping[str, Shift], taken: Counter[NodeId]
) -> dict[str, _Move]:
    """Shifts of tasks that are still where they were, of resources about which there is nothing else to do.

    They were chosen without knowing what else this plan places, so there may be no room any more.
    """
    found = {}
    for name, shift in shifts.items():
        each, cost = coverages[name], view.resources[name].cost
        is_at_rest = not (each.end or each.missing or each.leaving or each.is_moving or each.renew)
        has_room = view.used[shift.to] + taken[shift.to] + cost <= view.slots(shift.to)
        if is_at_rest and has_room and shift.hold in each.keep:
            taken[shift.to] += cost
            found[name] = _Move(shift.hold, shift.to, shift.why)
    return found


def batches(changes: Iterable[PlannedChange]) -> Iterator[list[PlannedChange]]:
    """Changes in groups that fit into one commit; stores limit expectations as they limit writes."""
    batch: list[PlannedChange] = []
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


def _is_short(coverage: Coverage, binds: Mapping[str, list[BindReplica]], name: str) -> bool:
    return len(coverage.keep) - len(coverage.relieved) + len(binds.get(name, ())) < coverage.wanted


def coverage_of(view: FleetView, name: str, evicted: Collection[Key], now: datetime) -> Coverage:
    """What one resource needs, and what it has too much of."""
    record = view.resources.get(name)
    kind = view.kinds.get(record.kind) if record else None
    overdue = {node for node, drain in view.drains.items() if drain.deadline is not None and drain.deadline <= now}
    holds = list(view.holds.get(name, {}).values())
    return cover(record, kind, holds, view.nodes.keys(), evicted, view.drains.keys(), overdue)


def demand_of(view: FleetView, name: str, coverage: Coverage, how: How, now: datetime) -> Demand:
    """What a resource misses; nodes that could not keep it alive lately are better avoided."""
    record = view.resources[name]
    kind = view.kinds[record.kind]
    troubles = view.trouble.get(name, {})
    return Demand(
        key=name,
        kind=record.kind,
        missing=coverage.missing,
        holders=frozenset(hold.node for hold in coverage.keep),
        avoid=frozenset(node for node, each in troubles.items() if kept_until(each, how.avoid_for) > now)
        | _but_for(view, view.promised.get(name)),
        resting=view.resting.get(name, frozenset()),
        priority=record.priority,
        cost=record.cost,
        labels={**kind.labels, **record.labels},
        pin=record.pin,
        level=len(coverage.keep) - len(coverage.relieved),
        tags=record.tags,
        affinity=view.affinity(record),
        spec=record.spec,
    )


def _but_for(view: FleetView, node: NodeId | None) -> frozenset[NodeId]:
    """All other nodes, if one was chosen already."""
    return frozenset(view.nodes.keys() - {node}) if node is not None and node in view.nodes else frozenset()


def places(view: FleetView) -> list[Place]:
    """The nodes that work. What this very plan frees is not given out by it: that may be written and this not."""
    return [_place(view, node_id) for node_id, node in view.nodes.items() if node.role.may_work]


def _place(view: FleetView, node_id: NodeId) -> Place:
    work, load, closed = view.work.get(node_id), view.loads.get(node_id), why_closed(view, node_id)
    return Place(
        id=node_id,
        slots=view.slots(node_id),
        used=view.used[node_id],
        labels=view.labels(node_id),
        kinds=frozenset(work.kinds if work else ()),
        is_open=not closed,
        why_closed=closed,
        load=load.score if load else 0.0,
        tags=view.counts.tags[node_id].keys(),
        shuns=view.counts.shuns[node_id].keys(),
    )


def why_closed(view: FleetView, node_id: NodeId) -> str:
    """Why a node gets no new tasks; empty if it may."""
    for word, told in (("drained", view.drains.get(node_id)), ("cordoned", view.cordons.get(node_id))):
        if told is not None:
            return f"it is {word}: {told.why}" if told.why else f"it is {word}"
    return ""


def _change(
    view: FleetView,
    name: str,
    coverage: Coverage,
    binds: list[BindReplica],
    pending: Pending | None,
    move: _Move | None,
) -> PlannedChange:
    # What nodes said of reliefs has been heard by now: those they relieve end with this change, or did before.
    writes: list[Write] = [Delete(key) for key in view.reliefs.get(name, {})]
    expect: list[Expect] = []
    if move is not None and move.to is not None and move.hold.assignment.exclusive:
        view.promised[name] = move.to
        coverage = _stopped(coverage, move.hold, f"it moves to {move.to}")
    for end in coverage.end:
        writes.append(_ending(end))
        expect.append(At(end.hold.key, end.hold.epoch))
        if end.hold.node not in view.nodes:
            # Gone it must still be. One that came back in a new session may have read its old assignments already.
            expect.append(Absent(keys.node(end.hold.node)))
    record = view.resources.get(name)
    if record is None:
        writes += [Delete(f"{keys.TROUBLE}{name}/{node}") for node in view.trouble.get(name, {})]
        if coverage.end or name in view.statuses:  # else what is left only waits for its nodes to confirm
            ending = (*coverage.keep, *(end.hold for end in coverage.end))
            writes += [Delete(keys.SAVED + task) for task in sorted({hold.task for hold in ending})]
        status: ResourceStatus | None = None
    else:
        _renew_and_bind(view, record, coverage, binds, writes, expect)
        if move is not None and move.to is not None and not move.hold.assignment.exclusive:
            _relieve(record, move.hold, move.to, writes, expect)
        status = _status(view, record, coverage, binds, pending, move)
    before, key = view.statuses.get(name), keys.RESOURCE_STATUS + name
    if writes or status != before:
        writes.append(Put(key, codec.encode(status)) if status else Delete(key))
        expect.append(At(keys.RESOURCES + name, view.versions[name]) if record else Absent(keys.RESOURCES + name))
    planned: Expect = At(key, view.planned[name]) if name in view.planned else Absent(key)
    blank = ResourceStatus(ID="", Name=name, AssignedNode="", CreationTime=0, kind="", replicas=0, assigned=0)
    return PlannedChange(name, tuple(writes), (*expect, planned), planned, Put(key, codec.encode(before or blank)))


def _renew_and_bind(
    view: FleetView,
    record: ResourceRecord,
    coverage: Coverage,
    binds: list[BindReplica],
    writes: list[Write],
    expect: list[Expect],
) -> None:
    """Tell tasks what changed, and give new ones to nodes."""
    kind = view.kinds.get(record.kind)
    for hold in coverage.renew:
        told = hold.assignment
        renewed = replace(_assignment(record, told.slot, is_exclusive(told, kind)), relieves=told.relieves)
        writes.append(Put(hold.key, codec.encode(renewed)))
        expect.append(At(hold.key, hold.epoch))
    # A task that moves keeps its slot, and with it its saved state. Only where the very key is given up in this commit
    # it must be another: a commit writes a key once.
    given_up = {end.hold.key for end in coverage.end}
    taken = {hold.assignment.slot for hold in coverage.keep}
    taken |= {end.hold.assignment.slot for end in coverage.end if end.must_confirm}
    for bind in binds:
        slot = free_slot(taken)
        while (key := keys.assignment(bind.node, keys.task(record.kind, record.id, slot))) in given_up:
            slot = free_slot({*taken, *range(slot + 1)})
        taken.add(slot)
        writes.append(Put(key, codec.encode(_assignment(record, slot, view.kinds[record.kind].exclusive))))
        expect.append(Absent(key))


def _stopped(coverage: Coverage, hold: AssignedTask, why: str) -> Coverage:
    """The same, but this exclusive task is asked to stop, so that another may start."""
    keep = tuple(each for each in coverage.keep if each.key != hold.key)
    return replace(coverage, keep=keep, end=(*coverage.end, End(hold, why, must_confirm=True)))


def _relieve(record: ResourceRecord, hold: AssignedTask, to: NodeId, writes: list[Write], expect: list[Expect]) -> None:
    """Have a node run the same task, and say so."""
    key = keys.assignment(to, hold.task)
    successor = replace(_assignment(record, hold.assignment.slot, exclusive=False), relieves=hold.node)
    writes.append(Put(key, codec.encode(successor)))
    expect += [Absent(key), At(hold.key, hold.epoch)]


def _ending(end: End) -> Write:
    if not end.must_confirm:
        return Delete(end.hold.key)
    return Put(end.hold.key, codec.encode(replace(end.hold.assignment, stopping=True)))


def _assignment(record: ResourceRecord, slot: int, exclusive: bool) -> Assignment:
    return Assignment(
        kind=record.kind,
        resource=record.id,
        slot=slot,
        spec=record.spec,
        exclusive=exclusive,
        cost=record.cost,
    )


def _status(
    view: FleetView,
    record: ResourceRecord,
    coverage: Coverage,
    binds: list[BindReplica],
    pending: Pending | None,
    move: _Move | None,
) -> ResourceStatus:
    name = f"{record.kind}/{record.id}"
    before = view.statuses.get(name)
    new = {bind.node: bind.why for bind in binds}
    if move is not None and move.to is not None and not move.hold.assignment.exclusive:
        new[move.to] = move.why
    holders = [*(hold.node for hold in coverage.keep), *new]
    known = before.chosen if before else {}
    chosen = {node: known[node] for node in holders if node in known} | new
    return ResourceStatus(
        ID=record.uid,
        Name=record.id,
        AssignedNode=",".join(f"{node}|{_address(view, node)}" for node in holders),
        CreationTime=(record.created - EPOCH) // timedelta(microseconds=1) * 1000,
        kind=record.kind,
        replicas=coverage.wanted,
        assigned=len(coverage.keep) - len(coverage.relieved) + len(binds),
        pending=_why_pending(view, record, coverage, pending),
        refusals=dict(sorted(pending.refusals.items())[:REASONS]) if pending else {},
        chosen=dict(sorted(chosen.items())),
        moving=_why_moving(coverage, move),
        given_back=last(view.trouble.get(name, {}).values()),
        failing=_failing(view, name),
        not_running=len(view.failing[name].keys() & set(holders)) if name in view.failing else 0,
    )


def _failing(view: FleetView, name: str) -> dict[str, str] | None:
    """Why tasks of a resource fail, by node: what a node reports now goes before what it gave back.

    None for a resource that never failed: so are all that an older Rota wrote, and they need not be written again.
    """
    if not view.trouble.get(name) and name not in view.failing:
        return None
    given_back = {node: noted(each) for node, each in view.unwell.get(name, {}).items()}
    return dict(sorted({**given_back, **view.failing.get(name, {})}.items())[:REASONS])


def _why_moving(coverage: Coverage, move: _Move | None) -> str:
    if coverage.relieved:
        old = coverage.relieved[0]
        new = [hold.node for hold in coverage.keep if hold.assignment.relieves == old.node]
        return f"{old.node} keeps it until {new[0] if new else 'another node'} runs it"
    if move is None or move.is_next:
        return ""
    if move.to is None:
        return f"{move.hold.node} is drained, and no other node takes it: {move.why}"
    return f"{move.hold.node} keeps it until {move.to} runs it" if not move.hold.assignment.exclusive else ""


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
