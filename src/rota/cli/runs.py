"""`rota runs`: what jobs did, what they do, and what they put out."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from rota.api import job_operations as operations
from rota.api import job_why
from rota.api.job_schema import RunPage, RunView
from rota.cli import options, tables
from rota.cli.on_store import audited, on_store
from rota.cli.who import me
from rota.kit import durations
from rota.model.errors import RotaError, Unknown
from rota.model.job import RunState
from rota.store import Store, open_store
from rota.store.logs.open import open_logs
from rota.store.logs.port import Logs

T = TypeVar("T")
LOOKED = 20_000
"""Runs that one command reads for those in a state."""

logs_option = click.option(
    "--logs", "place", metavar="URL", help="Where the fleet keeps logs: folder:///srv/rota, as the nodes have it."
)
run_argument = click.argument("run", metavar="RUN")


@click.group()
def command() -> None:
    """Look at runs and their output, stop them, and do them again."""


@command.command()
@click.option("--job", metavar="JOB", help="Only of this job.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state; may be repeated.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--token", metavar="TEXT", help="Go on behind this run, as the last page said.")
@options.store
@options.output
def ls(job: str | None, states: tuple[str, ...], limit: int, token: str | None, store: str, output: str) -> None:
    """List runs: those that are not over, then the newest.

    With --state it reads up to 20,000 runs for those in the state, and says where to go on.

    Example: rota runs ls --job report --state failed
    """
    page = on_store(store, partial(_list, job=job, states=states, limit=limit, token=token))
    if output == "json":
        tables.show_json(page)
        return
    headings = "RUN", "STATE", "NODE", "STARTED", "TOOK", "WHY"
    tables.show(headings, [_row(view) for view in page.runs], "no such runs")
    if page.next:
        looked = f"looked at {page.looked_at} runs" if page.looked_at > len(page.runs) else "there are more"
        click.echo(f"{looked}; go on with --token {page.next}", err=True)


async def _list(store: Store, job: str | None, states: tuple[str, ...], limit: int, token: str | None) -> RunPage:
    """A page that is full, the last one, or as far as `LOOKED` runs: there is no index of runs by state."""
    runs: list[RunView] = []
    looked_at = 0
    while True:
        page = await operations.list_runs(store, job=job, states=states, limit=limit - len(runs), token=token)
        runs += page.runs
        token, looked_at = page.next, looked_at + page.looked_at
        if token is None or len(runs) == limit or looked_at >= LOOKED:
            return await job_why.explained(store, RunPage(runs=tuple(runs), next=token, looked_at=looked_at))


@command.command()
@run_argument
@options.store
@options.output
def get(run: str, store: str, output: str) -> None:
    """Show one run, with its attempts.

    Example: rota runs get report/20261116T030000.000Z
    """

    async def shown(open: Store) -> RunView:
        return await job_why.explained_run(open, await operations.get_run(open, run))

    view = on_store(store, shown)
    if output == "json":
        tables.show_json(view)
        return
    for name, value in _about(view).items():
        if value:
            click.echo(f"{name:<9} {value}")


@command.command()
@run_argument
@click.option("--no-wait", is_flag=True, help="Do not wait for its end.")
@click.option("--timeout", type=options.Duration(), default="1m", show_default=True, help="How long to wait.")
@options.store
def restart(run: str, no_wait: bool, timeout: timedelta, store: str) -> None:
    """Do once more what a run that is over did.

    The exit code is 1 if the new run failed, and 6 if it was not over in time; it goes on then.
    """
    wait = None if no_wait else timeout

    async def again(open: Store) -> RunView:
        view = await operations.restart_run(open, run, by=me())
        return await operations.await_run(open, view.id, wait) if wait else view

    view = on_store(store, again)
    click.echo(run_line(view))
    finished(view, wait)


@command.command()
@run_argument
@click.option("--why", metavar="TEXT", default="", help="The reason, for those who look at it later.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is stopped.")
@click.option("--timeout", type=options.Duration(), default="30s", show_default=True, help="How long to wait.")
@options.store
def interrupt(run: str, why: str, no_wait: bool, timeout: timedelta, store: str) -> None:
    """Stop a run with all its processes, and wait until they are gone.

    The exit code is 6 if it was not over in time.
    """
    wait = None if no_wait else timeout
    view = on_store(store, lambda open: operations.interrupt_run(open, run, by=me(), why=why, wait=wait))
    click.echo(run_line(view))
    if wait and not view.is_over:
        raise Unknown(f"run {run} is not over after {durations.render(wait)}; look again with: rota runs get {run}")


@command.command()
@run_argument
@logs_option
@options.store
def rm(run: str, place: str | None, store: str) -> None:
    """Delete a run that is over, with its output."""
    _on_logs(store, place, lambda open, kept: operations.delete_run(open, kept, run))
    click.echo(f"deleted {run}")


@command.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="Of this attempt, not of the newest.")
@logs_option
@options.store
def logs(run: str, follow: bool, attempt: int | None, place: str | None, store: str) -> None:
    """Print what a run has put out.

    Example: rota runs logs -f report/20261116T030000.000Z
    """

    async def show(open: Store, kept: Logs) -> None:
        # The last of what a run put out is kept a moment after the run is over.
        if not follow and not (await operations.get_run(open, run)).is_over:
            offset = 0
            while True:
                part = await operations.read_log(open, kept, run, attempt=attempt, offset=offset)
                _print(part.data)
                offset = part.next
                if not part.data:
                    return
        end = 0
        async with aclosing(operations.follow_log(open, kept, run, attempt=attempt)) as parts:
            async for part in parts:
                _print(part.data)
                end = part.next
        if not (await operations.read_log(open, kept, run, attempt=attempt, offset=end)).is_whole:
            click.echo("[rota: this may not be all: its node was lost before the end of the output was kept]", err=True)

    _on_logs(store, place, show)


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


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _on_logs(url: str, place: str | None, work: Callable[[Store, Logs], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_store(url, create=False) as store:
            kept = open_logs(place, url, store, Path(".rota/logs"))
            try:
                return await work(audited(store), kept)
            finally:
                await kept.close()

    return asyncio.run(run())
