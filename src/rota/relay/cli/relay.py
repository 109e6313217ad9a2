"""`rota relay`: how messages leave the fleet, and waiting until all have left."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from itertools import count as counting

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import FleetClient, opened
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.cli.terminal.progress import ProgressLine
from rota.cli.verbs import Verbs
from rota.kit.time import durations
from rota.relay.core.records import SinkStatus
from rota.relay.doors import operations as relays
from rota.relay.doors.operations import RelayList, RelayView

RELAYS = "NODE", "UP", "HOME", "MAP", "LINES", "WINDOW", "PASSED ON", "WAITING", "REFUSED"
SINKS = "NODE", "SINK", "STATE", "CONFIRMED", "UNDER WAY", "WAITING", "SPOOLED", "SPOOL", "REJECTED", "TROUBLE"

PACE = 1.0
"""Seconds between two samples."""

SETTLED = 6.0
"""Seconds during which every sample must find nothing left: relays write their figures every 5 s."""

node_option = click.option("--node", metavar="ID", shell_complete=names.nodes, help="Only the relay of this node.")


@click.group(cls=Verbs)
def command() -> None:
    """Show how messages leave the fleet, and wait until all have left."""


@command.command()
@node_option
@click.option(
    "--loop",
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=0,
    metavar="[COUNT]",
    help="This many samples, a second apart; without a number, or with 0, until interrupted.  [default: one]",
)
@options.fleet
@options.output(Shape.OBJECT, lines_with="--loop")
def stat(node: str | None, loop: int | None, fleet: FleetTarget) -> None:
    """Show the relays and their sinks: what was confirmed, what waits, and what is spooled.

    Figures are those since each relay's process began.

    Example: rota relay stat --loop 10
    """
    times = 1 if loop is None else loop

    async def show() -> None:
        async with opened(fleet) as open:
            for look in counting(1):
                seen = await open.do(relays.list_relays, node=node)
                (tables.answer if loop is None else tables.line)(seen)
                if look > 1:
                    tables.say("")
                _show(seen)
                if look == times:
                    return
                await asyncio.sleep(PACE)

    asyncio.run(show())


@command.command()
@node_option
@click.option(
    "--timeout", type=options.Duration(), default="1m", show_default=True, help="How long to wait for the last message."
)
@options.fleet
@options.output(Shape.OBJECT)
def drain(node: str | None, timeout: timedelta, fleet: FleetTarget) -> None:
    """Wait until the relays have published everything: no message waits, and every spool is empty.

    Work goes on: messages that are emitted meanwhile are waited for too. The exit code is 1 if messages are left.

    Example: rota relay drain --node n1 --timeout 5m
    """
    sys.exit(asyncio.run(_drain(fleet, node, timeout)))


async def _drain(target: FleetTarget, node: str | None, timeout: timedelta) -> int:
    """The exit code."""
    said, seen = "", None
    try:
        async with (
            opened(target) as fleet,
            asyncio.timeout(timeout.total_seconds()),
            ProgressLine("draining relays").turning() as progress,
            aclosing(_until_idle(fleet, node)) as looks,
        ):
            async for seen in looks:
                if (left := _left(seen)) and left != said:
                    progress.clear()
                    tables.say(left)
                    said = left
    except TimeoutError:
        left = _left(seen) if seen else "no relay has answered"
        tables.answer({"drained": False, "left": left})
        tables.say(f"rota: after {durations.render(timeout)} {left}", err=True)
        return 1
    tables.answer({"drained": True, "left": ""})
    tables.say("nothing is left to publish")
    return 0


async def _until_idle(fleet: FleetClient, node: str | None) -> AsyncGenerator[RelayList, None]:
    """The relays, sample by sample, until they have had nothing left for `SETTLED` seconds: a sample may be out of
    date."""
    idle_since: float | None = None
    while True:
        seen = await fleet.do(relays.list_relays, node=node)
        now = time.monotonic()
        yield seen
        if not seen.is_idle:
            idle_since = None
        elif idle_since is None:
            idle_since = now
        elif now - idle_since >= SETTLED:
            return
        await asyncio.sleep(PACE)


def _left(seen: RelayList) -> str:
    """What is left to publish, in a line; empty if nothing is."""
    parts = []
    for relay in seen.relays:
        if relay.status is None:
            parts.append(f"node {relay.node}: not understood ({relay.not_understood})")
            continue
        if relay.status.waiting:
            parts.append(f"node {relay.node}: {relay.status.waiting} for other relays")
        parts += [
            f"node {relay.node}: {sink.waiting + sink.under_way} in memory and {sink.spool_messages} spooled for "
            + f"{sink.sink}, which is {f'down: {sink.last_error}' if sink.is_down else 'up'}"
            for sink in relay.status.sinks
            if not sink.is_idle
        ]
    return "; ".join(parts)


def _show(seen: RelayList) -> None:
    """Print one sample."""
    if not seen.relays:
        tables.say("no relays; a node has one once its app declares a kind with a sink")
        return
    homes = f"version {seen.map.version}, homes {', '.join(seen.map.nodes) or 'none'}" if seen.map else "none yet"
    tables.say(f"relay map: {homes}")
    tables.show(RELAYS, [_relay_row(relay) for relay in seen.relays], "")
    for relay in seen.relays:
        for node, why in (relay.status.unreached if relay.status else {}).items():
            tables.say(f"node {relay.node} does not reach the relay of {node}: {why}")
    rows = [_sink_row(relay, sink) for relay in seen.relays if relay.status for sink in relay.status.sinks]
    if rows:
        tables.show(SINKS, rows, "")


def _relay_row(relay: RelayView) -> tuple[str, ...]:
    status = relay.status
    if status is None:
        return relay.node, f"not understood ({relay.not_understood})", "", "", "", "", "", "", ""
    up = durations.render(timedelta(seconds=relay.age_s or 0))
    home = "yes" if relay.is_home else "no"
    moving = f"{status.map_version}, moving" if status.is_moving else str(status.map_version)
    counts = status.lines, status.window, status.passed_on, status.waiting
    return relay.node, up, home, moving, *map(str, counts), _reasons(status.refused)


def _sink_row(relay: RelayView, sink: SinkStatus) -> tuple[str, ...]:
    spool = f"{_mebibytes(sink.spool_bytes)} of {_mebibytes(sink.spool_limit)} MiB"
    counts = sink.confirmed, sink.under_way, sink.waiting, sink.spool_messages
    trouble = sink.last_error if sink.is_down else ""
    return relay.node, sink.sink, sink.state, *map(str, counts), spool, _reasons(sink.rejected), trouble


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {why}" for why, count in counts.items() if count) or "0"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f}" if size else "0"
