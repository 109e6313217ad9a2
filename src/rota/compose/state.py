"""What the parts of a running node share, and how the node is shown."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota import __version__
from rota.compose.logs import FleetLogs
from rota.compose.metrics import NodeFigures
from rota.compose.runtime import Runtime
from rota.doors.behind import NodeBackend
from rota.doors.guard.sessions import Sessions
from rota.doors.steer import Steer, SteerVerb
from rota.doors.watches import Watches
from rota.fleet.audit.trail import AuditNotes
from rota.fleet.leading.duties import Duties
from rota.fleet.leading.term import Term
from rota.fleet.members.journal import Journal
from rota.fleet.members.load import LoadMeter
from rota.fleet.members.peers import Peers
from rota.fleet.members.session import NodeSession
from rota.jobs.fleet.declared import Written
from rota.jobs.fleet.ends import PendingOutcomes
from rota.jobs.fleet.part import JobsPart
from rota.jobs.logs.port import Logs
from rota.jobs.logs.reading import read_piece
from rota.kit.time.clock import Clock
from rota.link.records import AttemptId, LogPiece
from rota.model.errors import Unavailable
from rota.model.ids import NodeId, SessionId
from rota.model.peers import Standing
from rota.relay.core.records import ResourceTally, Tallies
from rota.resources.fleet.declared import Declarations
from rota.runtime.printed import Printed
from rota.services.admin.doors import Admins
from rota.services.node.door import ServicesDoor
from rota.services.node.recent_figures import ServiceFigures
from rota.store import Store


@dataclass
class NodeState:
    """The state of a node at this moment."""

    id: NodeId
    clock: Clock
    journal: Journal = field(default_factory=Journal)
    declared: Declarations = field(default_factory=lambda: Declarations(lambda: None))
    """The resources that its settings declare."""

    read_settings_again: Callable[[], None] = lambda: None
    """Takes in what the settings declare now."""

    runtime: Runtime | None = None
    """None if it runs no app."""

    peers: Peers | None = None
    """The other nodes, while it is in the fleet."""

    duties: Duties | None = None
    """Its part in the fleet's chores, while it is in the fleet."""

    jobs: JobsPart | None = None
    """Its part in jobs, while it is in the fleet."""

    app_jobs: Written = field(default_factory=Written)
    """What its app declared last, over all its sessions."""

    outcomes: PendingOutcomes = field(default_factory=PendingOutcomes)
    """Outcomes of attempts that are not written yet."""

    services: ServicesDoor | None = None
    """None if it runs no app."""

    printed: Printed | None = None
    """The lines that its workers print; None if it runs no app."""

    admins: Admins | None = None
    """The admin doors of its services."""

    store: Store | None = None
    """None while it is not reached."""

    session: NodeSession | None = None
    """None while it is not in the fleet."""

    term: Term | None = None
    """None while it does not lead."""

    watches: Watches = field(default_factory=Watches)
    """The callers that watch the fleet through its doors."""

    tallies: Tallies = field(init=False)
    """Asks for the counts of a resource's messages."""

    steer: Steer = field(init=False)
    """Asks a node what only that node can answer."""

    doors: dict[str, str] = field(default_factory=dict)
    """The addresses at which other nodes reach it, by protocol."""

    hook_outcomes: Counter[str] = field(default_factory=Counter)
    """The outcomes of its attempts to deliver events to hooks."""

    service_figures: ServiceFigures = field(init=False)
    meter: LoadMeter = field(init=False)
    """Measures its load."""

    notes: AuditNotes = field(init=False)
    """What was refused at its doors, or done without the store, until that is written to the audit trail."""

    sessions: Sessions = field(init=False)
    """The browsers that have logged in."""

    behind: NodeBackend = field(init=False)
    """The part of it that its doors see."""

    logs: Logs | None = None
    """Where the output of runs is kept; None while the store is not reached."""

    def __post_init__(self) -> None:
        self.notes = AuditNotes(self.clock)
        self.sessions = Sessions(lambda: self.store, self.clock)
        self.behind = NodeBackend(
            lambda: self.store,
            self.clock,
            self.watches,
            self._tally,
            lambda: self.logs,
            self._steer,
            note=self.notes.note,
            log_at=FleetLogs(self.id, self.read_log, lambda: self.peers),
        )
        self.meter = LoadMeter(self.clock, self.executors)
        self.service_figures = ServiceFigures(lambda: self.services, self.clock)

    def executors(self) -> tuple[int, int]:
        """How many executors it has, and how many of them are used."""
        runtime = self.runtime
        return (runtime.executors, runtime.executors - runtime.attempts.free) if runtime else (0, 0)

    async def read_log(self, attempt: AttemptId, offset: int) -> LogPiece:
        """A piece of a log that this node has in memory or keeps."""
        unwritten = self.runtime.unwritten(attempt, offset) if self.runtime else None
        if unwritten is not None:
            return unwritten
        if self.logs is None:
            raise Unavailable(f"node {self.id} does not reach the place where it keeps logs; try again in a moment")
        return await read_piece(self.logs, attempt, offset)

    @property
    def session_id(self) -> SessionId | None:
        """Its session, while it has one."""
        return self.session.node.session if self.session else None

    @property
    def is_ready(self) -> bool:
        """Is it in the fleet, with all its workers there?"""
        return self.session is not None and (self.runtime is None or self.runtime.is_ready)

    async def _tally(self, kind: str, resource: str) -> ResourceTally:
        return await self.tallies(kind, resource)

    async def _steer(self, node: NodeId, verb: SteerVerb, /, *, was_passed_on: bool = False, **fields: Any) -> Any:
        return await self.steer(node, verb, was_passed_on=was_passed_on, **fields)

    async def count_messages(self, kind: str, resource: str) -> tuple[ResourceTally, ...]:
        """The counts of a resource's messages at its relay; empty if there are none."""
        return await self.runtime.relay_tallies(kind, resource) if self.runtime else ()

    def show(self) -> dict[str, Any]:
        """The node as it sees itself."""
        runtime = self.runtime
        return {
            "node": self.id,
            "session": self.session_id,
            "pid": os.getpid(),
            "version": __version__,
            "leads": self.term is not None,
            "term": self.term.number if self.term else None,
            "is_ready": self.is_ready,
            "is_draining": runtime is not None and runtime.is_draining,
            "load": self.meter.load,
            "doors": dict(self.doors),
            "work": runtime.status() if runtime else None,
            "processes": runtime.processes() if runtime else None,
        }

    def figures(self) -> NodeFigures:
        """The node in numbers."""
        runtime, session = self.runtime, self.session
        workers: dict[tuple[str, str], int] = {}
        for pool in runtime.status().pools if runtime else ():
            for state in ("ready", "starting", "draining"):
                sort = (pool.name.partition(":")[0], state)  # there may be one pool per task
                workers[sort] = workers.get(sort, 0) + getattr(pool, state)
        return NodeFigures(
            workers=workers,
            exits=runtime.crew.exits if runtime else {},
            reloads=runtime.reloads.outcomes if runtime else {},
            events_dropped=self.journal.dropped,
            leads=self.term is not None,
            lease_safe_s=session.keeper.safe_until - self.clock.monotonic() if session else 0.0,
            lease_least_left_s=session.keeper.least_left if session else 0.0,
            services=self.service_figures.latest,
            load=self.meter.load,
            peers=self._peers_by_standing(),
            hooks=dict(self.hook_outcomes),
            relay=runtime.relay.status if runtime and runtime.relay else None,
        )

    def _peers_by_standing(self) -> dict[str, int]:
        """The other nodes, by how this one finds them."""
        found = dict.fromkeys(Standing, 0)
        if peers := self.peers:
            for node in peers.members:
                health = peers.health.get(node)
                if health and not health.is_online:
                    found[Standing.OFFLINE] += 1
                else:
                    found[Standing.SUSPECT if node in peers.ledger.strikes else Standing.ONLINE] += 1
        return {str(standing): count for standing, count in found.items()}
