"""`rota logs`: what a resource, a service, a stream or a run prints.

Lines of resources, services and streams are asked of the nodes that have them: at the doors of one of them, or where
only the store is known, of the nodes on this machine.
"""

import re
import sys
from contextlib import aclosing
from typing import Any

import click
import msgspec

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import local, names
from rota.cli.reach.fleet import FleetClient, on_fleet
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.doors.steer import SteerVerb
from rota.jobs.cli import runs
from rota.model.errors import Invalid, Unavailable
from rota.model.ids import NodeId
from rota.runtime import control_socket
from rota.views.printing import TAIL, PrintedLine, PrintedPage, by_time, follow_printed, read_printed

PATIENCE = 15.0
"""Seconds that a node may take to answer."""

RUN = re.compile(r"[^/]+/\d{8}T\d{6}.*")
"""The id of a run: its job, and a moment."""


@click.command()
@click.argument("thing", metavar="[THING]", required=False, shell_complete=names.printing)
@click.option("-f", "--follow", is_flag=True, help="Then print new lines; of a run, until it has ended.")
@click.option("--tail", type=click.IntRange(1, TAIL), metavar="NUMBER", help="Only the last lines of each node.")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="ID",
    shell_complete=names.nodes,
    help="Only lines of this node; may be repeated.",
)
@click.option("--last", metavar="JOB", shell_complete=names.jobs, help="The newest run of this job.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="Of a run: this attempt, not the newest.")
@click.option("--raw", is_flag=True, help="Of a run: print every byte unchanged on a terminal, too.")
@runs.logs_option
@options.fleet
@options.output(Shape.LIST, lines_with="--follow")
def command(
    thing: str | None,
    follow: bool,
    tail: int | None,
    nodes: tuple[str, ...],
    last: str | None,
    attempt: int | None,
    raw: bool,
    place: str | None,
    fleet: FleetTarget,
) -> None:
    """Print what a resource, a service, a stream or a run has printed.

    THING is a resource like room/1, service/NAME, stream/NAME, worker/NODE for what the workers of a node print
    outside of any task, or the id of a run.

    Example: rota logs room/1 -f
    """
    if last is not None or (thing is not None and RUN.fullmatch(thing)):
        if tail is not None or nodes or not tables.is_for_people():
            raise click.UsageError("--tail, --node and -o are for resources, services and streams; leave them out")
        runs.print_log(thing, last, follow, attempt, raw, place, fleet)
        return
    kind, slash, id = (thing or "").partition("/")
    if not (kind and slash and id):
        raise click.UsageError(
            "name what printed: a resource like room/1, service/NAME, stream/NAME, worker/NODE, or a run; or --last JOB"
        )
    if attempt is not None or raw or place is not None:
        raise click.UsageError("--attempt, --raw and --logs are for runs; leave them out")
    asked: dict[str, Any] = {"nodes": nodes, "tail": tail}

    async def show(open: FleetClient) -> None:
        if follow:
            await _follow(open, kind, id, asked)
        else:
            await _show(open, kind, id, asked)

    on_fleet(fleet, show)


async def _show(open: FleetClient, kind: str, id: str, asked: dict[str, Any]) -> None:
    """What there is, of all nodes by time."""
    lines: list[PrintedLine] = []
    page = await open.do(read_printed, ask_here, kind, id, **asked)
    unreached = page.unreached
    while page.lines:
        lines += page.lines
        if asked["tail"] is not None:
            break
        page = await open.do(read_printed, ask_here, kind, id, nodes=asked["nodes"], after=page.next)
        unreached = {**unreached, **page.unreached}
    _report_unreached(unreached)
    if unreached and not lines:
        raise Unavailable(f"no line of {kind}/{id}: {len(unreached)} nodes did not answer; try again")
    tables.answer([msgspec.to_builtins(line) for line in by_time(lines)])
    for line in by_time(lines):
        _say(line)
    if not lines:
        tables.say(f"{kind}/{id} has printed nothing yet, or not for a week", err=True)


async def _follow(open: FleetClient, kind: str, id: str, asked: dict[str, Any]) -> None:
    """What there is, and what comes."""
    is_first, unreached = True, dict[NodeId, str]()
    async with aclosing(open.each(follow_printed, ask_here, kind, id, **asked)) as pages:
        async for page in pages:
            if is_first and not page.lines and not page.unreached:
                tables.say(f"{kind}/{id} has printed nothing yet, or not for a week", err=True)
            if page.unreached != unreached:
                unreached = page.unreached
                _report_unreached(unreached)
            is_first = False
            _print(page)


def _print(page: PrintedPage) -> None:
    for line in page.lines:
        tables.line(line)
        _say(line)
    sys.stdout.flush()


def _say(line: PrintedLine) -> None:
    tables.say(f"{line.node} | {line.text.expandtabs()}".replace("\n", " "))


def _report_unreached(unreached: dict[NodeId, str]) -> None:
    for node, why in sorted(unreached.items()):
        tables.say(f"rota: no lines of node {node}: {why}", err=True)


async def ask_here(node: NodeId, verb: SteerVerb, /, *, was_passed_on: bool = False, **fields: Any) -> Any:
    """What a node of this machine says, asked at its control socket."""
    there = dict(await local.nodes((), ()))
    if node not in there:
        raise Unavailable(f"node {node} is not one of this folder; use a node's address with --server URL")
    try:
        return await control_socket.call(there[node], verb, PATIENCE, **fields)
    except control_socket.ControlError as error:
        if error.exit_code == Invalid.exit_code:
            raise Invalid(str(error)) from None
        raise
