"""Dispatch: which node takes which run, and why others wait.

Jobs take turns: first comes the job of which the fewest runs are bound, of equals the one that was served longest ago,
and within a job the run that was due first. So a thousand runs that were started at once do not hold up the one run of
another job. Each run goes to the node with the most free executors, which has one less after that; among equals by load
score and then by name. A node must have what the job asks for: its labels, and its function if it is one. Cordoned
nodes, nodes that are leaving and nodes that the deciding node cannot reach get nothing; if it reaches no other node, it
takes the run itself, if it may.

Nodes that fell recently get less than they could take, or nothing. The rest of their executors is a reserve, for runs
that have waited for a while: otherwise, after a fall of the whole fleet, all work would go to a single node although
all are back.

A job's limit of runs at a time counts those that are bound, wherever they are. The commit keeps races from exceeding
it: it writes the job's cursor and expects it unchanged since this was decided.

The work is about that of sorting the runs, however many nodes there are: nodes that can run the same jobs are looked at
together, and who has the most room is at the top of a heap.

Pure. `jobs.fleet` commits the bindings and notifies the nodes.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from rota.jobs.core.records import JobSpec, RunRecord
from rota.model.ids import NodeId, SessionId

UNKNOWN_JOB = "its job is gone"
NOBODY = "no node takes part in jobs; start one with an app, or wait"
NO_ROOM = "no executor is free any more"

PATIENCE = timedelta(seconds=10)
"""How long a run waits for a node in good standing."""

SET_BACK = timedelta(minutes=1)
"""A run that was made, or last tried, this much later than now shows that the store's clock was set back; its waits are
then ignored."""


class EligibleNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that may run attempts, as the deciding node sees it."""

    node: NodeId
    session: SessionId
    free: int
    """Executors of its share to which no run is bound; negative if it has more runs than its share."""

    reserve: int = 0
    """Executors outside its share to which no run is bound; they are held back because the node fell recently."""

    spare: int = 0
    """Short runs that it would take on ahead while no node has a free executor."""

    score: float = 0.0
    """Its load: 0 idle … 100 busy."""

    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    jobs: frozenset[str] = frozenset()
    """Jobs whose function it has."""

    barred: str = ""
    """Why it gets no runs at all; empty if it may get some."""

    @property
    def room(self) -> int:
        """How many runs it would take, at most."""
        return 0 if self.barred else max(0, self.free) + max(0, self.spare) + max(0, self.reserve)


class BindRun(msgspec.Struct, frozen=True):
    """Bind a run to a node."""

    run: RunRecord
    member: EligibleNode


class DispatchPlan(msgspec.Struct, frozen=True):
    """The runs to bind, and why the others wait."""

    binds: tuple[BindRun, ...]
    waiting: Mapping[str, str]
    """Run → the reason why it waits."""


def dispatch(
    runs: Iterable[RunRecord],
    jobs: Mapping[str, JobSpec],
    bound: Mapping[str, int],
    members: Sequence[EligibleNode],
    now: datetime,
    served: Mapping[str, int] | None = None,
) -> DispatchPlan:
    """Nodes for these runs, given how many runs of each job are bound already.

    `served` has a number for each job that was given a node before, greater for a later time.
    """
    free = {member.node: member.free for member in members}
    spare = {member.node: member.spare for member in members}
    reserve = {member.node: member.reserve for member in members}
    held = sum(max(0, member.reserve) for member in members if not member.barred)
    places = sum(member.room for member in members) - held
    counts = Counter(bound)
    fits = _Fits(members, free, spare, reserve)
    binds: list[BindRun] = []
    waiting: dict[str, str] = {}
    for run in _in_turns(runs, bound, served or {}):
        job = jobs.get(run.job)
        if job is None:
            waiting[run.id] = UNKNOWN_JOB
            continue
        if job.concurrency is not None and counts[run.job] >= job.concurrency:
            waiting[run.id] = _limit(job)
            continue
        fit = fits.of(job)
        if isinstance(fit, str):
            waiting[run.id] = fit
            continue
        best = fit.take_place() if places else None
        places -= best is not None
        if best is None and held and _has_waited(run, now):
            best = fit.reserve.take()
            held -= best is not None
        if best is None:
            waiting[run.id] = NO_ROOM if binds else _why_full(fit.members)
            continue
        counts[run.job] += 1
        binds.append(BindRun(run, best))
    return DispatchPlan(tuple(binds), waiting)


def misfit(job: JobSpec, member: EligibleNode) -> str:
    """Why a node can never run this job; empty if it can."""
    for name, value in job.labels.items():
        if member.labels.get(name) != value:
            return f'its label {name} is "{member.labels.get(name, "")}", and the job wants "{value}"'
    if not job.is_command and job.name not in member.jobs:
        return "its app has no such job"
    return ""


def is_ready(run: RunRecord, now: datetime) -> bool:
    """Is a node the only thing that a pending run waits for?"""
    return run.not_before is None or run.not_before <= now or _is_of_another_clock(run, now)


def ready_since(run: RunRecord) -> datetime:
    """Since when a node is the only thing that a pending run waits for."""
    since = _since(run)
    return max(run.due, since, run.not_before or since)


class _Room:
    """Finds the node with the most room of one sort; the room shrinks as it is taken, also through other jobs."""

    def __init__(self, members: Sequence[EligibleNode], room: dict[NodeId, int]) -> None:
        self._room = room
        self._members = {member.node: member for member in members}
        self._heap = [(-room[member.node], member.score, member.node) for member in members if room[member.node] > 0]
        heapq.heapify(self._heap)

    def take(self) -> EligibleNode | None:
        """The node that takes a run: most room first, among equals the least loaded, then the first by name."""
        while self._heap:
            seen, score, node = self._heap[0]
            left = self._room[node]
            if left <= 0:
                heapq.heappop(self._heap)
            elif left != -seen:
                heapq.heapreplace(self._heap, (-left, score, node))
            else:
                self._room[node] -= 1
                return self._members[node]
        return None


class _Fit:
    """The nodes that may run a job."""

    def __init__(
        self,
        members: Sequence[EligibleNode],
        free: dict[NodeId, int],
        spare: dict[NodeId, int],
        reserve: dict[NodeId, int],
    ) -> None:
        self.members = members
        self._free, self._spare, self.reserve = (_Room(members, room) for room in (free, spare, reserve))

    def take_place(self) -> EligibleNode | None:
        """The node that takes a run, now or ahead of its present work."""
        return self._free.take() or self._spare.take()


class _Fits:
    """The nodes that may run each job; jobs with the same labels and functions are checked once."""

    def __init__(self, members: Sequence[EligibleNode], *rooms: dict[NodeId, int]) -> None:
        self._members, self._rooms = members, rooms
        self._alike: dict[tuple[frozenset[tuple[str, str]], frozenset[str]], list[int]] = {}
        for place, member in enumerate(members):
            self._alike.setdefault((frozenset(member.labels.items()), member.jobs), []).append(place)
        self._by_job: dict[str, _Fit | str] = {}
        self._by_places: dict[tuple[int, ...], _Fit] = {}

    def of(self, job: JobSpec) -> _Fit | str:
        """The nodes that may run a job, or why there is none."""
        if job.name not in self._by_job:
            self._by_job[job.name] = self._find(job)
        return self._by_job[job.name]

    def _find(self, job: JobSpec) -> _Fit | str:
        members = self._members
        if not members:
            return NOBODY
        able = [places for places in self._alike.values() if not misfit(job, members[places[0]])]
        if not able:
            return f"no node can run it; {members[0].node}: {misfit(job, members[0])}"
        key = tuple(places[0] for places in able)
        if key not in self._by_places:
            found = [members[place] for place in sorted(place for places in able for place in places)]
            fit = [member for member in found if not member.barred]
            if not fit:
                return f"the nodes that can run it take nothing now; {found[0].node}: {found[0].barred}"
            self._by_places[key] = _Fit(fit, *self._rooms)
        return self._by_places[key]


def _in_turns(runs: Iterable[RunRecord], bound: Mapping[str, int], served: Mapping[str, int]) -> list[RunRecord]:
    """Runs in the order in which they are given a node."""
    seen = Counter(bound)
    ranked = list[tuple[int, int, datetime, str, RunRecord]]()
    for run in sorted(runs, key=_order):
        ranked.append((seen[run.job], served.get(run.job, 0), run.due, run.id, run))
        seen[run.job] += 1
    ranked.sort(key=lambda each: each[:4])
    return [run for *_, run in ranked]


def _order(run: RunRecord) -> tuple[datetime, str]:
    return run.due, run.id


def _limit(job: JobSpec) -> str:
    return f"{job.concurrency} of it run already, and that is its limit"


def _why_full(members: Sequence[EligibleNode]) -> str:
    later = any(member.reserve > 0 for member in members)
    more = f"; after {PATIENCE.total_seconds():g} s it may go to one that fell lately" if later else ""
    return f"no executor is free on {_names(members)}{more}"


def _has_waited(run: RunRecord, now: datetime) -> bool:
    """Has it been ready for `PATIENCE`, so that a node that fell recently may take it too?"""
    return now - ready_since(run) >= PATIENCE or _is_of_another_clock(run, now)


def _is_of_another_clock(run: RunRecord, now: datetime) -> bool:
    """Was the store's clock set back since the run was made or tried? The last node to try may still have used the old
    time."""
    return now < _since(run) - SET_BACK


def _since(run: RunRecord) -> datetime:
    """When it was made, or last tried."""
    return max(run.created, run.earlier[-1].ended) if run.earlier else run.created


def _names(members: Sequence[EligibleNode]) -> str:
    shown = ", ".join(member.node for member in members[:3])
    return shown if len(members) <= 3 else f"{shown} and {len(members) - 3} more"
