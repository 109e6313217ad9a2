"""`rota why`: the reasons behind where things are."""

from collections.abc import Iterator

import click

from rota.api import operations
from rota.api.schema import Why
from rota.cli import options, tables
from rota.cli.fleet import ask
from rota.cli.targets import Target

HELD = 20
"""Tasks of a node that people are shown; programs get all."""


@click.command()
@click.argument("thing", metavar="THING")
@click.argument("kind", metavar="[KIND]", required=False)
@options.fleet
@options.output
def command(thing: str, kind: str | None, fleet: Target, output: str) -> None:
    """Say why a resource is where it is, or why a node has what it has.

    THING is a resource, as kind/id, or a node; or `source`, and KIND the kind that it lists.

    Example: rota why room/21452505
    """
    if kind is None:
        told = ask(fleet, operations.why, thing)
    elif thing == "source":
        told = ask(fleet, operations.why_source, kind)
    else:
        raise click.UsageError(f"a kind comes after `source` only; for a resource write {thing}/{kind}")
    if output == "json":
        tables.show_json(told)
        return
    for line in _lines(told):
        tables.say(line)


def _lines(told: Why) -> Iterator[str]:
    yield f"{told.thing}: {told.says}"
    for node, why in told.chosen.items():
        yield f"  on {node}: {why}"
    for thing, why in told.refusals.items():
        yield f"  not {'on ' if '/' in told.thing else ''}{thing}: {why}"
    for node, what in told.remedies.items():
        yield f"  would go on {node}, if you {what}"
    for hint in told.reasons if "/" in told.thing else ():
        yield f"  {hint}"
    for task in told.holds[:HELD]:
        yield f"  has {task}"
    if len(told.holds) > HELD:
        yield f"  and {len(told.holds) - HELD} more"
