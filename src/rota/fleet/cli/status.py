"""`rota status`: which node leads, which nodes there are, and what they run."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach.fleet import ask
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.kit.time import durations
from rota.model.node import NodeStatus
from rota.relay.core.records import RelayStatus
from rota.views.fleet_status import fleet_status

CODE = 8
"""Characters of a digest that are shown."""

HEADINGS = ("NODE", "ROLE", "HOST", "PID", "UP", "APP", "WORKERS", "TASKS", "HTTP")


@click.command()
@options.fleet
@options.output(Shape.OBJECT)
def command(fleet: FleetTarget) -> None:
    """Show which node leads, which nodes there are and what they run.

    APP is the app, its version if its module has a `__version__`, the generation of its code, counted from each start
    of the node, and a digest of its source files, which is the same on all nodes that run the same code.

    The first line names the fleet, unless the command named it.

    Example: rota status --store sqlite:///rota.db -o json
    """
    seen = ask(fleet, fleet_status)
    tables.answer(seen)
    if fleet.is_implied:
        tables.say(f"fleet: {fleet} ({fleet.origin})")
    if tables.is_for_people():
        _table(seen)


def _table(seen: dict[str, Any]) -> None:
    tables.say(_leads(seen["leader"]), state="" if seen["leader"] else "failing")
    rows = [_row(node) for node in seen["nodes"]]
    tables.show(HEADINGS, rows, "no nodes; start one with: rota node --store …")
    apart = (f"node {each['node']}: {each['why']}" for each in seen.get("apart", ()))
    failing = (f"resource {name}: {why}" for name, why in seen.get("failing", {}).items())
    for trouble in (*apart, *_troubles(seen["nodes"]), *failing):
        tables.say(trouble, state="failing")
    for change in _under_way(seen["nodes"]):
        tables.say(change, state="pending")


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    """As many cells as there are headings."""
    cells = _cells(node)
    return *cells, *[""] * (len(HEADINGS) - len(cells))


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
    version = f" {work.app_version}" if work.app_version else ""
    app = f"{work.app or '?'}{version} g{work.generation} {work.code[:CODE]}".rstrip()
    return *about, app, f"{ready}/{wanted}", f"{work.tasks_running}/{work.tasks_ordered}", node["http"]


def _troubles(nodes: list[dict[str, Any]]) -> Iterator[str]:
    """Problems that an operator should look at."""
    for node in nodes:
        work: NodeStatus | None = node.get("work")
        for pool in work.pools if work else ():
            if pool.crash_loop:
                yield f"node {node['id']}: {pool.name} keeps failing: {pool.crash_loop}"
            if pool.held_up:
                yield f"node {node['id']}: {pool.name}: a worker does not end: {pool.held_up}"
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


def _under_way(nodes: list[dict[str, Any]]) -> Iterator[str]:
    """Changes in progress."""
    for node in nodes:
        work: NodeStatus | None = node.get("work")
        if work and work.is_rolled_back:
            yield f"node {node['id']}: it was rolled back; the files on its disk are taken in by: rota reload"
        if work and work.reloading:
            yield f"node {node['id']}: a reload is under way ({work.reloading})"


def _ago(seconds: int) -> str:
    return durations.render(timedelta(seconds=seconds))
