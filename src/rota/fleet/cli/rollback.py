"""`rota rollback`: back to the code before."""

from datetime import timedelta
from typing import Any

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import steer
from rota.cli.reach.steer import Meant
from rota.cli.terminal import tables


@click.command()
@steer.meant()
@options.output(Shape.LIST)
@click.option(
    "--timeout",
    type=options.Duration(),
    default="1m",
    show_default=True,
    help="How long to wait for one node's answer.",
)
def command(meant: Meant, timeout: timedelta) -> None:
    """Go back to the generation before the last reload, on nodes.

    That generation is still loaded, even if the files have changed. A second rollback goes forward again. Its code is
    kept in the node's data folder: after a restart the node runs it, too, until the files change or a reload succeeds.

    Without --node, --all or a server, the command applies to every node running below .rota in this folder.

    Example: rota rollback --all --context prod
    """
    steer.ask(meant, "rollback", timeout.total_seconds(), _say, changes=True)


def _say(node: str, done: dict[str, Any]) -> None:
    tables.say(f"node {node}: back at generation {done['generation']}, from {done['previous']}")
    if note := done.get("note"):
        tables.say(f"node {node}: {note}", err=True)
