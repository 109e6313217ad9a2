"""What the store has on nodes, as operations answer it."""

from collections import defaultdict
from collections.abc import Collection
from contextlib import aclosing
from datetime import datetime
from typing import TypeVar

import msgspec

from rota.fleet.core.members.peers import GONE, shown
from rota.fleet.doors.nodes.answers import NodeView
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.model.ids import Key, NodeId
from rota.model.node import Leader, Node, NodeLoad, NodeStatus
from rota.model.peers import NodeHealth, Standing, Strikes
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import Cordon, Drain, LabelsSet, SlotsSet, labelled
from rota.store.port import Entry, Store
from rota.store.records import understood
from rota.store.scanning import scan_all

T = TypeVar("T")


class NodesSeen(msgspec.Struct, frozen=True):
    """What the store has on nodes."""

    nodes: dict[NodeId, Entry]
    work: dict[NodeId, NodeStatus]
    cordons: dict[NodeId, Cordon]
    drains: dict[NodeId, Drain]
    slots_set: dict[NodeId, SlotsSet]
    labels_set: dict[NodeId, LabelsSet]
    loads: dict[NodeId, NodeLoad]
    health: dict[NodeId, NodeHealth]
    strikes: list[Strikes]
    tasks: dict[NodeId, list[str]]
    used: dict[NodeId, int]
    leader: Leader | None

    @property
    def ids(self) -> set[NodeId]:
        """Every node that there is anything of."""
        return {*self.nodes, *self.cordons, *self.drains, *self.slots_set, *self.labels_set, *self.tasks}


async def seen_nodes(store: Store) -> NodesSeen:
    tasks: defaultdict[NodeId, list[str]] = defaultdict(list)
    used: defaultdict[NodeId, int] = defaultdict(int)
    async with aclosing(scan_all(store, keys.ASSIGNMENTS)) as entries:
        async for entry in entries:
            node, _, task = entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")
            assignment = understood(Assignment, entry)
            tasks[NodeId(node)].append(task)
            used[NodeId(node)] += assignment.cost if assignment else 1
    leader = await store.get(keys.LEADER)
    return NodesSeen(
        nodes={NodeId(entry.key.removeprefix(keys.NODES)): entry for entry in (await store.scan(keys.NODES)).entries},
        work=_by_node(NodeStatus, keys.STATUS, (await store.scan(keys.STATUS)).entries),
        cordons=_by_node(Cordon, keys.CORDONS, (await store.scan(keys.CORDONS)).entries),
        drains=_by_node(Drain, keys.DRAINS, (await store.scan(keys.DRAINS)).entries),
        slots_set=_by_node(SlotsSet, keys.SLOTS, (await store.scan(keys.SLOTS)).entries),
        labels_set=_by_node(LabelsSet, keys.LABELS, (await store.scan(keys.LABELS)).entries),
        loads=_by_node(NodeLoad, keys.NODE_LOADS, (await store.scan(keys.NODE_LOADS)).entries),
        health=_by_node(NodeHealth, keys.NODE_HEALTH, (await store.scan(keys.NODE_HEALTH)).entries),
        strikes=[found for entry in (await store.scan(keys.STRIKES)).entries if (found := understood(Strikes, entry))],
        tasks=dict(tasks),
        used=dict(used),
        leader=understood(Leader, leader),
    )


def node_view(id: NodeId, seen: NodesSeen, now: datetime) -> NodeView:
    entry, work, given = seen.nodes.get(id), seen.work.get(id), seen.slots_set.get(id)
    view = NodeView(
        id=id,
        is_up=entry is not None,
        used=seen.used.get(id, 0),
        tasks=len(seen.tasks.get(id, ())),
        cordon=seen.cordons.get(id),
        drain=seen.drains.get(id),
        slots=given.slots if given else 0,
        slots_set=given,
        labels_set=seen.labels_set.get(id),
        app=work.app if work else None,
        kinds=tuple(work.kinds) if work else (),
        generation=work.generation if work else 0,
        code=work.code if work else "",
        app_version=work.app_version if work else "",
        daemons=work.daemons if work else "",
    )
    if entry is None:
        return replace(view, standing=Standing.OFFLINE, standing_why=GONE)
    try:
        node = codec.decode(Node, entry.value)
    except Invalid as error:
        return replace(view, not_understood=str(error))
    complaints = [each for each in seen.strikes if (each.node, each.session) == (id, node.session)]
    stands = shown(seen.health.get(id), complaints)
    return replace(
        view,
        load=seen.loads.get(id),
        standing=stands.standing,
        standing_why=stands.why,
        leads=seen.leader is not None and seen.leader.session == node.session,
        role=node.role,
        host=node.host,
        http=node.http,
        grpc=node.grpc,
        labels=labelled(node.labels, view.labels_set),
        configured_labels=node.labels,
        slots=given.slots if given else node.slots,
        configured_slots=node.slots,
        since=node.since,
        age_s=max(0, round((now - node.since).total_seconds())),
        insecure=node.insecure,
        version=node.version,
    )


async def no_node(store: Store, node: str) -> NotFound:
    """What to raise for a node that is not there; it names those that are."""
    known = [entry.key.removeprefix(keys.NODES) for entry in (await store.scan(keys.NODES)).entries]
    there = f"there are {', '.join(known)}" if known else "there are none at the moment"
    return NotFound(f'there is no node "{node}"; {there}', code="node_not_found")


def _by_node(kind: type[T], prefix: Key, entries: Collection[Entry]) -> dict[NodeId, T]:
    found = {NodeId(entry.key.removeprefix(prefix)): understood(kind, entry) for entry in entries}
    return {node: record for node, record in found.items() if record is not None}
