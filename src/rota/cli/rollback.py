"""`rota rollback`: back to the code before."""

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
    """Have nodes on this machine go back to the generation before the last reload.

    That generation is still loaded, whatever the files say now. A second rollback goes forward again. Its code is kept
    in the node's data folder: a node that starts anew runs it, too, until the files change or a reload succeeds.

    Example: rota rollback --id a
    """
    local.ask(folders, names, "rollback", timeout.total_seconds(), _say)


def _say(node: str, done: dict[str, Any]) -> None:
    click.echo(f"node {node}: back at generation {done['generation']}, from {done['previous']}")
    if note := done.get("note"):
        click.echo(f"node {node}: {note}", err=True)
