"""`rota why`: the reasons behind where things are."""

from collections.abc import Iterator

import click

from rota.api import operations
from rota.api.schema import Why
from rota.cli import options, tables
from rota.cli.on_store import on_store

HELD = 20
"""Tasks of a node that people are shown; programs get all."""


@click.command()
@click.argument("thing", metavar="THING")
@options.store
@options.output
def command(thing: str, store: str, output: str) -> None:
    """Say why a resource is where it is, or why a node has what it has.

    THING is a resource, as kind/id, or a node.

    Example: rota why room/21452505
    """
    told = on_store(store, lambda open: operations.why(open, thing))
    if output == "json":
        tables.show_json(told)
        return
    for line in _lines(told):
        click.echo(line)


def _lines(told: Why) -> Iterator[str]:
    yield f"{told.thing}: {told.says}"
    for node, why in told.chosen.items():
        yield f"  on {node}: {why}"
    for thing, why in told.refusals.items():
        yield f"  not {'on ' if '/' in told.thing else ''}{thing}: {why}"
    for task in told.holds[:HELD]:
        yield f"  has {task}"
    if len(told.holds) > HELD:
        yield f"  and {len(told.holds) - HELD} more"
