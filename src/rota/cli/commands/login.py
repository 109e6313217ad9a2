"""`rota login`: remember a fleet by the doors of a node, and use it from then on."""

import asyncio
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import contexts
from rota.cli.reach.contexts import Context, Contexts
from rota.cli.reach.targets import ServerTarget
from rota.cli.terminal import tables
from rota.model.errors import Invalid


@click.command()
@click.argument("url", metavar="URL")
@click.option("--name", metavar="NAME", help="The context's name.  [default: the host]")
@click.option(
    "--token", metavar="FILE|env:NAME", help="Where the token is.  [default: it is asked for, or read from stdin]"
)
@click.option(
    "--ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Certificates of the server's authorities, in PEM form.  [default: the system's]",
)
@click.option("--insecure", is_flag=True, help="Send the token unencrypted: for a network that only you use.")
@options.output(Shape.OBJECT)
def command(url: str, name: str | None, token: str | None, ca: Path | None, insecure: bool) -> None:
    """Save the fleet of the node at URL under a name, for commands that name no other fleet.

    The token is checked first. It is kept in a file that only this user can read; rota context lists what is saved.

    Example: rota login https://n1.example.com:7700 --name prod
    """
    address = contexts.normal(url)
    contexts.check_private(address, is_insecure=insecure)
    called = contexts.check_name(name or urlsplit(address).hostname or "fleet")
    server = ServerTarget(address, _token(token), str(ca.absolute()) if ca else None)
    who, access = asyncio.run(_who(server))
    with contexts.changing():
        made = {**contexts.read().contexts, called: Context(server.url, server.token, server.ca, insecure)}
        contexts.write(Contexts(current=called, contexts=made))
    tables.answer(
        {"name": called, "server": server.url, "ca": server.ca, "is_current": True, "as": who, "access": access}
    )
    tables.say(
        f"context {called}: {server.url}, as {who or 'the owner of the node'} for {access}; it is used from now on"
    )


async def _who(server: ServerTarget) -> tuple[str, str]:
    from rota.cli.reach.remote import DoorFleet  # noqa: PLC0415

    async with DoorFleet(server) as fleet:
        return await fleet.who()


def _token(reference: str | None) -> str:
    """The token that was named, typed or piped."""
    if reference:
        return contexts.token(reference, os.environ)
    text: str = click.prompt("token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not text.strip():
        raise Invalid("no token was given; name a file with --token FILE, or pipe it into rota login")
    return text.strip()
