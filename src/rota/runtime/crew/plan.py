"""Crew: which worker processes a node should start, drain and kill.

`plan` compares the pools a node wants with the members it has, and returns actions with their reasons and when to look
again. It is level-triggered: after any event, or none, the same state gives the same actions, and carrying them out
leaves nothing to do but wait.

A pool has slots; each wants one ready member of the target generation. Replacing is make-before-break: an older
generation drains only when *every* slot of its pool has a ready successor, so a pool never serves with two generations
mixed for longer than the flip; a worn member (recycling) drains when its own successor is ready, one slot of a pool at
a time. A pool that breaks first is the other way round: nothing starts while anything else of its slot, or of another
generation, still lives; so it is whenever the pool's version differs, which is another piece of work under the same
name.

What needs the lease starts only while the node may act under it.

Time arrives as an argument; the node's shell (`runtime.crew.crew`) carries the actions out.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

import msgspec

from rota.kit.time.instant import Instant
from rota.runtime.core.restart import Falls, RestartPolicy


class WorkerPhase(StrEnum):
    """Where a member stands."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class WorkerPool(msgspec.Struct, frozen=True):
    """Workers of one sort."""

    name: str
    count: int
    breaks_first: bool = False
    """Must the old worker be gone before the new one starts?"""

    version: int = 0
    """Which piece of work the pool is for: the epoch of a task."""

    needs_lease: bool = False
    """Is this work that must not run twice at the same time?"""

    generation: int | None = None
    """The generation it wants, if not the target: a canary's."""

    is_task: bool = False
    """Is it there for one task, which may come, go and fail at any time?"""


class CrewMember(msgspec.Struct, frozen=True):
    """One worker process."""

    id: int
    pool: str
    slot: int
    generation: int
    phase: WorkerPhase
    since: Instant
    """When it entered its phase."""

    worn: str = ""
    """Why it should be replaced; empty if it should not."""

    drain: timedelta | None = timedelta(seconds=10)
    """How long it may take to end, None for as long as its work takes; its pool may be gone by then."""

    version: int = 0
    """Which piece of work it was started for."""


class CrewState(msgspec.Struct, frozen=True):
    """What a node has and wants."""

    pools: Mapping[str, WorkerPool]
    target: int
    members: tuple[CrewMember, ...]
    loaders: frozenset[int]
    """Generations that can fork now."""

    safe_until: Instant | None = None
    """Until when this node may act under its lease; None if it has none."""

    falls: Mapping[tuple[str, int], Falls] = msgspec.field(default_factory=dict)
    start_timeout: timedelta = timedelta(seconds=30)
    restart: RestartPolicy = msgspec.field(default_factory=RestartPolicy)


class StartWorker(msgspec.Struct, frozen=True):
    """Fork a worker."""

    pool: str
    slot: int
    generation: int


class DrainWorker(msgspec.Struct, frozen=True):
    """Let a worker finish what it has, and end."""

    member: int
    why: str


class KillWorker(msgspec.Struct, frozen=True):
    """End a worker now."""

    member: int
    why: str


Action = StartWorker | DrainWorker | KillWorker


class CrewPlan(msgspec.Struct, frozen=True):
    """What to do now, and when to look again if nothing happens before."""

    actions: tuple[Action, ...]
    look_again: Instant | None


def plan(crew: CrewState, now: Instant) -> CrewPlan:
    """What brings the members closer to the pools."""
    by_pool: dict[str, list[CrewMember]] = defaultdict(list)
    for member in crew.members:
        by_pool[member.pool].append(member)
    actions: list[Action] = []
    waits: list[Instant] = []
    for name, members in by_pool.items():
        if name not in crew.pools:
            actions += (
                DrainWorker(member.id, "not wanted any more")
                for member in members
                if member.phase != WorkerPhase.DRAINING
            )
    for pool in crew.pools.values():
        actions += _for_pool(crew, pool, by_pool.get(pool.name, []), now, waits)
    drained = {action.member for action in actions if isinstance(action, DrainWorker)}
    for member in crew.members:
        if member.id not in drained and (late := _late(crew, member, now, waits)):
            actions.append(KillWorker(member.id, late))
    return CrewPlan(tuple(actions), min(waits, default=None))


def is_settled(crew: CrewState, generation: int) -> bool:
    """Has every pool all its workers, ready and of this generation, and is there nothing else but draining workers?

    Pools of tasks do not count: a task may fail for reasons that no code can change.
    """
    lasting = {name: pool for name, pool in crew.pools.items() if not pool.is_task}
    tasks = crew.pools.keys() - lasting.keys()
    wanted = {(pool.name, slot) for pool in lasting.values() for slot in range(pool.count) if not pool.generation}
    there = {(m.pool, m.slot) for m in crew.members if m.generation == generation and m.phase == WorkerPhase.READY}
    older = [m for m in crew.members if m.generation != generation and m.phase != WorkerPhase.DRAINING]
    return wanted <= there and all(member.pool in tasks for member in older)


def _for_pool(
    crew: CrewState, pool: WorkerPool, members: list[CrewMember], now: Instant, waits: list[Instant]
) -> Iterator[StartWorker | DrainWorker]:
    generation = pool.generation or crew.target
    by_slot: dict[int, list[CrewMember]] = defaultdict(list)
    for member in members:
        by_slot[member.slot].append(member)
    fit = {slot: _fitting(by_slot[slot], pool, generation) for slot in range(pool.count)}
    renewing = _slot_to_renew(pool, by_slot, generation)
    yield from _starts(crew, pool, by_slot, fit, renewing, generation, now, waits)
    yield from _drains(pool, by_slot, fit, generation)


def _starts(
    crew: CrewState,
    pool: WorkerPool,
    by_slot: Mapping[int, list[CrewMember]],
    fit: Mapping[int, list[CrewMember]],
    renewing: int | None,
    generation: int,
    now: Instant,
    waits: list[Instant],
) -> Iterator[StartWorker]:
    if generation not in crew.loaders or (pool.needs_lease and not _may_act(crew, now)):
        return  # the loader's return is an event, and so is the lease's
    has_older = pool.breaks_first and any(
        member.generation != generation for members in by_slot.values() for member in members
    )
    for slot in range(pool.count):
        if fit[slot]:
            continue
        worn_ones_turn_has_not_come = slot != renewing and any(
            member.worn and member.generation == generation and member.phase == WorkerPhase.READY
            for member in by_slot[slot]
        )
        must_end_first = any(pool.breaks_first or member.version != pool.version for member in by_slot[slot])
        if worn_ones_turn_has_not_come or must_end_first or has_older:
            continue
        start_at = crew.falls.get((pool.name, slot), Falls()).start_at(crew.restart)
        if start_at <= now:
            yield StartWorker(pool.name, slot, generation)
        else:
            waits.append(start_at)


def _drains(
    pool: WorkerPool, by_slot: Mapping[int, list[CrewMember]], fit: Mapping[int, list[CrewMember]], generation: int
) -> Iterator[DrainWorker]:
    has_flipped = all(_is_ready(fit[slot]) for slot in range(pool.count))
    for slot, members in sorted(by_slot.items()):
        for member in members:
            if member.phase == WorkerPhase.DRAINING:
                continue
            if slot >= pool.count:
                yield DrainWorker(member.id, "the pool became smaller")
            elif member.version != pool.version:
                yield DrainWorker(member.id, f"version {pool.version} takes its place")
            elif member.generation != generation and (has_flipped or pool.breaks_first):
                yield DrainWorker(member.id, f"generation {generation} took over")
            elif member.worn and (pool.breaks_first or (member not in fit[slot] and _is_ready(fit[slot]))):
                yield DrainWorker(member.id, member.worn)


def _fitting(members: Iterable[CrewMember], pool: WorkerPool, generation: int) -> list[CrewMember]:
    """The members that a slot may keep."""
    return [
        member
        for member in members
        if (member.generation, member.version) == (generation, pool.version)
        and member.phase != WorkerPhase.DRAINING
        and not member.worn
    ]


def _may_act(crew: CrewState, now: Instant) -> bool:
    return crew.safe_until is not None and now < crew.safe_until


def _is_ready(members: Iterable[CrewMember]) -> bool:
    return any(member.phase == WorkerPhase.READY for member in members)


def _slot_to_renew(pool: WorkerPool, by_slot: Mapping[int, list[CrewMember]], generation: int) -> int | None:
    """The one slot of a pool whose worn member is replaced now."""
    for slot in range(pool.count):
        members = by_slot.get(slot, [])
        if any(m.worn and m.generation == generation and m.phase == WorkerPhase.READY for m in members):
            return slot
    return None


def _late(crew: CrewState, member: CrewMember, now: Instant, waits: list[Instant]) -> str:
    """Why a member has exceeded its time; empty if it has not."""
    match member.phase:
        case WorkerPhase.STARTING:
            limit, why = crew.start_timeout, "did not register in time"
        case WorkerPhase.DRAINING:
            if member.drain is None:
                return ""
            limit, why = member.drain, "did not end in time"
        case WorkerPhase.READY:
            return ""
    ends = Instant(member.since + limit.total_seconds())
    if now >= ends:
        return why
    waits.append(ends)
    return ""
