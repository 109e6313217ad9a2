"""`rota runs`: what jobs did, what they do, and their output."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import FleetClient, StoreFleet, ask, on_fleet
from rota.cli.reach.targets import FleetTarget
from rota.cli.reach.who import me
from rota.cli.terminal import tables
from rota.cli.verbs import Verbs
from rota.jobs.core.records import RunState
from rota.jobs.doors import run_operations, run_output
from rota.jobs.doors import why as job_why
from rota.jobs.doors.answers import RunPage, RunView
from rota.kit.text.plain import Colours
from rota.kit.time import durations
from rota.model.errors import NotFound, RotaError, Unknown

LOOKED = 20_000
"""Runs that one command reads to find those in a state, or of a node."""

logs_option = click.option(
    "--logs", "place", metavar="URL", help="Where the fleet keeps logs: folder:///srv/rota, as the nodes have it."
)
run_argument = click.argument("run", metavar="RUN", shell_complete=names.runs)


@click.group(cls=Verbs)
def command() -> None:
    """Look at runs and their output, stop them, and do them again."""


@command.command()
@click.option("--job", metavar="JOB", shell_complete=names.jobs, help="Only of this job.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state; may be repeated.")
@click.option("--node", metavar="ID", help="Only runs of which this node had an attempt.")
@click.option("--since", type=options.Since(), metavar="DURATION|TIME", help="Only runs due this long ago, or later.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--page", "after", metavar="TEXT", help="Continue after this run, as the previous page said.")
@options.fleet
@options.output(Shape.PAGE)
def ls(
    job: str | None,
    states: tuple[str, ...],
    node: str | None,
    since: timedelta | datetime | None,
    limit: int,
    after: str | None,
    fleet: FleetTarget,
) -> None:
    """List runs: unfinished runs first, then the newest.

    With --state or --node it reads up to 20,000 runs to find matching ones, and prints where to continue. A TIME is
    like 2026-11-16 or 2026-11-16T03:00Z.

    Example: rota runs ls --job report --state failed --since 2h
    """

    async def listed(open: FleetClient) -> RunPage:
        start = await options.start(open.now, since)
        look = partial(open.do, run_operations.list_runs, job=job, states=states, node=node, since=start)
        return await open.do(job_why.explained, await _list(look, limit, after))

    page = on_fleet(fleet, listed)
    tables.answer({"items": page.runs, "next": page.next, "looked_at": page.looked_at})
    headings = "RUN", "STATE", "NODE", "STARTED", "TOOK", "WHY"
    tables.show(headings, [_row(view) for view in page.runs], "no such runs")
    if page.next:
        looked = f"looked at {page.looked_at} runs" if page.looked_at > len(page.runs) else "there are more"
        tables.say(f"{looked}; go on with --page {page.next}", err=True)


async def _list(look: Callable[..., Awaitable[RunPage]], limit: int, token: str | None) -> RunPage:
    """One page: a full one, the last one, or what was found in `LOOKED` runs: there is no index of runs by state or
    node."""
    runs: list[RunView] = []
    looked_at = 0
    while True:
        page = await look(limit=limit - len(runs), token=token)
        runs += page.runs
        token, looked_at = page.next, looked_at + page.looked_at
        if token is None or len(runs) == limit or looked_at >= LOOKED:
            return RunPage(runs=tuple(runs), next=token, looked_at=looked_at)


@command.command()
@run_argument
@options.fleet
@options.output(Shape.OBJECT)
def get(run: str, fleet: FleetTarget) -> None:
    """Show one run, with its attempts.

    Example: rota runs get report/20261116T030000.000Z
    """

    async def shown(open: FleetClient) -> RunView:
        return await open.do(job_why.explained_run, await open.do(run_operations.get_run, run))

    view = on_fleet(fleet, shown)
    tables.answer(view)
    tables.facts(_about(view))


@command.command()
@run_argument
@click.option("--no-wait", is_flag=True, help="Do not wait for its end.")
@click.option("--timeout", type=options.Duration(), default="1m", show_default=True, help="How long to wait.")
@options.fleet
@options.output(Shape.OBJECT)
def restart(run: str, no_wait: bool, timeout: timedelta, fleet: FleetTarget) -> None:
    """Repeat a finished run, as a new run.

    The exit code is 1 if the new run failed, and 6 if it did not end in time; it then continues.
    """
    wait = None if no_wait else timeout

    async def again(open: FleetClient) -> RunView:
        view = await open.do(run_operations.restart_run, run, by=me())
        return await open.do(run_operations.await_run, view.id, wait) if wait else view

    view = on_fleet(fleet, again)
    tables.answer(view)
    tables.say(run_line(view))
    finished(view, wait)


@command.command()
@run_argument
@click.option("--why", metavar="TEXT", default="", help="The reason, kept with the run.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is stopped.")
@click.option("--timeout", type=options.Duration(), default="30s", show_default=True, help="How long to wait.")
@options.fleet
@options.output(Shape.OBJECT)
def interrupt(run: str, why: str, no_wait: bool, timeout: timedelta, fleet: FleetTarget) -> None:
    """Stop a run with all its processes, and wait until they have ended.

    The exit code is 6 if it did not end in time.
    """
    wait = None if no_wait else timeout
    view = ask(fleet, run_operations.interrupt_run, run, by=me(), why=why, wait=wait)
    tables.answer(view)
    tables.say(run_line(view))
    if wait and not view.is_over:
        raise Unknown(f"run {run} is not over after {durations.render(wait)}; look again with: rota runs get {run}")


@command.command()
@run_argument
@logs_option
@options.fleet
@options.output(Shape.OBJECT)
def rm(run: str, place: str | None, fleet: FleetTarget) -> None:
    """Delete a finished run, with its output."""
    on_fleet(fleet, lambda open: open.do(run_operations.delete_run, open.logs, run), logs=place)
    tables.answer(tables.deleted(run))
    tables.say(f"deleted {run}")


@command.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=names.runs)
@click.option("--last", metavar="JOB", shell_complete=names.jobs, help="The newest run of this job.")
@click.option("-f", "--follow", is_flag=True, help="Print new output until the run has ended.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="Of this attempt, not of the newest.")
@click.option("--raw", is_flag=True, help="Print every byte unchanged on a terminal, too.")
@logs_option
@options.fleet
def logs(
    run: str | None,
    last: str | None,
    follow: bool,
    attempt: int | None,
    raw: bool,
    place: str | None,
    fleet: FleetTarget,
) -> None:
    """Print a run's output.

    On a terminal, colours are kept, and other control characters are escaped, unless --raw is given.
    Elsewhere every byte is printed unchanged.

    Example: rota runs logs --last report -f
    """
    print_log(run, last, follow, attempt, raw, place, fleet)


def print_log(
    run: str | None,
    last: str | None,
    follow: bool,
    attempt: int | None,
    raw: bool,
    place: str | None,
    fleet: FleetTarget,
) -> None:
    """Print what a run has put out, or the newest run of the job `last`."""
    if (run is None) == (last is None):
        raise click.UsageError("name a run, or the job whose newest run is meant: --last JOB")

    out = _Output(raw or not sys.stdout.isatty())

    async def show(open: FleetClient) -> None:
        await _show_log(open, out, run or await _newest(open, last or ""), follow, attempt)

    try:
        on_fleet(fleet, show, logs=place)
    finally:
        out.end()


async def _newest(fleet: FleetClient, job: str) -> str:
    """The run of a job that was due last; NotFound if it never ran."""
    page = await fleet.do(run_operations.list_runs, job=job, limit=1)
    if not page.runs:
        raise NotFound(f'job "{job}" has no runs yet; start one with: rota jobs run {job}')
    return page.runs[0].id


async def _show_log(open: FleetClient, out: "_Output", run: str, follow: bool, attempt: int | None) -> None:
    # The last output of a run is kept a moment after the run is over.
    if not follow and not (await open.do(run_operations.get_run, run)).is_over:
        offset = 0
        while True:
            part = await open.do(run_output.read_log, open.logs, run, attempt=attempt, offset=offset)
            out.write(part.data)
            offset = part.next
            if not part.data:
                _say_if_elsewhere(open, offset)
                return
    if attempt is None:  # the newest one now: when it has ended, another may have begun
        attempt = (await open.do(run_output.read_log, open.logs, run)).attempt
    end = 0
    async with aclosing(open.each(run_output.follow_log, open.logs, run, attempt=attempt)) as parts:
        async for part in parts:
            out.write(part.data)
            end = part.next
    if not (await open.do(run_output.read_log, open.logs, run, attempt=attempt, offset=end)).is_whole:
        tables.say("[rota: this may not be all: its node was lost before the end of the output was kept]", err=True)
        _say_if_elsewhere(open, end)


def _say_if_elsewhere(open: FleetClient, end: int) -> None:
    """Nothing was found here: print where the output may be, if nodes keep output for themselves."""
    if end == 0 and isinstance(open, StoreFleet) and not open.logs.is_shared:
        tables.say(
            "[rota: nothing of it is here; ask a node for it with --server URL, or name the place with --logs]",
            err=True,
        )


def finished(view: RunView, wait: timedelta | None) -> None:
    """Raise if a run that was waited for did not succeed."""
    if wait is None:
        return
    if not view.is_over:
        raise Unknown(f"run {view.id} is not over after {durations.render(wait)}; it goes on: rota runs get {view.id}")
    if view.state is not RunState.SUCCEEDED:
        raise RotaError(
            f"run {view.id} {view.state}{f': {view.error}' if view.error else ''}; see: rota runs logs {view.id}"
        )


def run_line(view: RunView) -> str:
    """A run in one line."""
    parts = [view.id, str(view.state)]
    if view.node:
        parts.append(f"on {view.node}")
    if view.seconds is not None:
        parts.append(f"in {view.seconds:.2f} s")
    said = view.error or view.why
    return " ".join(parts) + (f": {said}" if said else "")


def _row(view: RunView) -> tuple[str, ...]:
    started = f"{view.started:%Y-%m-%d %H:%M:%S}" if view.started else ""
    took = f"{view.seconds:.2f}s" if view.seconds is not None else ""
    why = view.stop or view.error or view.why
    return view.id, str(view.state), view.node or "", started, took, why.partition("\n")[0][:100]


def _about(view: RunView) -> dict[str, str]:
    shown = {
        "run": view.id,
        "state": view.state
        + (f": {view.stop or view.error or view.why}" if view.stop or view.error or view.why else ""),
        "due": f"{view.due:%Y-%m-%d %H:%M:%S} UTC",
        "cause": view.cause + (f" of {view.of}" if view.of else "") + (f" by {view.by}" if view.by else ""),
        "node": view.node or "",
        "attempt": str(view.attempt),
        "started": f"{view.started:%Y-%m-%d %H:%M:%S} UTC" if view.started else "",
        "took": f"{view.seconds:.2f} s" if view.seconds is not None else "",
        "exit code": "" if view.exit_code is None else str(view.exit_code),
        "cpu": f"{view.cpu_seconds:.2f} s" if view.cpu_seconds else "",
        "memory": f"{view.peak_memory / 2**20:.1f} MiB" if view.peak_memory else "",
        "output": f"{view.log_bytes} bytes" if view.log_bytes else "",
    }
    if view.skipped:
        shown["skipped"] = f"{view.skipped.count} due times from {view.skipped.first:%Y-%m-%d %H:%M:%S} on"
    for each in view.earlier:
        shown[f"attempt {each.attempt}"] = f"{each.outcome.state} on {each.node}: {each.outcome.error}"
    for each in view.late:
        shown[f"late {each.attempt}"] = f"{each.outcome.state} on {each.node}, too late to count"
    return shown


class _Output:
    """Prints bytes as they are, or only what is safe for a terminal."""

    def __init__(self, is_raw: bool) -> None:
        self._colours = None if is_raw else Colours()

    def write(self, data: bytes) -> None:
        self._put(data if self._colours is None else self._colours.take(data))

    def end(self) -> None:
        if self._colours is not None:
            self._put(self._colours.end())

    def _put(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
