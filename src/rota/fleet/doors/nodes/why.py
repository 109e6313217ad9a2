"""Why a node has what it has, and why it gets nothing new."""

from contextlib import aclosing

from rota.doors.limits import SHOWN
from rota.doors.parameters import NodeName
from rota.doors.verbs import verb
from rota.doors.why_answers import Why
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.nodes.answers import NodeView
from rota.fleet.doors.nodes.reading import no_node, node_view, seen_nodes
from rota.model import keys
from rota.model.ids import NodeId
from rota.resources.core.records import ResourceStatus
from rota.store.port import Store
from rota.store.records import understood
from rota.store.scanning import scan_all


@verb("GET", "/v1/why/{node}", Access.VIEW, rpc="Nodes.Why", heavy=True, codes=("node_not_found",))
async def why_node(store: Store, node: NodeName) -> Why:
    """Explain what a node has to run, and why it gets no new tasks."""
    seen = await seen_nodes(store)
    if node not in seen.ids:
        raise await no_node(store, node)
    view = node_view(NodeId(node), seen, await store.now())
    reasons = tuple(_closed(view, has_leader=seen.leader is not None))
    says = f"it has {view.tasks} {'task' if view.tasks == 1 else 'tasks'} in {view.used} of {view.slots} slots"
    if view.slots_set:
        says += f" (set on {view.slots_set.since:%Y-%m-%d %H:%M:%S} UTC; its settings say {view.configured_slots})"
    return Why(
        thing=node,
        says=f"{says}; {'; '.join(reasons)}" if reasons else f"{says}, and may get more",
        holds=tuple(seen.tasks.get(view.id, ())),
        reasons=reasons,
        refusals=await _refused_by(store, node),
    )


def _closed(view: NodeView, *, has_leader: bool) -> list[str]:
    """Why a node gets no new tasks; nothing if it may."""
    if not view.is_up:
        return ["it is not in the fleet"]
    if view.role is None:
        return [f"its record is not understood here ({view.not_understood})"]
    if not view.role.may_work:
        return [f"its role is {view.role}, and such a node runs no tasks"]
    reasons = []
    if view.cordon:
        why = f", because: {view.cordon.why}" if view.cordon.why else ""
        reasons.append(f"it is cordoned since {view.cordon.since:%Y-%m-%d %H:%M:%S} UTC{why}")
    if view.drain:
        why = f", because: {view.drain.why}" if view.drain.why else ""
        reasons.append(f"it is drained since {view.drain.since:%Y-%m-%d %H:%M:%S} UTC{why}")
    if not view.kinds:
        reasons.append("its app declares no kind of resources" if view.app else "it runs no app")
    if view.used >= view.slots:
        reasons.append("all its slots are taken" if view.slots else "it has no slots")
    if view.used > view.slots:
        reasons.append("it has more tasks than slots, so the newest of them move away, some at a time")
    if not has_leader:
        reasons.append("no node leads, so nothing is placed")
    return reasons


async def _refused_by(store: Store, node: str) -> dict[str, str]:
    """Resources that lack a task and that this node does not take; the first few."""
    found: dict[str, str] = {}
    async with aclosing(scan_all(store, keys.RESOURCE_STATUS)) as entries:
        async for entry in entries:
            status = understood(ResourceStatus, entry)
            if status and node in status.refusals:
                found[entry.key.removeprefix(keys.RESOURCE_STATUS)] = status.refusals[node]
                if len(found) == SHOWN:
                    break
    return found
