"""`rota events`: what happened in the fleet."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta

import click
import msgspec

from rota.cli import options, tables
from rota.model.errors import Invalid
from rota.model.event import Event
from rota.store import Store, events, open_store


@click.command()
@options.store
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now, until interrupted.")
@click.option("--since", type=options.Duration(), help="Only what happened this long ago or later.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind, such as worker.*; may be repeated."
)
@click.option("--node", metavar="ID", help="Only what this node saw.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="At most this many, the newest."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "jsonl"]),
    default="table",
    show_default=True,
    help="For people or programs; json is one list, jsonl one object per line.",
)
def command(
    store: str, follow: bool, since: timedelta | None, kinds: tuple[str, ...], node: str | None, limit: int, output: str
) -> None:
    """Show what happened in the fleet, the newest last.

    Times are those of the node that saw it, in UTC.

    Example: rota events --store sqlite:///rota.db --kind 'worker.*' --since 1h -f
    """
    if follow and output == "json":
        raise click.UsageError("-o json is one list and ends; to follow, use -o jsonl or the table")
    show = _Shown(output)
    try:
        asyncio.run(_run(store, follow, since, kinds, node, limit, show))
    finally:
        show.end()


async def _run(
    url: str,
    is_followed: bool,
    since: timedelta | None,
    kinds: tuple[str, ...],
    node: str | None,
    limit: int,
    show: Callable[[Event], None],
) -> None:
    async with open_store(url, create=False) as store:
        reading = await _read(store, since, kinds, node, limit)
        for event in reading.events:
            show(event)
        if is_followed:
            async with aclosing(events.follow(store, reading.revision, kinds=kinds, node=node)) as coming:
                async for event in coming:
                    show(event)


async def _read(
    store: Store, since: timedelta | None, kinds: tuple[str, ...], node: str | None, limit: int
) -> events.Reading:
    start = None
    if since is not None:
        now = await store.now()
        try:
            start = now - since
        except OverflowError:
            raise Invalid("--since is before the beginning of time; leave it out to see everything") from None
    return await events.read(store, since=start, kinds=kinds, node=node, limit=limit)


class _Shown:
    """Prints events as they come, in one of the forms."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._list: list[Event] = []

    def __call__(self, event: Event) -> None:
        if self._output == "json":
            self._list.append(event)
        elif self._output == "jsonl":
            click.echo(msgspec.json.encode(event))
        else:
            tables.say(
                f"{event.at:%Y-%m-%d %H:%M:%S}  {event.severity:<7}  {event.kind:<18}  {event.node}  {event.text}"
            )

    def end(self) -> None:
        """Print what had to wait for the end."""
        if self._output == "json":
            click.echo(msgspec.json.format(msgspec.json.encode(self._list), indent=2).decode())
