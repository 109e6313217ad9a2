"""What the operations on nodes answer. Nothing here asks the store."""

from datetime import datetime

import msgspec

from rota.model.ids import NodeId
from rota.model.node import NodeLoad, Role
from rota.model.peers import Standing
from rota.model.spec.checks import Check
from rota.resources.core.records import Cordon, Drain, LabelsSet, SlotsSet

SLOTS = 1_000_000
"""The most of each; a priority may also be as far below zero."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node: what it offers, what of that is taken, and whether it gets more."""

    id: NodeId
    is_up: bool
    """Is it in the fleet? One that is not may still have a cordon, or tasks that nobody has moved yet."""

    leads: bool = False
    """Is it the leader?"""

    role: Role | None = None
    """Which work it takes; null while it is not in the fleet."""

    host: str = ""
    http: str = ""
    grpc: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    app: str | None = None
    """The app it runs; null if none."""

    kinds: tuple[str, ...] = ()
    """The kinds of resources its app declares."""

    slots: int = 0
    """Its slots: as an operator set them, or as its settings say."""

    configured_slots: int = 0
    """Its slots by its settings."""

    slots_set: SlotsSet | None = None
    """Since when an operator has set them, if so."""

    configured_labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Its labels as its settings say; `labels` are those that count."""

    labels_set: LabelsSet | None = None
    """The labels that an operator gave it or took away, if any."""

    used: int = 0
    """Slots that its tasks take."""

    tasks: int = 0
    """Tasks it has to run."""

    cordon: Cordon | None = None
    """Since when and why it gets no new tasks, if so."""

    drain: Drain | None = None
    """Since when and why its tasks move to others, if so, and how many there were."""

    since: datetime | None = None
    age_s: int | None = None
    """How long it has been in the fleet, by the store's clock."""

    load: NodeLoad | None = None
    """How busy it is; None if it has not said so."""

    standing: Standing = Standing.ONLINE
    """The verdict of the other nodes."""

    standing_why: str = ""
    """Why it is not online, if so."""

    insecure: bool = False
    """Do other machines reach its doors without TLS?"""

    version: str = ""
    """Of Rota."""

    generation: int = 0
    """Of its app; counted from 1 in each life of the node."""

    code: str = ""
    """A digest of its app's source files, the same on all nodes that run the same code."""

    app_version: str = ""
    """The `__version__` of its app's module or package; empty if it has none."""

    daemons: str = ""
    """How it finds processes that its app left running: by `cgroup` or by `environment`."""

    not_understood: str | None = None
    """What is wrong with its record, if a newer Rota wrote it."""


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """Some nodes, in the order of the id."""

    nodes: tuple[NodeView, ...]
    """The nodes of this page."""

    next: str | None = None
    """The token of the next page; None: there are no more."""

    as_of: datetime
    """The store's clock."""


class IdlestNode(msgspec.Struct, frozen=True, kw_only=True):
    """The node with the lowest load."""

    node: NodeId
    """The id of the node."""

    score: float
    """0 idle … 100 busy."""

    executors_free: int
    """Attempts of jobs that it could run now."""

    http: str
    """Where it answers HTTP; empty if nowhere."""

    grpc: str
    """Where it answers gRPC; empty if nowhere."""

    as_of: datetime
    """The store's clock."""


class Uncordoned(msgspec.Struct, frozen=True, kw_only=True):
    """A node that gets tasks again."""

    node: NodeId
    """The id of the node."""

    was_cordoned: bool
    """Did it have a cordon?"""


class Undrained(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is not drained any more."""

    node: NodeId
    """The id of the node."""

    was_drained: bool
    """Was it drained?"""


class NodeSlots(msgspec.Struct, frozen=True, kw_only=True):
    """How many slots a node was given."""

    node: NodeId
    """The id of the node."""

    slots: int | None
    """How many; null: as its settings say."""


def read_slots(node: str, slots: object) -> int | None:
    """How many slots a node is to have; None: as its settings say."""
    return None if slots is None else Check("node", node).count("slots", slots, least=0, most=SLOTS)
