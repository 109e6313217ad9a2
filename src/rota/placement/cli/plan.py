"""`rota plan`: what the leader would do, before it does."""

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import ask
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.placement.doors import planning
from rota.placement.fleet.preview import PlannedMove, Preview

SHOWN = 20
"""How many moves and waiting resources the table shows; JSON output has all."""


@click.command()
@click.option("--rebalance", is_flag=True, help="Balance the nodes too.")
@click.option(
    "--without",
    multiple=True,
    metavar="NODE",
    shell_complete=names.nodes,
    help="Assume that this node is gone; may be repeated.",
)
@click.option(
    "--add",
    type=click.IntRange(0, planning.MOST_ADDED),
    default=0,
    metavar="COUNT",
    help="Assume this many more nodes.",
)
@click.option(
    "--like",
    metavar="NODE",
    default="",
    shell_complete=names.nodes,
    help="The node that those of --add are like; default: the first.",
)
@options.fleet
@options.output(Shape.OBJECT)
def command(rebalance: bool, without: tuple[str, ...], add: int, like: str, fleet: FleetTarget) -> None:
    """Show what the leader would change now, without changing anything.

    Tasks are moved and started until there is nothing left to do. The exit code is 0 if nothing would change, and 1 if
    something would.

    Example: rota plan --without n3
    """
    if like and not add:
        raise click.UsageError("--like says what the nodes of --add are like; give --add too")
    found = ask(fleet, planning.plan, rebalance=rebalance, without=without, add=add, like=like)
    tables.answer(found)
    _show(found)
    click.get_current_context().exit(1 if found.moves else 0)


def _show(found: Preview) -> None:
    for move in found.moves[:SHOWN]:
        tables.say(_line(move))
    if len(found.moves) > SHOWN:
        tables.say(f"and {len(found.moves) - SHOWN} more")
    for name, why in list(found.pending.items())[:SHOWN]:
        tables.say(f"pending {name}: {why}")
    if len(found.pending) > SHOWN:
        tables.say(f"and {len(found.pending) - SHOWN} more wait")
    headings = "NODE", "SLOTS", "NOW", "THEN"
    rows = [(node.id, str(node.slots), str(node.before), str(node.after)) for node in found.nodes]
    tables.show(headings, rows, "no nodes; start one with: rota node --store …")
    tables.say(_summary(found))


def _line(move: PlannedMove) -> str:
    why = f" ({move.why})" if move.why else ""
    if move.source is None:
        return f"start {move.task} on {move.target}{why}"
    if move.target is None:
        return f"stop {move.task} on {move.source}{why}"
    return f"move {move.task} from {move.source} to {move.target}{why}"


def _summary(found: Preview) -> str:
    moved = sum(move.source is not None and move.target is not None for move in found.moves)
    started = sum(move.source is None for move in found.moves)
    counts = {"to move": moved, "to start": started, "to stop": len(found.moves) - moved - started}
    counts["pending"] = len(found.pending)
    counted = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return counted or "nothing would change"
