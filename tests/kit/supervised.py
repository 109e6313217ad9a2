"""Members, kinds and resources for a supervisor."""

from datetime import timedelta

from rota.model import codec, keys
from rota.model.ids import LeaseId, NodeId, SessionId
from rota.model.node import Node, NodeStatus, Role
from rota.resources.core.records import KindRecord, ResourceRecord
from rota.sim.world import EPOCH
from rota.store import Put, Store


async def member(store: Store, id: NodeId, session: str = "") -> None:
    node = Node(
        id=id, session=SessionId(session or id), lease=LeaseId(id), role=Role.WORK, home=id, host="box", pid=1,
        since=EPOCH, lease_ttl=timedelta(seconds=10), slots=500,
    )  # fmt: skip
    work = NodeStatus(
        app="app", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0,
        kinds=["room"],
    )  # fmt: skip
    await store.commit(Put(keys.node(id), codec.encode(node)), Put(keys.status(id), codec.encode(work)))


async def add(store: Store, id: str, cost: int = 1, priority: int = 0) -> None:
    record = ResourceRecord(uid=id, kind="room", id=id, created=EPOCH, cost=cost, priority=priority)
    await store.commit(Put(keys.resource("room", id), codec.encode(record)))


async def declare(store: Store) -> None:
    kind = KindRecord(
        name="room", app="app", replicas=1, exclusive=False, runs_alone=False, silent_after=timedelta(seconds=30),
        start_within=timedelta(seconds=30),
    )  # fmt: skip
    await store.commit(Put(keys.kind("room"), codec.encode(kind)))
