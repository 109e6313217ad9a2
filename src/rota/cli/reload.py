"""`rota reload`: new code without a pause."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from rota.cli import local, options


@click.command()
@local.data
@local.node_id
@click.option(
    "--timeout",
    type=options.Duration(),
    default="1m",
    show_default=True,
    help="How long to wait for one node's answer.",
)
def command(folders: tuple[Path, ...], names: tuple[str, ...], timeout: timedelta) -> None:
    """Have nodes on this machine take in the code of their app as it is now.

    A new generation is loaded, tried with one worker of each sort, and takes over; if anything fails the old one serves
    on, the reason is shown and the exit code is not 0. Nodes are reloaded one after the other; a failure ends it.

    Example: rota reload --id a
    """
    local.ask(folders, names, "reload", timeout.total_seconds(), _say, doing="reloading")


def _say(node: str, done: dict[str, Any]) -> None:
    click.echo(f"node {node}: generation {done['generation']} took over from {done['previous']}")
