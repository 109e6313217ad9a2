"""Where things live in the store.

One prefix per kind of record. The leader key is created and deleted, never rewritten: its create revision is the
term, and every write of the leader expects it.

So it is with the incarnation: the record says which it is, and a key of its own, named for it, exists exactly while
it lasts. Who expects that key at its revision writes into this incarnation or not at all.
"""

from rota.model.ids import Key, NodeId

NODES: Key = "/nodes/"
"""One key per member, under that member's lease."""

STATUS: Key = "/node-status/"
"""What each member runs, as it says itself; under that member's lease."""

LEADER: Key = "/leader"
"""Who leads; under the leader's lease."""

ROSTER: Key = "/fleet/roster"
"""The nodes the leader last knew; from it a new leader can tell who left while nobody led."""

PLACING: Key = "/fleet/placing"
"""How the leader chooses nodes."""

INCARNATION: Key = "/fleet/incarnation"
"""Which life of the store this is; written together with the key of that name below INCARNATIONS."""

INCARNATIONS: Key = "/incarnations/"
"""One key, of the present incarnation; no other incarnation of the store has it."""

RESOURCES: Key = "/resources/"
"""What is to be covered: one key per kind and id."""

RESOURCE_STATUS: Key = "/resource-status/"
"""How each of them is covered; written by the leader together with the assignments."""

KINDS: Key = "/kinds/"
"""The kinds of resources that the nodes' apps declare."""

SAVED: Key = "/saved/"
"""What tasks saved for those that come after them; each key ends in the task's id."""

QUERIES: Key = "/queries/"
"""Which node is to ask the source of a kind; written by the leader."""

LISTINGS: Key = "/listings/"
"""What came of the last query of a kind; written by the node that was to ask."""

SYNC: Key = "/sync/"
"""Kinds whose source somebody wants asked now; deleted by the leader when it takes that up."""

TROUBLE: Key = "/trouble/"
"""Which nodes could not keep which resource alive: one key per kind, id and node."""

CORDONS: Key = "/cordons/"
"""Nodes that get no new tasks."""

DRAINS: Key = "/drains/"
"""Nodes whose tasks are to move to others."""

RELIEFS: Key = "/reliefs/"
"""Tasks that run and relieve one on another node, as their node says: one key per node and task."""

SLOTS: Key = "/slots/"
"""Nodes whose slots somebody has set; others have as many as their settings say."""

ASSIGNMENTS: Key = "/assign/"
"""Below it one folder per node, and in that one key per task the node has to run."""

EVENTS: Key = "/events/"
"""One key per event; its id begins with its time, so keys are in the order of time."""

CHECK: Key = "/check/"
"""Scratch keys of `rota store check`, under a lease."""


def node(node_id: NodeId) -> Key:
    """The key of one member."""
    return NODES + node_id


def status(node_id: NodeId) -> Key:
    """What one member runs."""
    return STATUS + node_id


def resource(kind: str, id: str) -> Key:
    """What is to be covered."""
    return f"{RESOURCES}{kind}/{id}"


def resource_status(kind: str, id: str) -> Key:
    """How it is covered."""
    return f"{RESOURCE_STATUS}{kind}/{id}"


def kind(name: str) -> Key:
    """A kind of resources."""
    return KINDS + name


def resources(kind: str) -> Key:
    """Where the resources of a kind are; each key ends in the resource's id."""
    return f"{RESOURCES}{kind}/"


def query(kind: str) -> Key:
    """Which node is to ask a kind's source."""
    return QUERIES + kind


def listing(kind: str) -> Key:
    """What came of the last query of a kind."""
    return LISTINGS + kind


def sync(kind: str) -> Key:
    """That somebody wants a kind's source asked now."""
    return SYNC + kind


def trouble(kind: str, id: str, node_id: NodeId) -> Key:
    """That a node could not keep a resource alive."""
    return f"{TROUBLE}{kind}/{id}/{node_id}"


def cordon(node_id: NodeId) -> Key:
    """That a node gets no new tasks."""
    return CORDONS + node_id


def drain(node_id: NodeId) -> Key:
    """That a node's tasks are to move to others."""
    return DRAINS + node_id


def relief(node_id: NodeId, task_id: str) -> Key:
    """That a node runs a task that relieves one elsewhere."""
    return f"{RELIEFS}{node_id}/{task_id}"


def slots(node_id: NodeId) -> Key:
    """How many slots somebody gave a node."""
    return SLOTS + node_id


def task(kind: str, id: str, slot: int) -> str:
    """The id of one replica of a resource; its assignment's key ends in it."""
    return f"{kind}/{id}#{slot}"


def assignment(node_id: NodeId, task_id: str) -> Key:
    """That a node has to run a task."""
    return f"{ASSIGNMENTS}{node_id}/{task_id}"


def assignments(node_id: NodeId) -> Key:
    """Where the tasks of one node are; each key ends in the task's id."""
    return f"{ASSIGNMENTS}{node_id}/"


def event(event_id: str) -> Key:
    """The key of one event."""
    return EVENTS + event_id


def incarnation(incarnation_id: str) -> Key:
    """The key that exists for as long as an incarnation lasts."""
    return INCARNATIONS + incarnation_id
