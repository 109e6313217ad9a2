"""`rota token`: the tokens that the doors accept, their rights, and their expiry."""

from datetime import timedelta
from pathlib import Path

import click
import msgspec

from rota.cli import options
from rota.cli.options import Duration, Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import ask
from rota.cli.reach.targets import FleetTarget
from rota.cli.reach.who import me
from rota.cli.terminal import tables
from rota.cli.verbs import ListingGroup
from rota.fleet.core.access.token import Access
from rota.fleet.doors import tokens
from rota.fleet.doors.tokens import NewToken, TokenView
from rota.kit.files import write_secret
from rota.kit.time.clock import SYSTEM

HEADINGS = "TOKEN", "ROLE", "STATE", "MADE", "BY", "EXPIRES"
name_argument = click.argument("name", metavar="NAME", shell_complete=names.tokens)
expires_option = click.option(
    "--expires-in",
    type=Duration(),
    metavar="DURATION",
    help="How long the token is valid.  [default: it does not expire]",
)
file_option = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the token to this file, readable only by its owner.",
)


@click.group(cls=ListingGroup)
def command() -> None:
    """Make, list, rotate and revoke the tokens that the doors take.

    `rota token` alone is `rota token ls`.
    """


@command.command()
@options.fleet
@options.output(Shape.LIST)
def ls(fleet: FleetTarget) -> None:
    """List the tokens that the fleet knows, by name; the tokens themselves cannot be shown again.

    Example: rota token ls
    """
    found = ask(fleet, tokens.list_tokens, SYSTEM)
    tables.listed(found, HEADINGS, _row, "no tokens; make one with: rota token create NAME --role …")


@command.command()
@name_argument
@click.option(
    "--role", type=click.Choice([str(access) for access in Access]), required=True, help="The token's rights."
)
@expires_option
@file_option
@options.fleet
@options.output(Shape.OBJECT)
def create(name: str, role: str, expires_in: timedelta | None, file: Path | None, fleet: FleetTarget) -> None:
    """Make a token and print it; it cannot be shown again.

    `view` reads, `operate` changes what the fleet runs, `admin` manages tokens, jobs and hooks, `node` is for nodes.

    Example: rota token create grafana --role view --expires-in 90d
    """
    made = ask(fleet, tokens.create_token, SYSTEM, name, role, by=me(), expires_in=expires_in)
    _hand_out(made, file)


@command.command()
@name_argument
@click.option("--keep-old", type=Duration(), metavar="DURATION", help="How long the old one stays valid.")
@expires_option
@file_option
@options.fleet
@options.output(Shape.OBJECT)
def rotate(
    name: str, keep_old: timedelta | None, expires_in: timedelta | None, file: Path | None, fleet: FleetTarget
) -> None:
    """Replace a token by a new one, and print it.

    The new token is valid as long as the old one was, unless --expires-in is given.

    Example: rota token rotate grafana --keep-old 1h
    """
    made = ask(fleet, tokens.rotate_token, SYSTEM, name, by=me(), keep_old=keep_old, expires_in=expires_in)
    _hand_out(made, file)


@command.command()
@name_argument
@options.fleet
@options.output(Shape.OBJECT)
def revoke(name: str, fleet: FleetTarget) -> None:
    """Revoke a token: every node refuses it a moment later.

    Example: rota token revoke grafana
    """
    tables.answer(ask(fleet, tokens.revoke_token, SYSTEM, name))
    tables.say(f"token {name} is revoked")


def _hand_out(made: NewToken, file: Path | None) -> None:
    """Write the token alone to stdout or a file, and the rest of the message to stderr."""
    until = f"until {made.expires:%Y-%m-%d %H:%M} UTC" if made.expires else "until it is revoked"
    if file is None:
        tables.answer(made)
        tables.say(made.token)
        where = "printed above, and cannot be shown again"
    else:
        write_secret(file, made.token)
        shown = {name: value for name, value in msgspec.to_builtins(made).items() if name != "token"}
        tables.answer({**shown, "file": str(file)})
        where = f"written to {file}"
    tables.say(f"token {made.name} has the role {made.access} {until}; it is {where}", err=True)


def _row(view: TokenView) -> tuple[str, ...]:
    state = "good" if view.is_good else "revoked" if view.revoked else "expired"
    expires = f"{view.expires:%Y-%m-%d %H:%M}" if view.expires else "-"
    return view.name, str(view.access), state, f"{view.made:%Y-%m-%d %H:%M}", view.by, expires
