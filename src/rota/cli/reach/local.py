"""Nodes of this machine, found by their data folders and spoken to through their control sockets."""

from pathlib import Path

import click

from rota.model.errors import Invalid, Unavailable
from rota.runtime import control_socket

BASE = Path(".rota")

data = click.option(
    "--data",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Data folder of a node; may be repeated.  [default: every node running below .rota in this folder]",
)
node_id = click.option(
    "--id", "names", multiple=True, metavar="ID", help="Only the node of this name; may be repeated."
)


async def nodes(folders: tuple[Path, ...], names: tuple[str, ...]) -> list[tuple[str, Path]]:
    """The nodes meant, by name and folder, in the order of their names; Unavailable if there are none."""
    places = folders or _running()
    found: dict[str, Path] = {}
    for place in places:
        try:
            found[(await control_socket.call(place, "status", 5))["node"]] = place
        except Unavailable:
            if folders:
                raise
    if missing := [name for name in names if name not in found]:
        there = ", ".join(found) or "none"
        raise Invalid(
            f'no node "{missing[0]}" is running here; there are: {there}; use --server URL for nodes of other machines'
        )
    if not found:
        raise Unavailable(
            f"no node is running below {BASE} in this folder; name its folder with --data, "
            "or a node's address with --server URL"
        )
    return sorted((name, place) for name, place in found.items() if not names or name in names)


def _running() -> tuple[Path, ...]:
    return tuple(sorted(socket.parent for socket in BASE.rglob(control_socket.NAME)))
