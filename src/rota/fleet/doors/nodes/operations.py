"""Operations on nodes, as plain functions on the store. None of them needs the leader."""

from contextlib import aclosing
from datetime import timedelta

from rota.doors.bodies import ReasonBody
from rota.doors.limits import check_reason
from rota.doors.parameters import NodeName
from rota.doors.verbs import needs, verb
from rota.fleet.core.access.gate import Access
from rota.fleet.core.members.load import LoadCandidate, NoneIdle, idlest
from rota.fleet.doors.bodies import DrainBody, SlotsBody
from rota.fleet.doors.nodes.answers import IdlestNode, NodeList, NodeSlots, NodeView, Uncordoned, Undrained, read_slots
from rota.fleet.doors.nodes.reading import no_node, node_view, seen_nodes
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Unavailable
from rota.model.ids import NodeId
from rota.model.peers import Standing
from rota.model.spec.checks import Check
from rota.resources.core.records import Cordon, Drain, SlotsSet
from rota.store.port import Delete, Put, Store
from rota.store.records import understood
from rota.store.scanning import scan_all


@verb("GET", "/v1/nodes", Access.VIEW, rpc="Nodes.List", page_by=lambda node: node.id)
async def list_nodes(store: Store) -> NodeList:
    """List the nodes that are in the fleet, or that have a cordon or tasks."""
    now = await store.now()
    seen = await seen_nodes(store)
    return NodeList(nodes=tuple(node_view(id, seen, now) for id in sorted(seen.ids)), as_of=now)


@verb("GET", "/v1/nodes/{node}", Access.VIEW, rpc="Nodes.Get")
async def get_node(store: Store, node: NodeName) -> NodeView:
    """Get one node: its capacity, what is used of it, and whether it gets new tasks; NotFound if there is none."""
    seen = await seen_nodes(store)
    if node not in seen.ids:
        raise await no_node(store, node)
    return node_view(NodeId(node), seen, await store.now())


@verb("GET", "/v1/nodes/idlest", Access.VIEW, rpc="Nodes.Idlest", codes=("no_node",))
async def idlest_node(store: Store) -> IdlestNode:
    """Get the node with the lowest load, of those that are reached and may get work; Unavailable if there is none."""
    listed = await list_nodes(store)
    views = {view.id: view for view in listed.nodes}
    match idlest(_candidate(view) for view in listed.nodes):
        case NoneIdle(refusals):
            reasons = "; ".join(f"{node}: {why}" for node, why in refusals.items()) or "there are no nodes"
            raise Unavailable(f"no node is available ({reasons}); retry later", code="no_node")
        case found:
            view = views[found.node]
            return IdlestNode(
                node=found.node,
                score=found.score,
                executors_free=found.free,
                http=view.http,
                grpc=view.grpc,
                as_of=listed.as_of,
            )


@verb("POST", "/v1/nodes/{node}/cordon", Access.OPERATE, rpc="Nodes.Cordon", body=ReasonBody)
async def cordon_node(store: Store, clock: Clock, node: NodeName, why: str = "") -> Cordon:
    """Place no new tasks on a node; it keeps those it has. Repeated, it keeps the time of the first cordon."""
    check_reason(why)
    before = await _cordon(store, node)
    if before is None and await store.get(keys.node(NodeId(node))) is None:
        raise await no_node(store, node)
    cordon = Cordon(node=NodeId(node), since=before.since if before else clock.wall(), why=why)
    if before is not None and why in ("", before.why):
        return before
    await store.commit(Put(keys.cordon(cordon.node), codec.encode(cordon)))
    return cordon


@verb("POST", "/v1/nodes/{node}/uncordon", Access.OPERATE, rpc="Nodes.Uncordon", answer=Uncordoned)
async def uncordon_node(store: Store, node: NodeName) -> bool:
    """Allow new tasks on a node again; returns whether it had a cordon."""
    key = keys.cordon(NodeId(node))
    if await store.get(key) is None:
        if await store.get(keys.node(NodeId(node))) is None:
            raise await no_node(store, node)
        return False
    await store.commit(Delete(key))
    return True


@verb("POST", "/v1/nodes/{node}/drain", Access.OPERATE, rpc="Nodes.Drain", body=DrainBody)
async def drain_node(store: Store, node: NodeName, *, why: str = "", deadline: timedelta | None = None) -> Drain:
    """Move all tasks of a node to other nodes, and place no new ones on it; each stops once another node runs it.

    Tasks still on the node at the deadline are stopped. Draining a drained node again changes its reason and deadline.
    """
    check_reason(why)
    if deadline is not None:
        Check("node", node).duration("deadline", deadline)
    key = keys.drain(NodeId(node))
    before = understood(Drain, await store.get(key))
    if before is None and await store.get(keys.node(NodeId(node))) is None:
        raise await no_node(store, node)
    if before is not None and why in ("", before.why) and deadline is None:
        return before
    now = await store.now()  # the leader, on another machine, compares the deadline with the store's clock too
    drain = Drain(
        node=NodeId(node),
        since=before.since if before else now,
        deadline=now + deadline if deadline else before.deadline if before else None,
        why=why or (before.why if before else ""),
        tasks=before.tasks if before else len(await list_tasks(store, node)),
    )
    await store.commit(Put(key, codec.encode(drain)))
    return drain


@verb("POST", "/v1/nodes/{node}/undrain", Access.OPERATE, rpc="Nodes.Undrain", answer=Undrained)
async def undrain_node(store: Store, node: NodeName) -> bool:
    """End a node's drain: it keeps its remaining tasks and gets new ones; returns whether it was drained."""
    key = keys.drain(NodeId(node))
    if await store.get(key) is None:
        if await store.get(keys.node(NodeId(node))) is None:
            raise await no_node(store, node)
        return False
    await store.commit(Delete(key))
    return True


@needs(Access.VIEW)
async def list_tasks(store: Store, node: str) -> list[str]:
    """List the ids of the tasks that a node has to run."""
    begin = keys.assignments(NodeId(node))
    async with aclosing(scan_all(store, begin)) as entries:
        return [entry.key.removeprefix(begin) async for entry in entries]


@verb("PATCH", "/v1/nodes/{node}", Access.OPERATE, rpc="Nodes.SetSlots", body=SlotsBody, answer=NodeSlots)
async def set_slots(store: Store, clock: Clock, node: NodeName, slots: object) -> SlotsSet | None:
    """Set a node's number of slots, in place of its settings; None restores the settings. Surplus tasks move away."""
    wanted, key = read_slots(node, slots), keys.slots(NodeId(node))
    before = understood(SlotsSet, await store.get(key))
    if before is None and await store.get(keys.node(NodeId(node))) is None:
        raise await no_node(store, node)
    if wanted is None:
        await store.commit(Delete(key))
        return None
    if before is not None and before.slots == wanted:
        return before
    given = SlotsSet(node=NodeId(node), slots=wanted, since=clock.wall())
    await store.commit(Put(key, codec.encode(given)))
    return given


def _candidate(view: NodeView) -> LoadCandidate:
    load = view.load
    return LoadCandidate(
        node=view.id,
        score=load.score if load else 100.0,
        free=load.executors - load.executors_used if load else 0,
        refusal=_not_to_be_had(view),
    )


def _not_to_be_had(view: NodeView) -> str | None:
    """Why a node cannot be the idlest; None if it can."""
    if not view.is_up:
        return "it is not in the fleet"
    if view.role is None or not view.role.may_work:
        return "it runs no work"
    if view.cordon:
        return "it is cordoned"
    if view.standing is Standing.OFFLINE:
        return "it is offline"
    return None if view.load else "it has not said yet how busy it is"


async def _cordon(store: Store, node: str) -> Cordon | None:
    entry = await store.get(keys.cordon(NodeId(node)))
    return codec.decode(Cordon, entry.value) if entry else None
