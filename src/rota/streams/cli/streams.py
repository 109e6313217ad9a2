"""`rota streams`: what streams read and publish, and the changes operators ask for.

Each verb reaches the fleet through the doors of a node or through the store; the leader does what is asked. `read` and
`verify` read the output itself, and so work on the store alone.
"""

import sys
from contextlib import aclosing
from datetime import timedelta

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import FleetClient, ask, ask_and_show, every, on_fleet
from rota.cli.reach.on_store import on_store
from rota.cli.reach.targets import FleetTarget
from rota.cli.reach.who import me
from rota.cli.terminal import tables
from rota.cli.terminal.progress import ProgressLine
from rota.cli.terminal.rows import CsvPaper, JsonPaper
from rota.cli.verbs import Verbs
from rota.kit.time import durations
from rota.model.errors import RotaError, Unknown
from rota.outputs.open import open_output
from rota.store import Store
from rota.streams.core.records import MoveRecord, SkipRecord
from rota.streams.core.where import where
from rota.streams.doors import operations
from rota.streams.doors.answers import GroupView, StreamDetail, StreamTaskView, StreamVersion, StreamView, lags
from rota.streams.fleet.verify import Extent, Verified
from rota.streams.fleet.verify import verify as prove_stream

stream_argument = click.argument("stream", metavar="STREAM", shell_complete=names.streams)
no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait until the leader has done it.")
timeout_option = click.option(
    "--timeout", type=options.Duration(), default="30s", show_default=True, help="How long to wait."
)
some_argument = click.argument("stream", metavar="[STREAM]", required=False, shell_complete=names.streams)
all_option = click.option("--all", "is_for_all", is_flag=True, help="All streams, instead of one.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.group(cls=Verbs)
def command() -> None:
    """Look at streams, stop them, and set their offsets."""


@command.command()
@click.option("--prefix", metavar="TEXT", default="", help="Only those whose name starts with this.")
@click.option("--all", "with_past", is_flag=True, help="Also backfills that are completed.")
@options.fleet
@options.output(Shape.LIST)
def ls(prefix: str, with_past: bool, fleet: FleetTarget) -> None:
    """List the streams with their states and lags.

    Example: rota streams ls
    """
    found = on_fleet(fleet, lambda open: _all(open, prefix, with_past=with_past))
    headings = "STREAM", "STATE", "LAG", "GROUPS", "SOURCE", "SINK", "DETAIL"
    tables.listed(found, headings, _row, "no such streams; declare one in an app with @app.stream")


@command.command()
@stream_argument
@options.fleet
@options.output(Shape.OBJECT)
def status(stream: str, fleet: FleetTarget) -> None:
    """Show one stream with its groups, its tasks and its last errors.

    The exit code is 1 if it is unhealthy.

    Example: rota streams status clicks -o json
    """
    detail = ask(fleet, operations.stream_status, stream)
    tables.answer(detail)
    _show(detail)
    sys.exit(0 if detail.stream.healthy else 1)


@command.command()
@click.argument("stream", metavar="[STREAM]", required=False, shell_complete=names.streams)
@options.fleet
@options.output(Shape.LIST)
def lag(stream: str | None, fleet: FleetTarget) -> None:
    """Show how many records of each partition are in the source and not in the output.

    Example: rota streams lag clicks
    """
    views = on_fleet(fleet, lambda open: _one_or_all(open, stream))
    found = [each for view in views for each in lags(view)]
    tables.answer(found)
    rows = [
        (each.stream, str(each.partition), str(each.committed), _or_dash(each.latest), str(each.lag)) for each in found
    ]
    tables.show(("STREAM", "PARTITION", "COMMITTED", "LATEST", "LAG"), rows, "nothing was read yet")


@command.command()
@stream_argument
@options.fleet
@options.output(Shape.LIST)
def history(stream: str, fleet: FleetTarget) -> None:
    """List a stream's declarations and what changed in each; the newest last.

    Example: rota streams history clicks
    """
    found = ask(fleet, operations.stream_history, stream)
    tables.answer(found)
    rows = [(f"{each.at:%Y-%m-%d %H:%M:%S}", each.app, each.node, _changes(each)) for each in found]
    tables.show(("DECLARED", "APP", "NODE", "CHANGED"), rows, "nothing was kept; it is from the next change on")


@command.command()
@some_argument
@all_option
@no_wait_option
@timeout_option
@options.fleet
@options.output(Shape.LIST)
def suspend(stream: str | None, is_for_all: bool, no_wait: bool, timeout: timedelta, fleet: FleetTarget) -> None:
    """Stop reading: groups publish what they have read, and no new ones start.

    The exit code is 6 if not everything was published in time; publishing then goes on.

    Example: rota streams suspend clicks
    """
    wait = None if no_wait else timeout
    with tables.answering() as done:
        for view in on_fleet(fleet, lambda open: _chosen(open, stream, is_for_all)):
            after = ask_and_show(
                fleet, f"suspending {view.name}", operations.suspend_stream, name=view.name, by=me(), wait=wait
            )
            done.append(after)
            _show_change(after, wait, is_done=after.has_ended)


@command.command()
@some_argument
@all_option
@no_wait_option
@timeout_option
@options.fleet
@options.output(Shape.LIST)
def resume(stream: str | None, is_for_all: bool, no_wait: bool, timeout: timedelta, fleet: FleetTarget) -> None:
    """Continue a suspended or terminated stream where it stopped; --all skips terminated streams.

    Example: rota streams resume clicks
    """
    wait = None if no_wait else timeout
    with tables.answering() as done:
        for view in on_fleet(fleet, lambda open: _chosen(open, stream, is_for_all)):
            if is_for_all and (view.terminated or not view.suspended):
                continue
            after = ask_and_show(
                fleet, f"resuming {view.name}", operations.resume_stream, name=view.name, by=me(), wait=wait
            )
            done.append(after)
            _show_change(after, wait, is_done=after.is_going)


@command.command()
@some_argument
@all_option
@yes_option
@no_wait_option
@timeout_option
@options.fleet
@options.output(Shape.LIST)
def terminate(
    stream: str | None, is_for_all: bool, yes: bool, no_wait: bool, timeout: timedelta, fleet: FleetTarget
) -> None:
    """End a stream for good, although an app declares it: it publishes what it has read, and starts nothing new.

    Its output and its offsets stay; rota streams resume continues it.

    Example: rota streams terminate clicks --yes
    """
    chosen = on_fleet(fleet, lambda open: _chosen(open, stream, is_for_all))
    _ask(yes, f"terminate {', '.join(view.name for view in chosen) or 'nothing'}?")
    wait = None if no_wait else timeout
    with tables.answering() as done:
        for view in chosen:
            after = ask_and_show(
                fleet, f"terminating {view.name}", operations.terminate_stream, name=view.name, by=me(), wait=wait
            )
            done.append(after)
            _show_change(after, wait, is_done=after.has_ended)


@command.command()
@stream_argument
@click.argument("tasks", type=click.IntRange(min=1), required=False)
@click.option("--as-declared", is_flag=True, help="As many as the app declares.")
@options.fleet
@options.output(Shape.OBJECT)
def scale(stream: str, tasks: int | None, as_declared: bool, fleet: FleetTarget) -> None:
    """Set the number of task groups; only groups whose partitions change end.

    Example: rota streams scale clicks 4
    """
    if (tasks is None) != as_declared:
        raise click.UsageError("say how many task groups, or --as-declared")
    view = ask(fleet, operations.scale_stream, stream, tasks, by=me())
    tables.answer(view)
    _show_change(view, None, is_done=True)


@command.command()
@stream_argument
@click.argument("groups", type=click.IntRange(min=0), nargs=-1)
@no_wait_option
@timeout_option
@options.fleet
@options.output(Shape.OBJECT)
def handoff(stream: str, groups: tuple[int, ...], no_wait: bool, timeout: timedelta, fleet: FleetTarget) -> None:
    """End task groups and publish what they have read now, all unless some are named; new groups continue from there.

    Example: rota streams handoff clicks 0
    """
    wait = None if no_wait else timeout
    view = ask_and_show(fleet, f"handing off {stream}", operations.hand_off_groups, stream, groups, by=me(), wait=wait)
    tables.answer(view)
    _show_change(view, wait, is_done=not view.hand_off)


@command.command()
@stream_argument
@click.option("--to", metavar="PLACE", help="earliest, latest or 2026-01-31T12:00Z.  [default: as a new one begins]")
@click.option("--backfill", is_flag=True, help="Another stream reads the skipped records, into the same output.")
@yes_option
@no_wait_option
@timeout_option
@options.fleet
@options.output(Shape.OBJECT)
def reset(
    stream: str,
    to: str | None,
    backfill: bool,
    yes: bool,
    no_wait: bool,
    timeout: timedelta,
    fleet: FleetTarget,
) -> None:
    """Set the offsets of all partitions.

    The records between are skipped, or read and published again. Records that were read and not published yet are
    discarded.

    Example: rota streams reset clicks --to latest --backfill --yes
    """
    _ask(yes, f"set all offsets of stream {stream} to {to or 'where a new stream would begin'}?")
    wait = None if no_wait else timeout
    view = ask_and_show(
        fleet,
        f"resetting {stream}",
        operations.reset_stream,
        stream,
        by=me(),
        to=to,
        backfill=backfill,
        wait=wait,
    )
    tables.answer(view)
    _show_change(view, wait, is_done=view.reset is None)


@command.command("reset-offsets")
@stream_argument
@click.argument("offsets", nargs=-1, required=True, metavar="PARTITION=PLACE…")
@yes_option
@no_wait_option
@timeout_option
@options.fleet
@options.output(Shape.OBJECT)
def reset_offsets(
    stream: str,
    offsets: tuple[str, ...],
    yes: bool,
    no_wait: bool,
    timeout: timedelta,
    fleet: FleetTarget,
) -> None:
    """Set the offsets of some partitions: a number, earliest, latest or a time. The others stay.

    Example: rota streams reset-offsets clicks 0=12000 3=earliest --yes
    """
    wanted = dict(_pair(text) for text in offsets)
    _ask(yes, f"set offsets of stream {stream}: {', '.join(offsets)}?")
    wait = None if no_wait else timeout
    view = ask_and_show(fleet, f"resetting {stream}", operations.reset_offsets, stream, wanted, by=me(), wait=wait)
    tables.answer(view)
    _show_change(view, wait, is_done=view.reset is None)


@command.command()
@stream_argument
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Rows, at most; 0: all.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv"]),
    default="json",
    show_default=True,
    help="An object per line, or comma-separated values.",
)
@click.option("--columns", metavar="NAMES", help="Only these fields, in this order, like at,page.")
@options.store
def read(stream: str, limit: int, form: str, columns: str | None, store: str) -> None:
    """Print published rows; the oldest first where the output is files.

    The command reads the output directly, so it must run on a machine that reaches it.

    Example: rota streams read clicks --limit 5 --format csv
    """
    names = columns.split(",") if columns else None
    paper = CsvPaper(names) if form == "csv" else JsonPaper(names)

    async def show(open: Store) -> None:
        spec = await operations.stream_spec(open, stream)
        async with open_output(spec.sink, stream, open) as output, aclosing(output.rows(limit or None)) as pieces:
            async for piece in pieces:
                paper.print(piece)

    on_store(store, show)


@command.command()
@stream_argument
@click.option("--from", "start", metavar="PLACE", help="An offset or a time.  [default: where the output begins]")
@click.option("--to", "end", metavar="PLACE", help="An offset or a time.  [default: all that is published]")
@click.option(
    "--partition", "partitions", multiple=True, type=click.IntRange(min=0), help="Only this; may be repeated."
)
@click.option("--by", metavar="FIELD,FIELD", help="Fields of a row that have its record's partition and offset.")
@options.store
@options.output(Shape.OBJECT)
def verify(
    stream: str,
    start: str | None,
    end: str | None,
    partitions: tuple[int, ...],
    by: str | None,
    store: str,
) -> None:
    """Read the source again, and prove that every record was published once.

    The exit code is 1 if records are missing in the output or there more than once; the first of them is named.

    Example: rota streams verify clicks --by part,at
    """
    extent = Extent(
        start=where(start) if start else None,
        end=where(end) if end else None,
        partitions=frozenset(partitions),
        by=_fields(by) if by else None,
    )

    async def prove(open: Store) -> Verified:
        spec = await operations.stream_spec(open, stream)
        with ProgressLine(f"verifying {stream}") as progress:
            return await prove_stream(
                open, spec, extent, lambda partition, at, end: progress.at(at, end, f"partition {partition}")
            )

    found = on_store(store, prove)
    tables.answer(found)
    _show_proof(found)
    if found.flaws:
        more = f", and {len(found.flaws) - 1} more" if len(found.flaws) > 1 else ""
        raise RotaError(f'stream "{stream}": {found.flaws[0]}{more}')


def _ask(is_sure: bool, question: str) -> None:
    """Ask for confirmation, and exit unless the user agrees."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question.rstrip('?')}: cannot ask for confirmation here; add --yes if you are sure")
    click.confirm(question, abort=True, err=True)


def _pair(text: str) -> tuple[str, str]:
    partition, sign, place = text.partition("=")
    if not sign or not place:
        raise click.UsageError(f'"{text}" does not say where a partition goes on; write one like 0=12000 or 0=latest')
    return partition, place


def _fields(text: str) -> tuple[str, str]:
    partition, comma, offset = text.partition(",")
    if not (partition and comma and offset):
        raise click.UsageError(
            f"--by \"{text}\" does not name two fields; write the partition's and the offset's: part,at"
        )
    return partition, offset


async def _all(fleet: FleetClient, prefix: str = "", *, with_past: bool = False) -> list[StreamView]:
    """Every stream; backfills that are completed only `with_past`."""
    return await every(fleet, "stream", operations.list_streams, prefix=prefix, with_past=with_past)


async def _chosen(fleet: FleetClient, stream: str | None, is_for_all: bool) -> list[StreamView]:
    """The stream that was named, or all."""
    if (stream is None) != is_for_all:
        raise click.UsageError("name a stream, or say --all")
    return await _one_or_all(fleet, stream)


async def _one_or_all(fleet: FleetClient, stream: str | None) -> list[StreamView]:
    return await _all(fleet) if stream is None else [await fleet.do(operations.get_stream, stream)]


# What is shown


def _show_proof(found: Verified) -> None:
    rows = [
        (str(each.partition), str(each.start), str(each.end), str(each.records), str(each.unread), str(len(each.flaws)))
        for each in found.partitions
    ]
    tables.show(("PARTITION", "FROM", "TO", "RECORDS", "UNREAD", "FLAWS"), rows, "nothing is published yet")
    for flaw in found.flaws:
        tables.say(flaw)
    if not found.flaws:
        count = sum(each.records for each in found.partitions)
        published = f"; {found.publishes} publishes with {found.rows} rows" if found.publishes else ""
        tables.say(f"no gap and no repeat in {count} records{published}")


def _changes(version: StreamVersion) -> str:
    """What a declaration changed, in one line."""
    return ", ".join(f"{name} {_shown(before)} → {_shown(after)}" for name, (before, after) in version.changed.items())


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def _show_change(view: StreamView, wait: timedelta | None, *, is_done: bool) -> None:
    """Show people how a stream is after something was asked of it; Unknown if that is not done in time."""
    tables.say(f"{view.name}: {_state(view)}{f', {_groups(view)}' if view.phases else ''}")
    if wait is not None and not is_done:
        raise Unknown(
            f"stream {view.name}: it is not done after {durations.render(wait)}, and goes on; "
            f"look again with: rota streams status {view.name}"
        )


def _row(view: StreamView) -> tuple[str, ...]:
    lag = str(view.lag) if view.committed else ""
    return view.name, _state(view), lag, _groups(view), view.source, view.sink, view.detail


def _show(detail: StreamDetail) -> None:
    view = detail.stream
    tables.facts(_about(view))
    for group in detail.groups:
        tables.say(_group_line(group))
        for task in group.tasks:
            tables.say(f"  {_task_line(task)}")
    for skip in detail.skips:
        tables.say(f"skipped   {_skip_line(skip)}")
    for move in detail.moves:
        tables.say(f"moved     {_move_line(move)}")
    for error in view.errors:
        tables.say(f"error     {error.at:%Y-%m-%d %H:%M:%S} {error.why}")


def _about(view: StreamView) -> dict[str, str]:
    since = f" since {view.since:%Y-%m-%d %H:%M:%S} UTC" if view.since else ""
    by = f"{view.at:%Y-%m-%d %H:%M:%S} UTC by {view.by}" if view.at else ""
    return {
        "stream": view.name,
        "app": view.app,
        "source": view.source,
        "sink": view.sink,
        "state": f"{_state(view)}{since}",
        "detail": view.detail,
        "tasks": f"{tables.count(view.tasks, 'group')} of {tables.count(view.replicas, 'task')}",
        "groups": _groups(view),
        "committed": _offsets(view.committed),
        "latest": _offsets(view.latest),
        "lag": f"{view.lag} records" if view.committed else "",
        "dropped": ", ".join(f"{count} {reason}" for reason, count in sorted(view.dropped.items())),
        "hand off": ", ".join(map(str, view.hand_off)),
        "reset": _wanted(view),
        "wished": by,
    }


def _state(view: StreamView) -> str:
    """The state, with what is wished for and not so yet."""
    if view.terminated and not view.has_ended:
        return f"{view.state} (to end)"
    if view.suspended and not view.has_ended:
        return f"{view.state} (to be suspended)"
    return str(view.state)


def _wanted(view: StreamView) -> str:
    if view.reset is None:
        return ""
    named = [f"{partition}={place}" for partition, place in sorted(view.reset.partitions.items())]
    return ", ".join([*named, *([f"all to {view.reset.to}"] if view.reset.to else [])])


def _groups(view: StreamView) -> str:
    return ", ".join(f"{count} {phase}" for phase, count in view.phases.items())


def _group_line(group: GroupView) -> str:
    why = f": {group.why}" if group.why else ""
    ends = f" to {_offsets(group.ends)}" if group.ends else ""
    where = f", from {_offsets(group.starts)}{ends}" if group.starts else ""
    partitions = ",".join(map(str, group.partitions))
    return f"group {group.number}   {group.id} {group.phase}{why}, partitions {partitions}{where}"


def _task_line(task: StreamTaskView) -> str:
    dropped = "".join(f", {count} {reason}" for reason, count in task.dropped.items())
    trouble = task.error or task.trouble
    figures = f"{task.rows} rows{dropped}, {task.lag} behind"
    return f"#{task.slot} on {task.node} {task.state}, {figures}{f': {trouble}' if trouble else ''}"


def _skip_line(skip: SkipRecord) -> str:
    return f"{skip.at:%Y-%m-%d %H:%M:%S} partition {skip.partition}: {skip.first} to {skip.last}: {skip.why}"


def _move_line(move: MoveRecord) -> str:
    changed = ", ".join(f"{each} from {move.before[each]} to {at}" for each, at in sorted(move.after.items()))
    filled = f"; {move.backfill} reads what lies between" if move.backfill else ""
    return f"{move.at:%Y-%m-%d %H:%M:%S} {changed}: {f'by {move.by}' if move.by else move.why}{filled}"


def _offsets(offsets: dict[int, int]) -> str:
    return ", ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
