"""`rota context`: the fleets that this user has logged in to."""

import click
import msgspec

from rota.cli import contexts, options, tables
from rota.cli.verbs import Listing


@click.group(cls=Listing)
def command() -> None:
    """Show the fleets that rota login knows, and choose one.

    `rota context` alone is `rota context ls`.
    """


@command.command()
@options.output
def ls(output: str) -> None:
    """List the contexts; * is the one that commands use where nothing else names a fleet.

    Example: rota context ls
    """
    found = contexts.read()
    views = [
        {"name": name, "server": each.server, "ca": each.ca, "is_current": name == found.current}
        for name, each in sorted(found.contexts.items())
    ]
    if output == "json":
        tables.show_json(views)
        return
    rows = [(f"{each['name']}{' *' if each['is_current'] else ''}", str(each["server"])) for each in views]
    tables.show(("CONTEXT", "SERVER"), rows, "no contexts; make one with: rota login URL")


@command.command()
@click.argument("name", metavar="NAME")
def use(name: str) -> None:
    """Have commands use another context.

    Example: rota context use prod
    """
    with contexts.changing():
        found = contexts.read()
        chosen = contexts.known(found, name)
        contexts.write(msgspec.structs.replace(found, current=name))
    tables.say(f"context {name}: {chosen.server} is used from now on")


@command.command()
@click.argument("name", metavar="NAME")
def rm(name: str) -> None:
    """Forget a context and its token; the server takes the token until it is revoked there.

    Example: rota context rm prod
    """
    with contexts.changing():
        found = contexts.read()
        contexts.known(found, name)
        kept = {each: context for each, context in found.contexts.items() if each != name}
        contexts.write(contexts.Contexts(current=None if found.current == name else found.current, contexts=kept))
    tables.say(f"context {name} is forgotten")
