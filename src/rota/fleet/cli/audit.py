"""`rota audit`: who changed what, which requests were refused, and whether the trail is whole."""

from datetime import timedelta

import click

from rota.cli import options
from rota.cli.options import Duration, Shape
from rota.cli.reach.fleet import ask
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.cli.verbs import ListingGroup
from rota.fleet.core.audit.record import Changed
from rota.fleet.doors import audit
from rota.fleet.doors.audit import AuditLine
from rota.kit.text.plain import plain
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Invalid

HEADINGS = "LINK", "TIME", "BY", "FROM", "WHAT", "OUTCOME"


@click.group(cls=ListingGroup)
def command() -> None:
    """Show who changed what, and check that the trail is whole.

    `rota audit` alone is `rota audit ls`.
    """


@command.command()
@click.option("--since", type=Duration(), metavar="DURATION", help="Only entries younger than this.")
@click.option("--by", default="", metavar="NAME", help="Only entries of this token or user.")
@click.option("--refused", is_flag=True, help="Only refusals.")
@click.option(
    "--limit", type=click.IntRange(1, audit.MAX_PAGE), default=audit.PAGE, show_default=True, help="How many."
)
@click.option("--changes", is_flag=True, help="Also show the state before and after.")
@options.fleet
@options.output(Shape.LIST)
def ls(since: timedelta | None, by: str, refused: bool, limit: int, changes: bool, fleet: FleetTarget) -> None:
    """List the newest entries of the audit trail, the oldest of them first.

    Example: rota audit --refused --since 1h
    """
    start = SYSTEM.wall() - since if since else None
    found = ask(fleet, audit.read_audit, limit=limit, by=by, refused=refused, since=start).entries
    tables.answer(found)
    lines = tables.table(HEADINGS, [_row(line) for line in found]) if found else ["the trail has no such entries"]
    tables.say(lines[0])
    for text, line in zip(lines[1:], found, strict=False):
        tables.say(text)
        for changed in line.entry.changes if changes else ():
            tables.say(_change(changed))


@command.command()
@click.option("--noted", default="", metavar="HASH", help="A head that you noted: it must still be in the chain.")
@options.fleet
@options.output(Shape.OBJECT)
def verify(noted: str, fleet: FleetTarget) -> None:
    """Check that no entry of the trail was changed or removed; exit code 2 if one was.

    Exit code 1: the existing links are intact, but the noted hash may belong to a link that retention has deleted.

    Example: rota audit verify --noted 9f2c…
    """
    verdict = ask(fleet, audit.verify_audit, noted=noted)
    tables.answer(verdict)
    if not verdict.is_whole:
        raise Invalid(
            f"the audit trail is not whole: {verdict.flaw}; keep a copy of the store, and find out who did it"
        )
    tables.say(f"{verdict.links} links are whole, {verdict.waiting} entries wait to be sealed")
    tables.say(f"head: {verdict.head or '-'}")
    if verdict.doubt:
        tables.say(f"rota: {verdict.doubt}", err=True)
        raise click.exceptions.Exit(1)


def _row(line: AuditLine) -> tuple[str, ...]:
    entry = line.entry
    times = f" ({entry.count} times)" if entry.count > 1 else ""
    keys = ", ".join(changed.key for changed in entry.changes[:3])
    more = f" and {len(entry.changes) - 3} more" if len(entry.changes) > 3 else ""
    outcome = f"refused{times}: {entry.refused}" if entry.refused else f"{keys}{more}" or "done"
    number = str(line.number) if line.number else "-"
    return number, f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.by or "-", entry.origin, entry.what, plain(outcome)


def _change(changed: Changed) -> str:
    return "\n".join(
        f"    {sign} {changed.key} {plain(text)}"
        for sign, text in (("-", changed.before), ("+", changed.after))
        if text is not None
    )
