"""`rota context`: the fleets that this user has logged in to."""

import click
import msgspec

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import contexts, names
from rota.cli.terminal import tables
from rota.cli.verbs import ListingGroup


@click.group(cls=ListingGroup)
def command() -> None:
    """Show the fleets that rota login knows, and choose one.

    `rota context` alone is `rota context ls`.
    """


@command.command()
@options.output(Shape.LIST)
def ls() -> None:
    """List the contexts; * marks the one that commands use if nothing else names a fleet.

    Example: rota context ls
    """
    found = contexts.read()
    views = [
        {"name": name, "server": each.server, "ca": each.ca, "is_current": name == found.current}
        for name, each in sorted(found.contexts.items())
    ]
    tables.answer(views)
    rows = [(f"{each['name']}{' *' if each['is_current'] else ''}", str(each["server"])) for each in views]
    tables.show(("CONTEXT", "SERVER"), rows, "no contexts; make one with: rota login URL")


@command.command()
@click.argument("name", metavar="NAME", shell_complete=names.contexts)
@options.output(Shape.OBJECT)
def use(name: str) -> None:
    """Switch to another context.

    Example: rota context use prod
    """
    with contexts.changing():
        found = contexts.read()
        chosen = contexts.known(found, name)
        contexts.write(msgspec.structs.replace(found, current=name))
    tables.answer({"name": name, "server": chosen.server, "ca": chosen.ca, "is_current": True})
    tables.say(f"context {name}: {chosen.server} is used from now on")


@command.command()
@click.argument("name", metavar="NAME", shell_complete=names.contexts)
@options.output(Shape.OBJECT)
def rm(name: str) -> None:
    """Delete a saved context and its token; the server accepts the token until it is revoked.

    Example: rota context rm prod
    """
    with contexts.changing():
        found = contexts.read()
        contexts.known(found, name)
        kept = {each: context for each, context in found.contexts.items() if each != name}
        contexts.write(contexts.Contexts(current=None if found.current == name else found.current, contexts=kept))
    tables.answer(tables.deleted(name))
    tables.say(f"deleted context {name}")
