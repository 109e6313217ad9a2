"""Records of relays."""

from datetime import UTC, datetime

from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap, RelayStatus, ResourceTally, SinkState, SinkStatus
from rota.store import Put, Store

SINK = SinkStatus(
    sink="amqp://box",
    state=SinkState.DOWN,
    published=30,
    confirmed=20,
    rejected={"no queue": 1},
    waiting=2,
    under_way=3,
    spool_messages=7,
    spool_bytes=700,
    spool_limit=1_000_000,
    last_error="cannot connect",
)


RELAY = RelayStatus(
    address="127.0.0.1:9",
    since=datetime(2026, 1, 1, tzinfo=UTC),
    map_version=4,
    lines=3,
    window=40,
    passed_on=5,
    waiting=6,
    unreached={"n9": "its token is another"},
    refused={"an earlier epoch": 2},
    sinks=(SINK,),
)


IDLE = replace(SINK, state=SinkState.UP, waiting=0, under_way=0, spool_messages=0, spool_bytes=0, last_error="")


async def status(store: Store, node: str, *sinks: SinkStatus) -> None:
    """Write how a relay is, as its node would."""
    told = replace(RELAY, sinks=sinks, waiting=0) if sinks else RELAY
    await store.commit(Put(keys.relay_status(NodeId(node)), codec.encode(told)))


async def write_map(store: Store, *nodes: str) -> None:
    """Write a relay map, as a leader would."""
    made = RelayMap(version=1, nodes=tuple(map(NodeId, nodes)))
    await store.commit(Put(keys.RELAY_MAP, codec.encode(made)))


async def count(kind: str, resource: str) -> ResourceTally:
    """A relay's answer."""
    return ResourceTally(kind=kind, resource=resource, unique=7, duplicates=6, seen_by_one=1, last_s=0.5)
