"""The fleet at a glance: which node leads, how much of everything there is, and what an operator should look at.

Problems are found here, so that every reader gets the same. `concerns` is a plain function of what was read.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from datetime import datetime

import msgspec

from rota.doors.verbs import needs, verb
from rota.fleet.core.access.gate import Access
from rota.fleet.core.members.reach import faults
from rota.fleet.doors.nodes.answers import NodeView
from rota.fleet.doors.nodes.operations import list_nodes
from rota.jobs.core.records import RunRecord
from rota.model import keys
from rota.model.event import Severity
from rota.model.ids import NodeId, TermNumber
from rota.model.node import Leader, Node, NodeStatus
from rota.model.peers import Standing
from rota.relay.doors.operations import RelayList, list_relays
from rota.resources.core.records import ResourceStatus, Trouble
from rota.resources.core.trouble import is_recent, why_failing
from rota.store.port import Store
from rota.store.records import understood
from rota.store.scanning import scan_all
from rota.streams.core.records import KIND as STREAM
from rota.streams.core.records import StreamState, StreamStatus

SHOWN = 50
"""Concerns that are listed; there may be thousands."""

LOOKED = 1000
"""The most troubles read to find failing resources, where not everything is read."""


class LeaderView(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads."""

    node: NodeId
    """The node that leads."""

    term: TermNumber
    """The number of its term."""

    since: datetime
    """Since when it leads."""

    age_s: int
    """How many seconds it has led."""


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that an operator should look at."""

    severity: Severity
    """How urgent it is."""

    about: str
    """The kind of thing: fleet, node, resource, stream or sink."""

    subject: str
    """Which one."""

    text: str
    """What is wrong, in words."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet at a glance."""

    as_of: datetime
    """The store's clock."""

    leader: LeaderView | None
    """Who leads; null if no node does."""

    nodes: int
    """Nodes that are known."""

    nodes_up: int
    """Nodes that are in the fleet."""

    slots: int
    """Slots of all nodes."""

    used: int
    """Slots in use."""

    tasks: int
    """Tasks that are placed."""

    tasks_running: int
    """Tasks that run, as far as the nodes have reported."""

    resources: int
    """Resources to keep covered."""

    pending: int
    """Resources that have fewer tasks than they should."""

    failing: int = 0
    """Resources of which a task fails, or was given back lately."""

    jobs: int
    """Jobs."""

    runs: dict[str, int]
    """Runs that are not over, by state."""

    streams: dict[str, int]
    """Streams by state."""

    lag: int
    """Records that are in the streams' sources and not in their output."""

    published: int
    """Messages that sinks have confirmed since the relays began."""

    spooled: int
    """Messages on disk, because their sink is down."""

    insecure: tuple[NodeId, ...] = ()
    """Nodes whose doors other machines reach without TLS."""

    concerns: tuple[Concern, ...]
    """The concerns, the worst first; some of them."""

    concerns_left_out: int = 0
    """Concerns beyond those listed."""


class FleetSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of the fleet."""

    leader: LeaderView | None
    nodes: tuple[NodeView, ...]
    work: Mapping[str, NodeStatus]
    relays: RelayList
    pending: Mapping[str, str]
    """Resources that lack tasks, and why."""

    failing: Mapping[str, str]
    """Resources of which a task fails or was given back lately, and where and why."""

    streams: Mapping[str, StreamStatus]
    apart: tuple[tuple[NodeId, str], ...] = ()
    """What keeps nodes of several machines from calling each other, by node."""


@verb("GET", "/v1/overview", Access.VIEW, rpc="Fleet.Overview", heavy=True)
async def overview(store: Store) -> Overview:
    """Get the fleet at a glance, with its problems."""
    listed = await list_nodes(store)
    resources, pending, failing = await _resources(store, listed.as_of)
    seen = FleetSnapshot(
        leader=await _leader(store, listed.as_of),
        nodes=listed.nodes,
        work=await _work(store),
        relays=await list_relays(store),
        pending=pending,
        failing=failing,
        streams=await _streams(store),
        apart=tuple(faults(await _records(store))),
    )
    found = sorted(concerns(seen), key=lambda each: list(Severity).index(each.severity), reverse=True)
    sinks = [sink for relay in seen.relays.relays if relay.status for sink in relay.status.sinks]
    return Overview(
        as_of=listed.as_of,
        leader=seen.leader,
        nodes=len(seen.nodes),
        nodes_up=sum(node.is_up for node in seen.nodes),
        slots=sum(node.slots for node in seen.nodes if node.is_up),
        used=sum(node.used for node in seen.nodes),
        tasks=sum(node.tasks for node in seen.nodes),
        tasks_running=sum(work.tasks_running for work in seen.work.values()),
        resources=resources,
        pending=len(pending),
        failing=len(failing),
        jobs=await _count(store, keys.JOBS),
        runs=await _runs(store),
        streams=dict(Counter(str(each.state) for each in seen.streams.values())),
        lag=sum(each.lag for each in seen.streams.values()),
        published=sum(sink.confirmed for sink in sinks),
        spooled=sum(sink.spool_messages for sink in sinks),
        insecure=tuple(node.id for node in seen.nodes if node.insecure),
        concerns=tuple(found[:SHOWN]),
        concerns_left_out=max(0, len(found) - SHOWN),
    )


def concerns(seen: FleetSnapshot) -> Iterator[Concern]:
    """The problems that an operator should look at."""
    if seen.leader is None:
        yield Concern(
            severity=Severity.ERROR,
            about="fleet",
            subject="",
            text="no node leads, so nothing is placed; start a node that may lead, or wait for the lease to end",
        )
    for node_id, why in seen.apart:
        yield Concern(severity=Severity.ERROR, about="node", subject=node_id, text=why)
    for node in seen.nodes:
        yield from _of_node(node, seen.work.get(node.id))
    for resource in sorted(seen.pending.keys() | seen.failing.keys()):
        text = "; ".join(filter(None, (seen.pending.get(resource), seen.failing.get(resource))))
        yield Concern(severity=Severity.WARNING, about="resource", subject=resource, text=text)
    for name, stream in seen.streams.items():
        if stream.state in (StreamState.UNHEALTHY_SUPERVISOR, StreamState.UNHEALTHY_TASKS):
            last = f": {stream.errors[-1].why}" if stream.errors else ""
            yield Concern(severity=Severity.ERROR, about="stream", subject=name, text=f"{stream.state}{last}")
        if stream.waits:
            yield Concern(severity=Severity.ERROR, about="stream", subject=name, text=stream.waits)
    yield from _of_relays(seen.relays)


def _of_node(node: NodeView, work: NodeStatus | None) -> Iterator[Concern]:
    def concern(severity: Severity, text: str) -> Concern:
        return Concern(severity=severity, about="node", subject=node.id, text=text)

    if node.not_understood:
        yield concern(Severity.WARNING, f"its record is not understood here: {node.not_understood}")
    elif node.standing is not Standing.ONLINE:
        severity = Severity.ERROR if node.standing is Standing.OFFLINE else Severity.WARNING
        yield concern(severity, f"{node.standing}: {node.standing_why}" if node.standing_why else node.standing)
    if node.insecure:
        yield concern(Severity.WARNING, "other machines reach its doors without TLS, so tokens pass in the clear")
    if node.drain:
        yield concern(Severity.INFO, f"it is drained; {node.tasks} of {node.drain.tasks} tasks are left")
    elif node.cordon:
        yield concern(Severity.INFO, f"it is cordoned{f': {node.cordon.why}' if node.cordon.why else ''}")
    if work and work.failing_left_out:
        count = len(work.failing) + work.failing_left_out
        yield concern(Severity.ERROR, f"{count} of its {work.tasks_ordered} tasks keep failing")
    for pool in work.pools if work else ():
        if pool.crash_loop:
            yield concern(Severity.ERROR, f"{pool.name} keeps failing: {pool.crash_loop}")
        if pool.held_up:
            yield concern(Severity.WARNING, f"{pool.name}: a worker does not end: {pool.held_up}")
    for why in work.not_listening.values() if work else ():
        yield concern(Severity.ERROR, f"not ready: {why}")


def _of_relays(relays: RelayList) -> Iterator[Concern]:
    for relay in relays.relays:
        if relay.status is None:
            continue
        for other, why in relay.status.unreached.items():
            text = f"messages for the relay of {other} wait: {why}"
            yield Concern(severity=Severity.WARNING, about="node", subject=relay.node, text=text)
        for sink in relay.status.sinks:
            if sink.is_down:
                text = f"down at node {relay.node}: {sink.last_error}; {sink.spool_messages} messages are spooled"
                yield Concern(severity=Severity.ERROR, about="sink", subject=sink.sink, text=text)


@needs(Access.VIEW)
async def failing_resources(store: Store) -> dict[str, str]:
    """Some of the resources of which a task fails or was given back lately, and where and why.

    The cost follows what has failed, not the size of the fleet: it reads the nodes' reports and at most `LOOKED`
    troubles.
    """
    now = await store.now()
    names = {task.rpartition("#")[0] for work in (await _work(store)).values() for task in work.failing}
    noted = (await store.scan(keys.TROUBLE, limit=LOOKED)).entries
    for entry in noted:
        trouble = understood(Trouble, entry)
        if trouble is not None and is_recent(trouble, now):
            names.add(entry.key.removeprefix(keys.TROUBLE).rpartition("/")[0])
    found: dict[str, str] = {}
    for name in sorted(name for name in names if not name.startswith(STREAM))[:SHOWN]:
        status = understood(ResourceStatus, await store.get(keys.RESOURCE_STATUS + name))
        if status is not None and (why := why_failing(status, now)):
            found[name] = why
    return found


async def _leader(store: Store, now: datetime) -> LeaderView | None:
    entry = await store.get(keys.LEADER)
    leader = understood(Leader, entry)
    if entry is None or leader is None:
        return None
    age = max(0, round((now - leader.since).total_seconds()))
    return LeaderView(node=leader.node, term=TermNumber(entry.created), since=leader.since, age_s=age)


async def _records(store: Store) -> list[Node]:
    return [node for entry in (await store.scan(keys.NODES)).entries if (node := understood(Node, entry))]


async def _work(store: Store) -> dict[str, NodeStatus]:
    entries = (await store.scan(keys.STATUS)).entries
    return {
        entry.key.removeprefix(keys.STATUS): status for entry in entries if (status := understood(NodeStatus, entry))
    }


async def _resources(store: Store, now: datetime) -> tuple[int, dict[str, str], dict[str, str]]:
    """How many resources there are, which of them lack tasks and why, and which fail and why.

    Resources that stand for streams are left out.
    """
    waiting: dict[str, str] = {}
    failing: dict[str, str] = {}
    async with aclosing(scan_all(store, keys.RESOURCES)) as records:
        async for entry in records:
            waiting[entry.key.removeprefix(keys.RESOURCES)] = "the leader has not looked at it yet"
    async with aclosing(scan_all(store, keys.RESOURCE_STATUS)) as statuses:
        async for entry in statuses:
            status, name = understood(ResourceStatus, entry), entry.key.removeprefix(keys.RESOURCE_STATUS)
            if status is None or name not in waiting:
                continue
            waiting[name] = status.pending if status.assigned < status.replicas else ""
            if (why := why_failing(status, now)) and not name.startswith(STREAM):
                failing[name] = why
    own = {name: why for name, why in waiting.items() if not name.startswith(STREAM)}
    return len(own), {name: why for name, why in own.items() if why}, failing


async def _streams(store: Store) -> dict[str, StreamStatus]:
    entries = (await store.scan(keys.STREAM_STATUS)).entries
    found = {entry.key.removeprefix(keys.STREAM_STATUS): understood(StreamStatus, entry) for entry in entries}
    return {name: status for name, status in found.items() if status is not None}


async def _runs(store: Store) -> dict[str, int]:
    counted: Counter[str] = Counter()
    async with aclosing(scan_all(store, keys.LIVE_RUNS)) as entries:
        async for entry in entries:
            if (run := understood(RunRecord, entry)) is not None:
                counted[str(run.state)] += 1
    return dict(counted)


async def _count(store: Store, prefix: str) -> int:
    async with aclosing(scan_all(store, prefix)) as entries:
        return len([entry async for entry in entries])
