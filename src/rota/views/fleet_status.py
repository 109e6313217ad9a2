"""The state of the fleet for `rota status`: which node leads, which nodes there are, what their workers and relays
do."""

from datetime import datetime
from typing import Any

from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.fleet.core.members.reach import faults
from rota.fleet.doors.status_answers import FleetStatus
from rota.model import codec, keys
from rota.model.errors import Invalid
from rota.model.node import Leader, Node, NodeStatus
from rota.relay.core.records import RelayStatus
from rota.resources.core.records import LabelsSet, labelled
from rota.store.port import Entry, Store
from rota.store.records import understood
from rota.views.overview import failing_resources


@verb("GET", "/v1/status", Access.VIEW, answer=FleetStatus)
async def fleet_status(store: Store) -> dict[str, Any]:
    """Get which node leads, which nodes are in the fleet and what they run, as `rota status -o json` has it."""
    now = await store.now()
    leader = await _leader(store, now)
    listing = await store.scan(keys.NODES)
    work = {
        entry.key.removeprefix(keys.STATUS): understood(NodeStatus, entry)
        for entry in (await store.scan(keys.STATUS)).entries
    }
    relays = {
        entry.key.removeprefix(keys.RELAY_STATUS): understood(RelayStatus, entry)
        for entry in (await store.scan(keys.RELAY_STATUS)).entries
    }
    given = {
        entry.key.removeprefix(keys.LABELS): understood(LabelsSet, entry)
        for entry in (await store.scan(keys.LABELS)).entries
    }
    nodes = [_node(entry, leader, now, work, relays, given) for entry in listing.entries]
    known = [node for entry in listing.entries if (node := understood(Node, entry))]
    return {
        "as_of": now,
        "revision": listing.revision,
        "leader": leader,
        "nodes": nodes,
        "apart": [{"node": node, "why": why} for node, why in faults(known)],
        "failing": await failing_resources(store),
    }


async def _leader(store: Store, now: datetime) -> dict[str, Any] | None:
    entry = await store.get(keys.LEADER)
    if entry is None:
        return None
    try:
        leader = codec.decode(Leader, entry.value)
    except Invalid as error:
        return {"node": None, "term": entry.created, "session": None, "age_s": None, "broken": str(error)}
    return {"node": leader.node, "term": entry.created, "session": leader.session, "age_s": _age(leader.since, now)}


def _node(
    entry: Entry,
    leader: dict[str, Any] | None,
    now: datetime,
    work: dict[str, NodeStatus | None],
    relays: dict[str, RelayStatus | None],
    given: dict[str, LabelsSet | None],
) -> dict[str, Any]:
    try:
        node = codec.decode(Node, entry.value)
    except Invalid as error:
        return {"id": entry.key.removeprefix(keys.NODES), "broken": str(error)}
    return {
        "id": node.id,
        "leads": leader is not None and leader["session"] == node.session,
        "role": node.role,
        "host": node.host,
        "pid": node.pid,
        "session": node.session,
        "age_s": _age(node.since, now),
        "http": node.http,
        "grpc": node.grpc,
        "labels": labelled(node.labels, given.get(node.id)),
        "slots": node.slots,
        "version": node.version,
        "insecure": node.insecure,
        "work": work.get(node.id),
        "relay": relays.get(node.id),
    }


def _age(since: datetime, now: datetime) -> int:
    return max(0, round((now - since).total_seconds()))
