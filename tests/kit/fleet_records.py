"""Records of a small fleet, written as nodes and leaders would write them."""

from datetime import timedelta
from typing import Any

from rota.model import codec, keys
from rota.model.ids import LeaseId, NodeId, SessionId
from rota.model.node import Leader, Node, NodeStatus, Role
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import KindRecord, ResourceStatus
from rota.resources.doors import operations as resource_operations
from rota.resources.doors.answers import ResourceView
from rota.store import Put, Store
from tests.kit.hand_clock import HandClock

CLOCK = HandClock()


async def declare(store: Store, name: str, *, exclusive: bool = False, schema: dict[str, Any] | None = None) -> None:
    kind = KindRecord(
        name=name,
        app="app",
        replicas=1,
        exclusive=exclusive,
        runs_alone=exclusive,
        silent_after=timedelta(seconds=30),
        start_within=timedelta(seconds=30),
        schema=schema,
    )
    await store.commit(Put(keys.kind(name), codec.encode(kind)))


async def join(
    store: Store, name: str, *, role: Role = Role.BOTH, slots: int = 10, kinds: tuple[str, ...] = ()
) -> None:
    node = Node(
        id=NodeId(name),
        session=SessionId(f"s-{name}"),
        lease=LeaseId("lease"),
        role=role,
        home="home",
        host="box",
        pid=1,
        since=await store.now(),
        lease_ttl=timedelta(seconds=10),
        http=f"{name}:7700",
        grpc=f"{name}:7701",
        labels={"zone": "a"},
        slots=slots,
        version="1",
    )
    work = NodeStatus(
        app="app" if kinds else None, generation=1, previous=None, reloading=None, pools=[],
        tasks_ordered=0, tasks_running=0, kinds=list(kinds),
    )  # fmt: skip
    await store.commit(Put(keys.node(node.id), codec.encode(node)), Put(keys.status(node.id), codec.encode(work)))


async def lead(store: Store, name: str) -> None:
    leader = Leader(node=NodeId(name), session=SessionId(f"s-{name}"), since=await store.now())
    await store.commit(Put(keys.LEADER, codec.encode(leader)))


async def assign(store: Store, node: str, id: str, *, slot: int = 0, cost: int = 1) -> None:
    told = Assignment(kind="room", resource=id, slot=slot, cost=cost)
    await store.commit(Put(keys.assignment(NodeId(node), keys.task("room", id, slot)), codec.encode(told)))


async def settle(store: Store, view: ResourceView, *nodes: str, replicas: int = 1, **more: Any) -> None:
    """Write a status as the leader would."""
    status = ResourceStatus(
        ID=view.uid,
        Name=view.id,
        AssignedNode=",".join(f"{node}|{node}:7701" for node in nodes),
        CreationTime=1,
        kind=view.kind,
        replicas=replicas,
        assigned=len(nodes),
        **more,
    )
    await store.commit(Put(keys.resource_status(view.kind, view.id), codec.encode(status)))


async def create(store: Store, id: str = "1", **more: Any) -> ResourceView:
    key, wait = more.pop("key", None), more.pop("wait", None)
    return await resource_operations.create_resource(
        store, CLOCK, {"kind": "room", "id": id, **more}, key=key, wait=wait
    )


SPEC = {
    "$ref": "#/$defs/Spec",
    "$defs": {
        "Spec": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "lang": {"type": "string"}, "depth": {"type": "integer"}},
            "required": ["id", "lang"],
        }
    },
}
