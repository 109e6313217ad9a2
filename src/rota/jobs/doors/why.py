"""Why a run waits, and why a job has the runs that it has: the data that nodes decide by, read and decided again.

Nothing is written: the answer is that of the pure decisions (`jobs.core`) on what the store has now. At most `LOOKED`
runs that are not over are read, and all of the job in question up to as many.
"""

from collections.abc import Collection, Iterable
from contextlib import aclosing
from datetime import datetime

import msgspec

from rota.doors.verbs import adds_to, verb
from rota.doors.why_answers import Why
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.nodes.operations import list_nodes
from rota.jobs.core import why as reasons
from rota.jobs.core.dispatch import DispatchPlan, EligibleNode, dispatch, is_ready
from rota.jobs.core.due import BACKLOG, new_run
from rota.jobs.core.records import Cause, RunRecord, RunState
from rota.jobs.core.why import HoldReason, JobSeen
from rota.jobs.doors.answers import RunPage, RunView
from rota.jobs.doors.parameters import JobName, RunId
from rota.jobs.doors.reading import no_job, run_record
from rota.jobs.fleet.members import PREFIXES, Members
from rota.jobs.fleet.view import JobsView
from rota.kit.record import replace
from rota.model import keys
from rota.model.ids import Key, NodeId, Revision, SessionId
from rota.model.node import NodeLoad
from rota.model.peers import Standing
from rota.store.follow import PrefixChanges
from rota.store.port import Change, Entry, Store
from rota.store.records import understood
from rota.store.scanning import scan_all

LOOKED = 10_000
"""Runs not over that one question reads at most."""


@verb("GET", "/v1/runs/{job}/{moment}/why", Access.VIEW, rpc="Runs.Why")
async def why_run(store: Store, run: RunId) -> Why:
    """Why a run has no node yet, or what became of it; NotFound if there is no such run."""
    record = await run_record(store, run)
    if record.state is not RunState.PENDING:
        held = reasons.why_run(record, None, await store.now(), None)
    else:
        held = (await _survey(store, [record.job], [record.id])).held(record)
    return Why(thing=record.id, says=held.says, reasons=held.reasons)


@verb("GET", "/v1/jobs/{name}/why", Access.VIEW, rpc="Jobs.Why")
async def why_job(store: Store, name: JobName) -> Why:
    """Why a job has the runs that it has, and when there will be more; NotFound if there is no such job."""
    if await store.get(keys.job(name)) is None:
        raise await no_job(store, name)
    held = (await _survey(store, [name])).held_job(name)
    return Why(thing=name, says=held.says, reasons=held.reasons)


@adds_to("list_runs")
async def explained(store: Store, page: RunPage) -> RunPage:
    """The same page, with what holds back each run that waits."""
    waiting = [view for view in page.runs if view.state is RunState.PENDING and not view.why]
    if not waiting:
        return page
    survey = await _survey(store, {view.job for view in waiting}, [view.id for view in waiting])
    return replace(page, runs=tuple(survey.explained(view) for view in page.runs))


@adds_to("get_run")
async def explained_run(store: Store, view: RunView) -> RunView:
    """The same run, with what holds it back if it waits."""
    return (await explained(store, RunPage(runs=(view,)))).runs[0]


class _Survey(msgspec.Struct, frozen=True):
    """The data that nodes decide by, as far as it was read, and what they would decide."""

    view: JobsView
    members: list[EligibleNode]
    plan: DispatchPlan
    now: datetime

    def held(self, run: RunRecord) -> HoldReason:
        """What holds a pending run back."""
        known = self.view.jobs.get(run.job)
        order = run.due, run.id
        ahead = sum(
            (live.run.due, live.run.id) < order and live.run.state is RunState.PENDING
            for live in self.view.live.values()
            if live.run.job == run.job
        )
        return reasons.why_run(run, known.record if known else None, self.now, self.plan.waiting.get(run.id), ahead)

    def explained(self, view: RunView) -> RunView:
        """A run with what holds it back."""
        live = self.view.live.get(view.id)
        if live is None or live.run.state is not RunState.PENDING:
            return view
        held = self.held(live.run)
        return replace(view, why="; ".join(held.reasons) or held.says)

    def held_job(self, name: str) -> HoldReason:
        """What holds the runs of a job back."""
        known, cursor = self.view.jobs[name], self.view.cursors.get(name)
        spec = known.record.spec
        one_more = new_run(spec, self.now, Cause.MANUAL, self.now, more="why")
        plan = dispatch([one_more], {name: spec}, self.view.bound, self.members, self.now)
        seen = JobSeen(
            record=known.record,
            created=known.created,
            cursor=cursor[1] if cursor else None,
            successes=self.view.successes,
            bound=self.view.bound[name],
            pending=self.view.waiting[name],
            backlog=self.view.backlog(name, self.now, BACKLOG),
            refused=plan.waiting.get(one_more.id, ""),
        )
        return reasons.why_job(seen, self.now)


async def _survey(store: Store, jobs: Collection[str], runs: Collection[str] = ()) -> _Survey:
    view = JobsView()
    for prefix in (keys.JOBS, keys.JOB_CURSORS, keys.JOB_SUCCESSES):
        _fold(view, await _some(store, prefix, None))
    for name in sorted(jobs):
        _fold(view, await _some(store, f"{keys.LIVE_RUNS}{name}/", LOOKED))
    _fold(view, await _some(store, keys.LIVE_RUNS, LOOKED))
    asked = [await store.get(keys.live_run(run)) for run in runs if run not in view.live]
    _fold(view, [entry for entry in asked if entry is not None])
    members, now = await _members(store, view), await store.now()
    ready = [live.run for live in view.live.values() if live.run.state is RunState.PENDING and is_ready(live.run, now)]
    specs = {name: known.record.spec for name, known in view.jobs.items()}
    return _Survey(view, members, dispatch(ready, specs, view.bound, members, now), now)


async def _some(store: Store, prefix: Key, most: int | None) -> list[Entry]:
    found: list[Entry] = []
    async with aclosing(scan_all(store, prefix)) as entries:
        async for entry in entries:
            found.append(entry)
            if most is not None and len(found) == most:
                break
    return found


def _fold(view: JobsView, entries: Iterable[Entry]) -> None:
    changes = tuple(Change(entry.key, entry) for entry in entries)
    view.fold(changes, max((change.entry.modified for change in changes if change.entry), default=view.revision))


async def _members(store: Store, view: JobsView) -> list[EligibleNode]:
    """The nodes that run jobs; a node that others cannot reach is barred, as it is for those others."""
    members, loads = Members(), dict[NodeId, NodeLoad]()
    for prefix in PREFIXES:
        entries = (await store.scan(prefix)).entries
        members.fold(
            prefix, PrefixChanges(tuple(Change(entry.key, entry) for entry in entries), Revision(0), is_whole=True)
        )
        if prefix == keys.NODE_LOADS:
            known = {NodeId(entry.key.removeprefix(prefix)): understood(NodeLoad, entry) for entry in entries}
            loads = {node: load for node, load in known.items() if load is not None}
    found = {node.id: node for node in (await list_nodes(store)).nodes}

    def taken(session: SessionId) -> int:
        # With more than `LOOKED` runs not all were read; then the reason in the run's record is better.
        load = loads.get(members.sessions.get(session, NodeId("")))
        return max(len(view.at.get(session, ())), load.executors_used if load else 0)

    def barred(node: NodeId) -> str:
        seen = found.get(node)
        return "it cannot be reached" if seen is not None and seen.standing is not Standing.ONLINE else ""

    return members.members(taken, barred, lambda _: 1.0)
