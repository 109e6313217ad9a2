"""`rota status`: who leads, who is there, and what they run."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec

from rota.cli import options
from rota.decide.reach import faults
from rota.kit import durations
from rota.model import codec, keys
from rota.model.errors import Invalid
from rota.model.node import Leader, Node, NodeStatus
from rota.model.relay import RelayStatus
from rota.store import Entry, Store, open_store
from rota.store.records import understood


@click.command()
@options.store
@options.output
def command(store: str, output: str) -> None:
    """Show who leads, which nodes there are and what they run.

    Example: rota status --store sqlite:///rota.db -o json
    """
    seen = asyncio.run(_look(store))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(seen), indent=2).decode())
    else:
        _table(seen)


async def _look(url: str) -> dict[str, Any]:
    async with open_store(url, create=False) as store:
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
        nodes = [_node(entry, leader, now, work, relays) for entry in listing.entries]
        known = [node for entry in listing.entries if (node := understood(Node, entry))]
        apart = [{"node": node, "why": why} for node, why in faults(known)]
        return {"as_of": now, "revision": listing.revision, "leader": leader, "nodes": nodes, "apart": apart}


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
        "labels": node.labels,
        "slots": node.slots,
        "version": node.version,
        "insecure": node.insecure,
        "work": work.get(node.id),
        "relay": relays.get(node.id),
    }


def _age(since: datetime, now: datetime) -> int:
    return max(0, round((now - since).total_seconds()))


def _table(seen: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415  # only people need it, and it is slow to import
    from rich.table import Table  # noqa: PLC0415

    # Where nobody looks, nothing is cut to fit a screen.
    console = Console() if sys.stdout.isatty() else Console(width=1000)
    console.print(_leads(seen["leader"]), highlight=False)
    table = Table("NODE", "ROLE", "HOST", "PID", "UP", "APP", "WORKERS", "TASKS", "HTTP", box=None, pad_edge=False)
    for node in seen["nodes"]:
        table.add_row(*_cells(node))
    console.print(table if seen["nodes"] else "no nodes; start one with: rota node --store …")
    apart = (f"node {each['node']}: {each['why']}" for each in seen["apart"])
    for trouble in (*apart, *_troubles(seen["nodes"])):
        console.print(trouble, highlight=False, style="red")


def _leads(leader: dict[str, Any] | None) -> str:
    if leader is None:
        return "leader: none"
    if "broken" in leader:
        return f"leader: not understood ({leader['broken']})"
    return f"leader: {leader['node']} in term {leader['term']} for {_ago(leader['age_s'])}"


def _cells(node: dict[str, Any]) -> tuple[str, ...]:
    if "broken" in node:
        return node["id"], "", "", "", f"not understood ({node['broken']})"
    name = f"{node['id']} *" if node["leads"] else node["id"]
    about = name, node["role"], node["host"], str(node["pid"]), _ago(node["age_s"])
    work: NodeStatus | None = node["work"]
    if work is None:
        return *about, "", "", "", node["http"]
    wanted, ready = sum(pool.want for pool in work.pools), sum(pool.ready for pool in work.pools)
    app = f"{work.app or '?'} g{work.generation}"
    return *about, app, f"{ready}/{wanted}", f"{work.tasks_running}/{work.tasks_ordered}", node["http"]


def _troubles(nodes: list[dict[str, Any]]) -> Iterator[str]:
    """What somebody should look at."""
    for node in nodes:
        work: NodeStatus | None = node.get("work")
        for pool in work.pools if work else ():
            if pool.crash_loop:
                yield f"node {node['id']}: {pool.name} keeps failing: {pool.crash_loop}"
        for why in work.not_listening.values() if work else ():
            yield f"node {node['id']}: not ready: {why}"
        if node.get("insecure"):
            yield f"node {node['id']}: insecure: other machines reach its doors without TLS"
        relay: RelayStatus | None = node.get("relay")
        for other, why in (relay.unreached if relay else {}).items():
            yield f"node {node['id']}: messages for the relay of {other} wait: {why}"
        for sink in relay.sinks if relay else ():
            if sink.is_down:
                kept = f"{sink.spool_messages} messages are spooled"
                yield f"node {node['id']}: sink {sink.sink} is down: {sink.last_error}; {kept}"
        if work and work.reloading:
            yield f"node {node['id']}: a reload is under way ({work.reloading})"


def _ago(seconds: int) -> str:
    return durations.render(timedelta(seconds=seconds))
