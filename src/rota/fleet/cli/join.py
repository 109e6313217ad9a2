"""`rota join`: a new machine, with a ticket."""

import os
import platform
import shlex
import sys
from pathlib import Path

import click

from rota.cli.reach.who import me
from rota.cli.terminal import tables
from rota.fleet.access import tickets
from rota.fleet.access import tokens as token
from rota.fleet.cli.ticket import on_both
from rota.fleet.core.access.ticket import Admission
from rota.kit.files import fsync_folder, make_folder, write_secret
from rota.model.errors import Conflict, Denied, Invalid
from rota.store import Store

TLS = "tls"


@click.command()
@click.argument("ticket")
@click.argument("app", required=False)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="The node's folder on its own disk.")
@click.option("--store", metavar="URL", help="The fleet's store, if this machine reaches it by another URL.")
def command(ticket: str, app: str | None, data: Path | None, store: str | None) -> None:
    """Make this machine a node of a fleet, with a ticket from `rota ticket create`.

    The ticket is exchanged for the fleet's token and the node's certificate, which are kept in the data folder. With an
    APP the node then runs, as `rota node` does. A TICKET of - is read from stdin.

    Example: rota join rota-ticket-eyJpZCI6… app.py
    """
    found = tickets.read(sys.stdin.readline() if ticket == "-" else ticket)
    if app is not None and app.partition(":")[0].endswith(".py") and not Path(app.partition(":")[0]).exists():
        raise Invalid(
            f"app {app}: there is no such file here; bring it to this machine first. The ticket is still good"
        )
    folder, url = data or Path(".rota/nodes") / found.node, store or found.store
    if (folder / token.FILE).exists():
        raise Conflict(f"{folder} has a token already, so it is a node's; choose another folder with --data")
    try:
        make_folder(folder)
        folder.chmod(0o700)
    except OSError as error:
        raise Denied(f"folder {folder}: {error.strerror}; choose another with --data") from error
    by = f"{me()} on {platform.node()}"

    async def join(audited: Store, raw: Store) -> Admission:
        laid = _lay(folder, await tickets.opened(raw, found))
        try:
            admission = await tickets.spend(audited, raw, found, by=by)
        except BaseException:
            laid.unlink(missing_ok=True)
            raise
        laid.replace(folder / token.FILE)  # last: with it the folder is a node's
        return admission

    admission = on_both(url, join)
    argv = ["node", "--store", url, "--id", found.node, "--data", str(folder)]
    argv += ["--fleet", found.fleet] if found.fleet else []
    if admission.files:
        argv += ["--tls", str(folder / TLS)]
    elif found.insecure:
        argv += ["--insecure"]
    shown = shlex.join(["rota", *argv, app or "APP"])
    tables.say(f"this machine is node {found.node}; from now on start it with: {shown}", err=True)
    if app is not None:
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, "-P", "-m", "rota", *argv, "--", app])


def _lay(folder: Path, admission: Admission) -> Path:
    """Write the ticket's content before it is spent, as the disk may be full; returns the path of the token until
    then."""
    laid = folder / f"{token.FILE}.{os.getpid()}.joining"
    try:
        if admission.files:
            make_folder(folder / TLS)
        for name, text in admission.files.items():
            write_secret(folder / TLS / Path(name).name, text.rstrip("\n"))
        write_secret(laid, admission.token)
        fsync_folder(folder)
    except OSError as error:
        raise Denied(
            f"folder {folder}: {error.strerror}; make room, or choose another with --data. The ticket is still good"
        ) from error
    return laid
