"""A node's part in jobs: what it declares, what it schedules, and what it runs."""

import asyncio
from collections.abc import Callable, Sequence

from rota.compose.runtime import Runtime
from rota.compose.state import NodeState
from rota.fleet.leading.term import Term
from rota.fleet.members.session import NodeSession
from rota.jobs.core.declared import DeclarationOwner
from rota.jobs.core.records import JobSpec, Origin, Outcome, RunOrder
from rota.jobs.fleet.declared import Undeclared, Written, keep_declared_jobs
from rota.jobs.fleet.owner import AttemptRunner
from rota.jobs.fleet.part import JobsDependencies, JobsPart
from rota.jobs.fleet.retention import keep_runs
from rota.jobs.fleet.scheduler import NodeStandings
from rota.model.config import JobsConfig, PeersConfig
from rota.model.errors import Denied, Invalid
from rota.model.ids import NodeId
from rota.store import Store

ReadJobs = Callable[[], Sequence[JobSpec] | None]
"""Reads the jobs that a file declares; None if there is no file. Invalid or Denied if it cannot be read."""


class FileJobs:
    """The jobs that this node's file declares, as last read."""

    def __init__(self, node: NodeId, read: ReadJobs) -> None:
        self._owner, self._read = DeclarationOwner(Origin.FILE, node), read
        self._jobs = read()

    def read_again(self, tell: Callable[..., None]) -> None:
        """Read the file again; if it cannot be read, nothing changes."""
        try:
            self._jobs = self._read()
        except (Invalid, Denied) as error:
            tell("config.failed", "jobs", why=str(error))

    def declared(self) -> tuple[DeclarationOwner, Sequence[JobSpec]] | None:
        """The owner of the declarations, and the jobs."""
        return (self._owner, self._jobs) if self._jobs is not None else None


class NoRuns:
    """Stands for the runs of a node without an app: it only schedules."""

    executors = free = 0

    def start_many(self, orders: Sequence[RunOrder], ended: Callable[[RunOrder, Outcome], None]) -> list[str]:
        """Refuses every attempt."""
        return ["this node runs no app"] * len(orders)

    def interrupt(self, run: str, attempt: int, why: str) -> bool:
        """Does nothing, because nothing runs."""
        return False


def take_part(
    parts: asyncio.TaskGroup,
    state: NodeState,
    store: Store,
    session: NodeSession,
    file_jobs: FileJobs,
    config: PeersConfig,
) -> None:
    """Start a session's part in jobs, and put it in the state."""
    node, runtime, tell = session.node, state.runtime, state.journal.tell
    runs: AttemptRunner = runtime.attempts if runtime is not None else NoRuns()
    standing = NodeStandings(lambda other: _barred(state, other), lambda other: _share(state, other, config))
    around = JobsDependencies(
        runs,
        state.outcomes,
        state.clock,
        tell,
        link_to=lambda other: state.peers.link(other) if state.peers else None,
        strike=lambda other, why: state.peers.doubt() if state.peers else None,
        standing=standing,
    )
    state.jobs = JobsPart(store, node, session.incarnation, lambda: session.keeper.may_act, around)
    parts.create_task(state.jobs.run(), name="jobs")
    at = session.incarnation.key
    if runtime is not None:
        of_app = keep_declared_jobs(store, node.id, at, lambda: _of_app(runtime), tell, state.app_jobs)
        parts.create_task(of_app, name="jobs of the app")
    of_file = keep_declared_jobs(store, node.id, at, file_jobs.declared, tell, Written())
    parts.create_task(of_file, name="jobs of the file")


def chores(duties: asyncio.TaskGroup, state: NodeState, term: Term, config: JobsConfig) -> None:
    """The chores that one node does for the whole fleet: the leader does them."""
    assert state.logs is not None  # they are opened with the store
    duties.create_task(keep_runs(term.store, state.logs, config, state.journal.tell), name="old runs")
    duties.create_task(Undeclared(term.store, state.journal.tell).run(), name="undeclared jobs")


def _barred(state: NodeState, node: NodeId) -> str:
    if node == state.id:
        is_stopping = state.runtime is not None and state.runtime.is_draining
        return "it is stopping" if is_stopping else ""
    # By this node's own checks. A node that answers but counts as offline, because it fell recently, has no share; but
    # if all nodes count as offline, one has to do the work (`jobs.core.dispatch`).
    return "it cannot be reached" if state.peers is not None and node in state.peers.ledger.strikes else ""


def _share(state: NodeState, node: NodeId, config: PeersConfig) -> float:
    """The share of a node's executors: less for a while after it came back, and nothing while it counts as offline."""
    if node == state.id or state.peers is None or state.jobs is None:
        return 1.0
    return state.peers.weight(node, state.jobs.clock.now(), config.ramp * config.beat)


def _of_app(runtime: Runtime) -> tuple[DeclarationOwner, Sequence[JobSpec]] | None:
    loaded = runtime.generations.app
    return (DeclarationOwner(Origin.APP, loaded.app.name), runtime.jobs()) if loaded else None
