"""`rota reload`: new code without a pause."""

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
    """Reload the app's code on nodes.

    A new generation is loaded, tried with one worker of each pool, and takes over; if a step fails the old one keeps
    running, the reason is shown and the exit code is not 0. Nodes are reloaded one after the other; the first failure
    ends the command.

    Without --node, --all or a server, the command applies to every node running below .rota in this folder.

    Example: rota reload --all --context prod
    """
    steer.ask(meant, "reload", timeout.total_seconds(), _say, doing="reloading", changes=True)


def _say(node: str, done: dict[str, Any]) -> None:
    tables.say(f"node {node}: generation {done['generation']} took over from {done['previous']}")
