"""`rota events`: what happened in the fleet."""

from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from fnmatch import fnmatchcase

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import FleetClient, on_fleet
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.fleet.doors.event_operations import MAX_EVENTS, read_events
from rota.model.errors import Invalid
from rota.model.event import KINDS, Event
from rota.model.spec.checks import did_you_mean
from rota.views.watching import watch_events


@click.command()
@options.fleet
@click.option("-f", "--follow", is_flag=True, help="Then print new events, until interrupted.")
@click.option("--since", type=options.Duration(), help="Only events this old or newer.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind, such as worker.*; may be repeated."
)
@click.option("--node", metavar="ID", shell_complete=names.nodes, help="Only events that this node recorded.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0, MAX_EVENTS),
    default=50,
    show_default=True,
    help="At most this many, the newest.",
)
@options.output(Shape.LIST, lines_with="--follow", has_jsonl=True)
def command(
    fleet: FleetTarget,
    follow: bool,
    since: timedelta | None,
    kinds: tuple[str, ...],
    node: str | None,
    limit: int,
) -> None:
    """Show what happened in the fleet, the newest last.

    Times are by the clock of the node that recorded the event, in UTC.

    Example: rota events --store sqlite:///rota.db --kind 'worker.*' --since 1h -f
    """
    for kind in kinds:
        if not any(fnmatchcase(known, kind) for known in KINDS):
            raise Invalid(f'--kind "{kind}": no event has such a kind{did_you_mean(kind, KINDS) or _kinds()}')
    show = _Shown(is_one_list=tables.form() == "json" and not follow)
    try:
        on_fleet(fleet, lambda open: _run(open, follow, since, kinds, node, limit, show))
    finally:
        show.end()


def _kinds() -> str:
    families = sorted({kind.partition(".")[0] for kind in KINDS})
    return f"; there are {', '.join(f'{family}.*' for family in families)}"


async def _run(
    fleet: FleetClient,
    is_followed: bool,
    since: timedelta | None,
    kinds: tuple[str, ...],
    node: str | None,
    limit: int,
    show: Callable[[Event], None],
) -> None:
    start = await options.start(fleet.now, since)
    reading = await fleet.do(read_events, since=start, kinds=kinds, node=node, limit=limit)
    for event in reading.events:
        show(event)
    if not is_followed:
        return
    async with aclosing(fleet.each(watch_events, kinds=kinds, node=node, after=reading.revision)) as coming:
        async for batch in coming:
            for each in batch:
                if each.event is not None:
                    show(each.event)


class _Shown:
    """Prints events as they come, or one list in the end."""

    def __init__(self, *, is_one_list: bool) -> None:
        self._list: list[Event] | None = [] if is_one_list else None

    def __call__(self, event: Event) -> None:
        if self._list is not None:
            self._list.append(event)
            return
        tables.line(event)
        tables.say(f"{event.at:%Y-%m-%d %H:%M:%S}  {event.severity:<7}  {event.kind:<18}  {event.node}  {event.text}")

    def end(self) -> None:
        """Print what had to wait for the end."""
        if self._list is not None:
            tables.answer(self._list)
