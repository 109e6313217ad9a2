"""`rota jobs`: what is to be done, and when.

Each verb reaches the fleet through the doors of a node, or through the store, which needs no running node.
"""

from datetime import datetime, timedelta
from typing import Any

import click
import msgspec

from rota.cli import flags, options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import ask, ask_and_show, every, on_fleet
from rota.cli.reach.targets import FleetTarget
from rota.cli.reach.who import me
from rota.cli.terminal import tables
from rota.cli.verbs import Verbs
from rota.jobs.cli.runs import finished, run_line
from rota.jobs.core.records import JobSpec
from rota.jobs.core.spec import PROGRAM
from rota.jobs.doors import operations as job_operations
from rota.jobs.doors import run_operations
from rota.jobs.doors.answers import DueTime, JobView
from rota.model.errors import Invalid

ADDED = tuple(option for option in PROGRAM if option.name not in ("name", "argv"))
"""The options that describe a job to add."""

job_argument = click.argument("job", metavar="JOB", shell_complete=names.jobs)


@click.group(cls=Verbs)
def command() -> None:
    """Add, run and look at jobs."""


@command.command()
@options.fleet
@options.output(Shape.LIST)
@click.option("--prefix", metavar="TEXT", default="", help="Only those whose name starts with this.")
def ls(prefix: str, fleet: FleetTarget) -> None:
    """List the jobs with their next due time and the result of the last run.

    Example: rota jobs ls
    """
    found = on_fleet(fleet, lambda open: every(open, "job", job_operations.list_jobs, prefix=prefix))
    headings = "JOB", "SCHEDULE", "NEXT", "LIVE", "LAST", "FROM"
    tables.listed(found, headings, _row, "no such jobs; declare one in an app, or: rota jobs add")


@command.command()
@job_argument
@options.fleet
@options.output(Shape.OBJECT)
def get(job: str, fleet: FleetTarget) -> None:
    """Show one job with its state.

    Example: rota jobs get report -o json
    """
    _show(ask(fleet, job_operations.get_job, job))


@command.command()
@job_argument
@click.argument("words", nargs=-1, required=True, metavar="WORDS…")
@flags.flags(JobSpec, ADDED, {"after": names.jobs})
@click.option(
    "--version", type=click.IntRange(min=0), metavar="VERSION", help="Only if it has this version; 0: is new."
)
@options.fleet
@options.output(Shape.OBJECT)
def add(job: str, words: tuple[str, ...], version: int | None, fleet: FleetTarget, **given: Any) -> None:
    """Add a job that runs a program, or change one that was added so.

    Write the program and its arguments after --.

    Example: rota jobs add backup --cron "0 3 * * *" --tz Asia/Shanghai -- pg_dump -Fc shop
    """
    fields = {"name": job, "argv": list(words), **flags.given(ADDED, given)}
    view = ask(fleet, job_operations.put_job, fields, by=me(), version=version)
    _show(view)


@command.command()
@job_argument
@options.fleet
@options.output(Shape.OBJECT)
def rm(job: str, fleet: FleetTarget) -> None:
    """Delete an added job. Its running runs continue to their end, and the history stays.

    Example: rota jobs rm backup
    """
    ask(fleet, job_operations.delete_job, job, by=me())
    tables.answer(tables.deleted(job))
    tables.say(f"deleted {job}")


@command.command()
@job_argument
@options.fleet
@options.output(Shape.OBJECT)
def enable(job: str, fleet: FleetTarget) -> None:
    """Enable a job's schedule again, from now on."""
    _show(ask(fleet, job_operations.enable_job, job, by=me()))


@command.command()
@job_argument
@options.fleet
@options.output(Shape.OBJECT)
def disable(job: str, fleet: FleetTarget) -> None:
    """Disable a job's schedule; it can still be started by hand."""
    _show(ask(fleet, job_operations.disable_job, job, by=me()))


@command.command()
@job_argument
@click.option("--payload", metavar="JSON", help="What its function is given.")
@click.option("--no-wait", is_flag=True, help="Do not wait for its end.")
@click.option("--timeout", type=options.Duration(), default="1m", show_default=True, help="How long to wait.")
@options.fleet
@options.output(Shape.OBJECT)
def run(job: str, payload: str | None, no_wait: bool, timeout: timedelta, fleet: FleetTarget) -> None:
    """Start a run of a job now, and wait for its end.

    The exit code is 1 if the run failed, and 6 if it did not end in time; the run then continues.

    Example: rota jobs run report --payload '{"day": "2026-11-16"}'
    """
    given = _payload(payload)
    wait = None if no_wait else timeout
    view = ask(fleet, run_operations.run_job, job, by=me(), payload=given, wait=wait)
    tables.answer(view)
    tables.say(run_line(view))
    finished(view, wait)


@command.command()
@job_argument
@click.option("--count", type=click.IntRange(min=1), default=10, show_default=True, help="How many due times.")
@click.option("--after", metavar="TIME", help="From when on, like 2026-03-29T00:00Z.  [default: now]")
@options.fleet
@options.output(Shape.LIST)
def preview(job: str, count: int, after: str | None, fleet: FleetTarget) -> None:
    """Show when a job is due next; times where clocks change are marked.

    Example: rota jobs preview report --count 20
    """
    start = None if after is None else moment("--after", after)
    found = ask(fleet, job_operations.preview_job, job, count=count, after=start)
    tables.listed(found, ("DUE (UTC)", "LOCAL", ""), _due, "the clock does not say when it is due")


@command.command()
@job_argument
@click.argument("first", metavar="FIRST")
@click.argument("last", metavar="LAST")
@click.option("--preview", "is_preview", is_flag=True, help="Show the runs that would be made, and make none.")
@click.option("--force", is_flag=True, help="Also due times that may have run and whose records were deleted.")
@options.fleet
@options.output(Shape.LIST)
def backfill(job: str, first: str, last: str, is_preview: bool, force: bool, fleet: FleetTarget) -> None:
    """Make the runs of due times between two moments that had none.

    Example: rota jobs backfill report 2026-11-01T00:00Z 2026-11-08T00:00Z
    """
    start, end = moment("FIRST", first), moment("LAST", last)
    if is_preview:
        runs = ask(fleet, job_operations.preview_backfill, job, start, end, is_forced=force)
    else:
        runs = ask_and_show(
            fleet, f"backfilling {job}", job_operations.backfill_job, job, start, end, by=me(), is_forced=force
        )
    tables.answer(runs)
    for run_id in runs:
        tables.say(run_id)
    tables.say(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} {'would be made' if is_preview else 'made'}")


def moment(option: str, text: str) -> datetime:
    """The moment that a text names; UsageError says how to write one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise click.UsageError(f'{option} "{text}" is no time with its zone; write one like 2026-01-31T12:00Z')
    return found


def _show(view: JobView) -> None:
    tables.answer(view)
    tables.facts(_about(view))


def _about(view: JobView) -> dict[str, str]:
    options = {name: value for name, value in view.spec.items() if name not in ("cron", "every", "tz", "after", "argv")}
    return {
        "job": view.name,
        "version": str(view.version),
        "from": _origin(view),
        "schedule": view.schedule,
        "program": " ".join(view.spec.get("argv", ())),
        "options": msgspec.json.encode(options).decode(),
        "next": _next(view),
        "live": f"{view.live} {'run' if view.live == 1 else 'runs'}",
        "last": run_line(view.last) if view.last else "",
        "changed": f"{view.at:%Y-%m-%d %H:%M:%S} UTC by {view.by or 'unknown'}",
    }


def _row(view: JobView) -> tuple[str, ...]:
    last = f"{view.last.state} {view.last.ended:%m-%d %H:%M:%S}" if view.last and view.last.ended else ""
    return view.name, view.schedule, _next(view), str(view.live or ""), last, _origin(view)


def _next(view: JobView) -> str:
    if not view.enabled:
        return "disabled"
    return f"{view.next:%Y-%m-%d %H:%M:%S}" if view.next else ""


def _origin(view: JobView) -> str:
    return f"app {view.app}" if view.app else str(view.origin)


def _due(each: DueTime) -> tuple[str, ...]:
    return f"{each.due:%Y-%m-%d %H:%M:%S}", f"{each.local:%Y-%m-%d %H:%M:%S %Z}", each.odd


def _payload(text: str | None) -> object:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"--payload is not JSON: {error}") from None
