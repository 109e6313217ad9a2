"""The keys of the store.

One prefix per kind of record. The leader key is created and deleted, never rewritten: its create revision is the term,
and every write of the leader expects it.

Likewise for the incarnation: the record says which it is, and a key with its name exists exactly while it lasts. A
commit that expects that key at its revision writes into this incarnation or not at all.
"""

from datetime import UTC, datetime

from rota.model.ids import Key, NodeId, origin

_MIRROR = str.maketrans("0123456789", "9876543210")

NODES: Key = "/nodes/"
"""One key per member, under that member's lease."""

STATUS: Key = "/node-status/"
"""What each member runs, as it reports; under that member's lease."""

NODE_LOADS: Key = "/node-load/"
"""How busy each member is, as it reports; under that member's lease."""

NODE_HEALTH: Key = "/node-health/"
"""Whether each node is online, as the others see it; outlives the node."""

STRIKES: Key = "/strikes/"
"""Failed checks: one key per node and observer, under the observer's lease."""

DUTIES: Key = "/duties/"
"""Which beat of each duty was claimed last; the number only grows."""

LEADER: Key = "/leader"
"""The leader; under the leader's lease."""

FLEET: Key = "/fleet/name"
"""The fleet that the store belongs to; written by the first node."""

ROSTER: Key = "/fleet/roster"
"""The nodes the leader last knew; from it a new leader knows which nodes left while no node led."""

HISTORY: Key = "/fleet/history"
"""The newest revision at several times: the leader compacts history by it."""

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
"""Kinds whose source was requested to be queried now; deleted by the leader when it does so."""

TROUBLE: Key = "/trouble/"
"""Which nodes could not keep which resource alive: one key per kind, id and node."""

EPISODES: Key = "/episodes/"
"""Waits that last too long and were reported: one key per kind of wait and subject."""

CORDONS: Key = "/cordons/"
"""Nodes that get no new tasks."""

DRAINS: Key = "/drains/"
"""Nodes whose tasks are to move to others."""

RELIEFS: Key = "/reliefs/"
"""Tasks that run and relieve one on another node, as their node says: one key per node and task."""

SLOTS: Key = "/slots/"
"""Nodes whose slots an operator has set; others have as many as their settings say."""

LABELS: Key = "/labels/"
"""Nodes whose labels an operator has changed; others have those that their settings say."""

ASSIGNMENTS: Key = "/assign/"
"""Below it one folder per node, and in that one key per task the node has to run."""

STREAMS: Key = "/streams/"
"""Streams as the nodes' apps declare them."""

STREAM_HISTORY: Key = "/stream-history/"
"""How each stream was declared in the course of time: one key per stream and moment."""

STREAM_WISHES: Key = "/stream-wishes/"
"""What operators asked of each stream beyond its declaration."""

STREAM_STATUS: Key = "/stream-status/"
"""How each stream is; written by the leader together with its groups."""

STREAM_SKIPS: Key = "/stream-skips/"
"""Records that each stream left out because its source has them no more: one key per stream, partition and offset."""

STREAM_MOVES: Key = "/stream-moves/"
"""Where offsets of each stream were set other than by publishing: one key per stream and moment."""

STREAM_OFFSETS: Key = "/stream-offsets/"
"""Up to where each partition of a stream is in its output: one key per stream and partition."""

STREAM_GROUPS: Key = "/stream-groups/"
"""Task groups of streams: one key per stream and group; written by the leader before anything acts on it."""

STREAM_TASKS: Key = "/stream-tasks/"
"""The status of each stream task: one key per stream, group, slot and epoch, under its node's lease."""

MANIFESTS: Key = "/stream-manifests/"
"""What was published of each stream: one key per publish, in the order of time."""

RELAY: Key = "/relay/"
"""Everything about relays."""

RELAY_MAP: Key = "/relay/map"
"""Which relay the messages of a resource meet at; written by the leader."""

RELAY_STATUS: Key = "/relay/status/"
"""How each node's relay is, as it says itself; under that node's lease."""
JOBS_FOLLOWED: Key = "/job"
"""How the keys begin that every node follows to schedule jobs: their records, cursors, successes and living runs. One
watch has them all, each commit whole; the history of runs is not among them."""

JOBS: Key = "/jobs/"
"""What is to be done, and when: one key per job."""

JOB_CURSORS: Key = "/job-cursors/"
"""Up to where each job is decided."""

JOB_SUCCESSES: Key = "/job-successes/"
"""The newest success of jobs that others come after."""

LIVE_RUNS: Key = "/job-runs/"
"""Runs that are not over: below it one folder per job."""

RUNS: Key = "/runs/"
"""Runs that are over, likewise; a run moves here in one commit."""

EVENTS: Key = "/events/"
"""One key per event; its id begins with its time, so keys are in the order of time."""

EVENTS_CURSOR: Key = "/events-cursor"
"""Up to where events have been looked at for hooks. Beside the events, so that one watch shows both in their order."""

EVENTS_AND_CURSOR: Key = "/events"
"""What that watch is for."""

HOOKS: Key = "/hooks/"
"""What the fleet does when something happens."""

HOOK_STATUS: Key = "/hook-status/"
"""What became of each hook's deliveries."""

HOOK_OUTBOX: Key = "/hook-outbox/"
"""Events on their way to hooks: one key per event and hook."""

TOKENS: Key = "/tokens/"
"""Tokens: one key per token, with its digest."""

TOKEN_DIGESTS: Key = "/token-digests/"
"""Every digest that a token of the store ever had, kept for good: a node's own file cannot make one valid again."""

SESSIONS: Key = "/sessions/"
"""Browsers that have logged in: one key per session, under a lease."""

TICKETS: Key = "/tickets/"
"""Tickets with which new machines join: one key per ticket."""

SEALED: Key = "/ticket-sealed/"
"""What a ticket is good for, sealed with the secret that is in the ticket alone; gone once it is spent."""

REVOKED: Key = "/revoked/"
"""Revoked certificates, by serial."""

AUDIT: Key = "/audit/"
"""The audit trail: one key per link of the chain."""

AUDIT_OPEN: Key = "/audit-open/"
"""Entries of the audit trail that no link holds yet."""

AUDIT_HEAD: Key = "/audit-head"
"""Where the chain of the audit trail begins and ends."""

CHECK: Key = "/check/"
"""Scratch keys of `rota store check`, under a lease."""


def node(node_id: NodeId) -> Key:
    """The key of one member."""
    return NODES + node_id


def status(node_id: NodeId) -> Key:
    """What one member runs."""
    return STATUS + node_id


def node_load(node_id: NodeId) -> Key:
    """How busy one member is."""
    return NODE_LOADS + node_id


def node_health(node_id: NodeId) -> Key:
    """Whether a node is online."""
    return NODE_HEALTH + node_id


def strikes(node_id: NodeId, observer: NodeId) -> Key:
    """The failed checks of a node by one other."""
    return f"{STRIKES}{node_id}/{observer}"


def duty(name: str) -> Key:
    """Which beat of a duty was claimed last."""
    return DUTIES + name


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
    """The request to query a kind's source now."""
    return SYNC + kind


def trouble(kind: str, id: str, node_id: NodeId) -> Key:
    """That a node could not keep a resource alive."""
    return f"{TROUBLE}{kind}/{id}/{node_id}"


def episode(wait: str, subject: str) -> Key:
    """That something waits too long."""
    return f"{EPISODES}{wait}/{subject}"


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
    """The number of slots that an operator gave a node."""
    return SLOTS + node_id


def labels(node_id: NodeId) -> Key:
    """Which labels an operator gave a node, or took away."""
    return LABELS + node_id


def task(kind: str, id: str, slot: int) -> str:
    """The id of one replica of a resource; its assignment's key ends in it."""
    return f"{kind}/{id}#{slot}"


def assignment(node_id: NodeId, task_id: str) -> Key:
    """That a node has to run a task."""
    return f"{ASSIGNMENTS}{node_id}/{task_id}"


def assignments(node_id: NodeId) -> Key:
    """Where the tasks of one node are; each key ends in the task's id."""
    return f"{ASSIGNMENTS}{node_id}/"


def stream_prefixes(stream: str) -> tuple[Key, ...]:
    """What the tasks of a stream read and write in the store; one that fills a gap publishes with the other."""
    kept = STREAM_GROUPS, STREAM_TASKS, STREAM_OFFSETS, STREAM_MOVES, STREAM_SKIPS
    own = (f"{each}{stream}/" for each in kept)
    return (*own, manifests(origin(stream)))


def stream_declaration(stream: str, at: datetime) -> Key:
    """How a stream was declared from a moment on."""
    return f"{STREAM_HISTORY}{stream}/{at.astimezone(UTC):%Y%m%dT%H%M%S%f}"


def stream_skip(stream: str, partition: int, offset: int) -> Key:
    """Records that a stream left out, from this offset on."""
    return f"{STREAM_SKIPS}{stream}/{partition:06d}/{offset:020d}"


def stream_moves(stream: str) -> Key:
    """Above all times that a stream's offsets were set by hand."""
    return f"{STREAM_MOVES}{stream}/"


def stream_move(stream: str, id: str) -> Key:
    """Offsets of a stream that were set."""
    return f"{stream_moves(stream)}{id}"


def stream_offsets(stream: str) -> Key:
    """Where the committed offsets of a stream are."""
    return f"{STREAM_OFFSETS}{stream}/"


def stream_offset(stream: str, partition: int) -> Key:
    """Up to where one partition of a stream is in its output."""
    return f"{STREAM_OFFSETS}{stream}/{partition:06d}"


def stream_group(stream: str, group: str) -> Key:
    """One task group of a stream."""
    return f"{STREAM_GROUPS}{stream}/{group}"


def stream_task(stream: str, group: str, slot: int, epoch: int) -> Key:
    """The status of one stream task; a replaced task cannot overwrite its successor's."""
    return f"{STREAM_TASKS}{stream}/{group}/{slot}@{epoch}"


def manifests(stream: str) -> Key:
    """Where the manifests of a stream are."""
    return f"{MANIFESTS}{stream}/"


def manifest(stream: str, id: str) -> Key:
    """One publish of a stream."""
    return f"{MANIFESTS}{stream}/{id}"


def relay_status(node_id: NodeId) -> Key:
    """How a node's relay is."""
    return RELAY_STATUS + node_id


def job(name: str) -> Key:
    """A job."""
    return JOBS + name


def job_cursor(name: str) -> Key:
    """Up to where a job is decided."""
    return JOB_CURSORS + name


def job_success(name: str) -> Key:
    """The newest success of a job."""
    return JOB_SUCCESSES + name


def live_run(run_id: str) -> Key:
    """A run that is not over; its id begins with its job."""
    return LIVE_RUNS + run_id


def run(run_id: str) -> Key:
    """A run that is over. The runs of a job are in the reverse order of their due times: the newest come first."""
    job, slash, moment = run_id.partition("/")
    return f"{RUNS}{job}{slash}{_mirrored(moment)}"


def run_of(key: Key) -> str:
    """The id of the run that is kept under a key."""
    job, slash, moment = key.removeprefix(RUNS).partition("/")
    return f"{job}{slash}{_mirrored(moment)}"


def _mirrored(moment: str) -> str:
    """A moment whose digits count down instead of up, and back."""
    digits, dash, more = moment.partition("-")
    return digits.translate(_MIRROR) + dash + more


def runs(job: str) -> Key:
    """Where the runs of a job are that are over; each key ends in what follows the job in the run's id."""
    return f"{RUNS}{job}/"


def event(event_id: str) -> Key:
    """The key of one event."""
    return EVENTS + event_id


def incarnation(incarnation_id: str) -> Key:
    """The key that exists for as long as an incarnation lasts."""
    return INCARNATIONS + incarnation_id


def hook(name: str) -> Key:
    """A hook."""
    return HOOKS + name


def hook_status(name: str) -> Key:
    """What became of a hook's deliveries."""
    return HOOK_STATUS + name


def delivery(delivery_id: str) -> Key:
    """An event on its way to a hook."""
    return HOOK_OUTBOX + delivery_id


def token(name: str) -> Key:
    """A token that the fleet knows."""
    return TOKENS + name


def token_digest(digest: str) -> Key:
    """The note that a token of the store has, or had, this digest."""
    return TOKEN_DIGESTS + digest


def session(digest: str) -> Key:
    """A browser's session, by the digest of its id."""
    return SESSIONS + digest


def ticket(id: str) -> Key:
    """A ticket for a new machine."""
    return TICKETS + id


def sealed(id: str) -> Key:
    """What a ticket is good for."""
    return SEALED + id


def revoked(serial: str) -> Key:
    """A revoked certificate."""
    return REVOKED + serial


def audit_link(number: int) -> Key:
    """A link of the audit trail's chain; keys sort as numbers do."""
    return f"{AUDIT}{number:012d}"


def audit_open(entry_id: str) -> Key:
    """An entry of the audit trail that is not sealed yet."""
    return AUDIT_OPEN + entry_id
