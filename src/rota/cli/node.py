"""`rota node`: one member of a fleet."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import click

from rota.cli import logs, options
from rota.model.config import NodeConfig
from rota.model.ids import NodeId
from rota.model.node import Role


@click.command()
@options.store
@click.option("--id", "node_id", metavar="ID", help="Name in the fleet.  [default: made from the host's name and kept]")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of this node; one node per folder.  [default: .rota/nodes/ID, or .rota/node without an ID]",
)
@click.option("--role", type=click.Choice([role.value for role in Role]), default=Role.BOTH.value, show_default=True)
@click.option(
    "--lease-ttl",
    type=options.Duration(),
    default="10s",
    show_default=True,
    help="How long the fleet waits for a silent node.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(
    store: str, node_id: str | None, data: Path | None, role: str, lease_ttl: timedelta, log_level: str
) -> None:
    """Run one node of a fleet until INT or TERM; a second one ends it at once.

    Example: rota node --store sqlite:///rota.db --id a
    """
    logs.to_stderr(log_level)
    config = NodeConfig(
        store=store,
        id=NodeId(node_id) if node_id else None,
        data=data or (Path(".rota/nodes") / node_id if node_id else Path(".rota/node")),
        role=Role(role),
        lease_ttl=lease_ttl,
    )
    asyncio.run(_run(config))


async def _run(config: NodeConfig) -> None:
    from rota.compose import run_node  # noqa: PLC0415  # not needed for --help

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stop)
    await run_node(config, stop)


def _stop(stop: asyncio.Event) -> None:
    """Ask the node to stop; the second time do not ask. Its lease ends by itself."""
    if stop.is_set():
        os._exit(130)
    stop.set()
