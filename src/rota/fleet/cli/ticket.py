"""`rota ticket`: one line with which a new machine joins."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import click

from rota.cli import options, settings
from rota.cli.options import Duration, Shape
from rota.cli.reach.on_store import audited
from rota.cli.reach.who import me
from rota.cli.terminal import tables
from rota.cli.verbs import ListingGroup
from rota.fleet.access import certificates, tickets
from rota.fleet.access import tokens as token
from rota.fleet.core.access.ticket import Admission
from rota.model import keys
from rota.model import url as urls
from rota.model.config import NodeConfig, TokenReference, check_node_id, is_loopback
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.model.node import FleetRecord
from rota.store import Store, open_store
from rota.store.records import understood

HEADINGS = "TICKET", "NODE", "MADE", "BY", "EXPIRES", "STATE"
T = TypeVar("T")


@click.group(cls=ListingGroup)
def command() -> None:
    """Make, list and revoke tickets, with which new machines join.

    `rota ticket` alone is `rota ticket ls`.
    """


@command.command()
@options.store
@options.output(Shape.LIST)
def ls(store: str) -> None:
    """List the tickets, with their states.

    Example: rota ticket ls
    """
    found = on_both(store, lambda _, raw: tickets.listed(raw))
    tables.answer(found)
    rows = []
    for each in found:
        state = "revoked" if each.revoked else f"used by {each.used_by}" if each.used else "not used"
        made, expires = f"{each.made:%Y-%m-%d %H:%M}", f"{each.expires:%Y-%m-%d %H:%M}"
        rows.append((each.id, each.node, made, each.by, expires, state))
    tables.show(HEADINGS, rows, "no tickets; make one with: rota ticket create NODE")


@command.command()
@click.argument("node", metavar="NODE")
@click.option("--token", "reference", metavar="REFERENCE", help="The fleet's token: file:PATH or env:NAME.")
@click.option("--tls", type=click.Path(path_type=Path, file_okay=False), help="Folder with the new node's certificate.")
@click.option("--insecure", is_flag=True, help="The fleet has no TLS: for a network that only you use.")
@click.option("--expires-in", type=Duration(), default="15m", show_default=True, help="How long the ticket is valid.")
@options.store
@options.output(Shape.OBJECT)
def create(
    node: str, reference: str | None, tls: Path | None, insecure: bool, expires_in: timedelta, store: str
) -> None:
    """Make a ticket for a new node, and show it: one line for `rota join` on the other machine.

    It can be used once, within a short time. Anyone who has the line and reaches the store can join with it.

    Example: rota ticket create b --token file:.rota/nodes/a/token --tls tls/b
    """
    check_node_id(node)
    if bool(tls) == insecure:
        raise Invalid(
            f"say how nodes reach each other: --tls FOLDER with a certificate (rota tls issue {node} --host HOST), "
            f"or --insecure on a network of your own"
        )
    _check_shared(store)
    reference = reference or settings.look_up(NodeConfig, {})["token"].value
    if reference is None:
        raise Invalid("the fleet's token is not given; use --token file:PATH; the first node has it in its data folder")
    admission = Admission(token=token.find(TokenReference(reference), Path()).text, files=_files(tls) if tls else {})

    async def make(audited: Store, raw: Store) -> tickets.Ticket:
        fleet = understood(FleetRecord, await raw.get(keys.FLEET))
        name = fleet.name if fleet and fleet.is_named else ""
        made = tickets.fresh(store=without_password(store), node=NodeId(node), fleet=name, insecure=insecure)
        await tickets.create(audited, raw, made, admission, by=me(), expires_in=expires_in)
        return made

    made = on_both(store, make)
    tables.answer({"id": made.id, "node": made.node, "ticket": made.line()})
    tables.say(made.line())
    tables.say(f"ticket {made.id} is good once, for node {node}; there: rota join TICKET app.py", err=True)


@command.command()
@click.argument("id", metavar="ID")
@options.store
@options.output(Shape.OBJECT)
def revoke(id: str, store: str) -> None:
    """Revoke an unused ticket.

    Example: rota ticket revoke 5d1f0c2a
    """
    on_both(store, lambda audited, raw: tickets.revoke(audited, raw, id))
    tables.answer({"id": id, "revoked": True})
    tables.say(f"ticket {id} is revoked")


def on_both(url: str, work: Callable[[Store, Store], Awaitable[T]]) -> T:
    """What `work` returns, given the store with the audit trail and without."""

    async def run() -> T:
        async with open_store(url, create=False) as store:
            return await work(audited(store), store)

    return asyncio.run(run())


def _files(folder: Path) -> dict[str, str]:
    found = certificates.Folder(folder)
    found.check()
    names = (certificates.CERT, certificates.KEY, certificates.AUTHORITY)
    return {name: (folder / name).read_text() for name in names}


def without_password(url: str) -> str:
    """A store's URL as the ticket has it: with its user, and without the password, which goes up to the last @."""
    scheme, _, rest = url.partition("://")
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    credentials, at, hosts = authority.rpartition("@")
    return f"{scheme}://{credentials.partition(':')[0]}{at}{hosts}{rest[len(authority) :]}"


def _check_shared(url: str) -> None:
    """Invalid if the URL leads another machine to another store."""
    hosts = [host for host, _ in urls.parse(url, "store", "etcd://10.0.0.5:2379").addresses(1)]
    if not hosts or any(is_loopback(host) for host in hosts):
        shown = urls.without_passwords(url)
        raise Invalid(
            f"store {shown}: another machine does not reach it by this URL; write it with a host that all machines "
            f"reach, like etcd://10.0.0.5:2379 (Move to PostgreSQL or etcd is a page of its own)"
        )
