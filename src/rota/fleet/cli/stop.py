"""`rota stop`: end nodes of this machine."""

import asyncio
from datetime import timedelta
from pathlib import Path

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import local
from rota.cli.terminal import tables
from rota.cli.terminal.progress import ProgressLine
from rota.kit.time import durations
from rota.model.errors import Unavailable
from rota.runtime import control_socket

LOOK = 0.05


@click.command()
@local.data
@local.node_id
@click.option("--now", is_flag=True, help="Do not let work finish.")
@click.option(
    "--timeout",
    type=options.Duration(),
    default="1m",
    show_default=True,
    help="How long to wait until they have ended.",
)
@options.output(Shape.LIST)
def command(folders: tuple[Path, ...], names: tuple[str, ...], now: bool, timeout: timedelta) -> None:
    """Stop nodes on this machine: they finish what runs, leave the fleet and end.

    Example: rota stop --id a
    """
    with tables.answering() as stopped:
        asyncio.run(_stop(folders, names, now, timeout, stopped))


async def _stop(
    folders: tuple[Path, ...], names: tuple[str, ...], now: bool, timeout: timedelta, stopped: list[object]
) -> None:
    meant = await local.nodes(folders, names)
    for _, place in meant:
        await control_socket.call(place, "stop", 10, now=now)
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            for count, (name, place) in enumerate(meant):
                progress = ProgressLine(f"stopping {name}", len(meant))
                progress.at(count)
                async with progress.turning():
                    await _until_it_has_ended(place)
                stopped.append({"node": name, "stopped": True})
                tables.say(f"node {name}: stopped")
    except TimeoutError:
        raise Unavailable(f"node {name} has not ended within {durations.render(timeout)}; try --now") from None


async def _until_it_has_ended(place: Path) -> None:
    while True:
        try:
            await control_socket.call(place, "status", 5)
        except Unavailable:
            return
        await asyncio.sleep(LOOK)
