"""A node as the others see it, the leader among them, and the incarnation of the store they share."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from rota.model.codec import stored
from rota.model.ids import LeaseId, NodeId, SessionId


class Role(StrEnum):
    """What a node does for the fleet."""

    SUPERVISE = "supervise"
    WORK = "work"
    BOTH = "both"

    @property
    def may_lead(self) -> bool:
        """May such a node stand for election?"""
        return self is not Role.WORK

    @property
    def may_work(self) -> bool:
        """May such a node run an app's work?"""
        return self is not Role.SUPERVISE


@stored()
class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet that the store belongs to."""

    name: str
    apps: tuple[str, ...] = ()
    """The names that its app has had."""

    is_named: bool = False
    """Was the name given by a setting? If not, it is the first app's."""

    since: datetime


@stored()
class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One member, for the length of one session; lives under that session's lease."""

    id: NodeId
    """The id of the node."""

    session: SessionId
    lease: LeaseId
    role: Role
    """Which work it takes."""

    home: str
    """Which data folder it runs on: the same for each life of one node, and for no other."""

    host: str
    """The name of its machine."""

    pid: int
    since: datetime
    """Since when it is in the fleet."""

    lease_ttl: timedelta
    """How long its key outlives it."""

    http: str = ""
    """Where it answers HTTP; empty if nowhere."""

    grpc: str = ""
    """Where the other nodes reach it; empty if nowhere."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Its labels, which resources and jobs can ask for."""

    slots: int = 0
    executors: int = 0
    """How many attempts of jobs it runs at a time; 0: it runs none."""

    version: str = ""
    """Which Rota it runs."""

    insecure: bool = False
    """Can other machines reach its doors without TLS?"""

    network: str = ""
    """The id of its machine's loopback: the same for all nodes of one machine; empty if not reported."""

    token_mark: str = ""
    """The beginning of its token's digest, which shows whether two nodes have the same."""


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Workers of one sort on a node."""

    name: str
    role: str
    want: int
    ready: int
    starting: int
    draining: int
    crash_loop: str | None = None
    """Why they keep failing, if they do."""

    held_up: str | None = None
    """What keeps one of them from ending, if it should have."""


def together(name: str, one: PoolStatus, other: PoolStatus) -> PoolStatus:
    """Two pools shown as one."""
    return PoolStatus(
        name=name,
        role=one.role,
        want=one.want + other.want,
        ready=one.ready + other.ready,
        starting=one.starting + other.starting,
        draining=one.draining + other.draining,
        crash_loop=one.crash_loop or other.crash_loop,
        held_up=one.held_up or other.held_up,
    )


@stored()
class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a node runs; written by the node when it changes, under its lease."""

    app: str | None
    generation: int
    previous: int | None
    reloading: str | None
    pools: list[PoolStatus]
    tasks_ordered: int
    tasks_running: int
    kinds: list[str] = msgspec.field(default_factory=list)
    """The kinds of resources its app declares."""

    jobs: list[str] = msgspec.field(default_factory=list)
    """The jobs whose functions its app has."""

    failing: dict[str, str] = msgspec.field(default_factory=dict)
    """Ordered tasks that failed more than once in a row here and have not recovered, and why; some of them."""

    failing_left_out: int = 0
    """How many more of them there are."""

    daemons: str = ""
    """How it finds processes that its app left behind: by `cgroup` or by `environment`; empty: it does not say."""

    code: str = ""
    """A digest of its app's source files, as the generation was loaded; the same wherever they are the same."""

    is_rolled_back: bool = False
    """Does it run code that was gone back to, and not what the files on its disk say?"""

    app_version: str = ""
    """The `__version__` of its app's module or package; empty if it has none."""

    not_listening: dict[str, str] = msgspec.field(default_factory=dict)
    """Services that do not listen where the app says, and why; the reason names the service."""


@stored()
class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a node is; written by the node when it changes, under its lease."""

    score: float
    """0 idle … 100 busy."""

    cpu: float
    """The share of the machine's processors in use, 0 to 1."""

    memory: float
    """The share of its memory in use, 0 to 1."""

    executors: int
    """Attempts of jobs that it can run at a time."""

    executors_used: int
    """Attempts of jobs that it runs now."""


@stored()
class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """The leader. The revision at which this record was created is the term."""

    node: NodeId
    session: SessionId
    since: datetime


@stored()
class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes the leader last knew, each with its session."""

    nodes: dict[NodeId, SessionId]


@stored()
class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a store. A restored store begins another, whatever its revisions are."""

    id: str
    since: datetime
    is_loading: bool = False
    """A load has begun and not ended: no node may use this store."""
