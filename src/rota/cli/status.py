"""`rota status`: who leads, and who is there."""

import asyncio
import sys
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec

from rota.cli import options
from rota.kit import durations
from rota.model import codec, keys
from rota.model.errors import Invalid
from rota.model.node import Leader, Node
from rota.store import Entry, Store, open_store


@click.command()
@options.store
@options.output
def command(store: str, output: str) -> None:
    """Show who leads and which nodes there are.

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
        nodes = [_node(entry, leader, now) for entry in listing.entries]
        return {"as_of": now, "revision": listing.revision, "leader": leader, "nodes": nodes}


async def _leader(store: Store, now: datetime) -> dict[str, Any] | None:
    entry = await store.get(keys.LEADER)
    if entry is None:
        return None
    try:
        leader = codec.decode(Leader, entry.value)
    except Invalid as error:
        return {"node": None, "term": entry.created, "session": None, "age_s": None, "broken": str(error)}
    return {"node": leader.node, "term": entry.created, "session": leader.session, "age_s": _age(leader.since, now)}


def _node(entry: Entry, leader: dict[str, Any] | None, now: datetime) -> dict[str, Any]:
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
    }


def _age(since: datetime, now: datetime) -> int:
    return max(0, round((now - since).total_seconds()))


def _table(seen: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415  # only people need it, and it is slow to import
    from rich.table import Table  # noqa: PLC0415

    # Where nobody looks, nothing is cut to fit a screen.
    console = Console() if sys.stdout.isatty() else Console(width=1000)
    console.print(_leads(seen["leader"]), highlight=False)
    table = Table("NODE", "ROLE", "HOST", "PID", "UP", box=None, pad_edge=False)
    for node in seen["nodes"]:
        table.add_row(*_cells(node))
    console.print(table if seen["nodes"] else "no nodes; start one with: rota node --store …")


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
    return name, node["role"], node["host"], str(node["pid"]), _ago(node["age_s"])


def _ago(seconds: int) -> str:
    return durations.render(timedelta(seconds=seconds))
