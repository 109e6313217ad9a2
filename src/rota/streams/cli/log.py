"""`rota log`: the embedded logs that streams read. `tail` reads any other source as well."""

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import BinaryIO, NoReturn

import click
import msgspec

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.terminal import tables
from rota.cli.verbs import Verbs
from rota.sources import Bounds, NewRecord, Reader, Record, Source, Vanished, log_place, open_log, open_source
from rota.sources.lines import encode, parse

READ = 64 * 1024
LAST = 10
"""How many records of each partition `tail` shows."""

log_url = click.argument("url", metavar="URL")
partitions_option = click.option(
    "--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="How many partitions it has."
)


@click.group(cls=Verbs)
def command() -> None:
    """Make, fill and look at logs that streams read.

    URL is log:///path/to/log, a folder of its own.
    """


@command.command()
@log_url
@partitions_option
@click.option("--segment", type=options.Size(), default="64MiB", show_default=True, help="How large a file grows.")
@click.option("--keep", type=options.Size(), help="Delete the oldest files of a partition, but keep this much.")
@click.option("--keep-for", type=options.Duration(), help="Delete files that were last appended to longer ago.")
@options.output(Shape.OBJECT)
def create(url: str, partitions: int, segment: int, keep: int | None, keep_for: timedelta | None) -> None:
    """Make a log.

    Retention deletes whole files, whenever one is full. Without --keep and --keep-for nothing is deleted.

    Example: rota log create log:///var/lib/rota/clicks --partitions 4 --keep-for 7d
    """
    place = log_place(url)
    place.create(partitions, segment_bytes=segment, keep_bytes=keep, keep_age=keep_for)
    tables.answer({"log": str(place.shown), "partitions": partitions})
    tables.say(f"made {place.shown} with {tables.count(partitions, 'partition')}")


@command.command()
@log_url
@click.option("--partitions", type=click.IntRange(min=1), required=True, help="The new number of partitions.")
@options.output(Shape.OBJECT)
def grow(url: str, partitions: int) -> None:
    """Give a log more partitions.

    Keys are distributed again, so later records of a key may go to another partition than earlier ones.

    Example: rota log grow log:///var/lib/rota/clicks --partitions 8
    """
    place = log_place(url)
    place.grow(partitions)
    tables.answer({"log": str(place.shown), "partitions": partitions})
    tables.say(f"{place.shown} has {tables.count(partitions, 'partition')} now")


@command.command()
@log_url
@click.option("--partition", type=click.IntRange(min=0), help="Where to; otherwise by key, or in turn.")
@click.option("--key", help="The key of every record.")
@click.option("--json", "is_json", is_flag=True, help="Each line is a JSON object: value, key, headers, time.")
@options.output(Shape.OBJECT)
def append(url: str, partition: int | None, key: str | None, is_json: bool) -> None:
    """Append the lines of stdin, each as a record.

    Lines are appended as they arrive. With ?fsync=never or ?fsync=1s at the end of the URL it waits for the disk less
    often.

    Example: tail -F access.log | rota log append log:///var/lib/rota/clicks
    """
    logging.getLogger("rota").addHandler(logging.NullHandler())  # its warning is printed below
    counts: Counter[int] = Counter()
    with open_log(url) as log:
        for lines in _lines(sys.stdin.buffer):
            for appended in log.append(_records(lines, key, is_json=is_json), partition):
                counts[appended.partition] += appended.size
        for number, size in log.torn.items():
            click.echo(f"partition {number}: cut {size} bytes off its end that were half written", err=True)
    tables.answer({"appended": counts.total(), "partitions": dict(sorted(counts.items()))})
    where = ", ".join(f"{count} to partition {number}" for number, count in sorted(counts.items()))
    click.echo(f"appended {tables.count(counts.total(), 'record')}" + (f": {where}" if where else ""), err=True)


def _lines(source: BinaryIO) -> Iterator[list[bytes]]:
    """The complete lines read so far, as soon as they arrive; the last one needs no newline."""
    rest = b""
    while part := os.read(source.fileno(), READ):
        *lines, rest = (rest + part).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _records(lines: Sequence[bytes], key: str | None, *, is_json: bool) -> list[NewRecord]:
    given = None if key is None else key.encode()
    if not is_json:
        return [NewRecord(value=line, key=given) for line in lines]
    records = [parse(line) for line in lines if line.strip()]
    return [msgspec.structs.replace(record, key=given) if given else record for record in records]


@command.command()
@click.argument("url", metavar="URL")
@click.option(
    "--partition", "numbers", type=click.IntRange(min=0), multiple=True, help="Only this partition; may be repeated."
)
@click.option("--offset", type=click.IntRange(min=0), metavar="OFFSET", help="Begin there.")
@click.option("--since", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), metavar="TIME", help="Begin at this time.")
@click.option(
    "-n",
    "last",
    type=click.IntRange(min=0),
    default=LAST,
    show_default=True,
    help="Begin this many offsets before the end.",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until interrupted.")
@click.option("--json", "is_json", is_flag=True, help="The same as -o json.")
@options.output(Shape.LINES)
def tail(
    url: str,
    numbers: tuple[int, ...],
    offset: int | None,
    since: datetime | None,
    last: int,
    follow: bool,
    is_json: bool,
) -> None:
    """Show the last records of each partition, or those from an offset or a time on.

    URL may also be that of another source, such as kafka://host/topic. Exit code 1 if records are missing.

    Example: rota log tail log:///var/lib/rota/clicks -f
    """
    if offset is not None and since is not None:
        raise click.UsageError("--offset and --since exclude each other; give one of them")
    try:
        is_json = is_json or not tables.is_for_people()
        is_whole = asyncio.run(_tail(url, numbers, offset, since, last, follow=follow, is_json=is_json))
    except BrokenPipeError:  # the reader closed the pipe
        _end_quietly()
    if not is_whole:
        click.get_current_context().exit(1)


async def _tail(
    url: str,
    numbers: Sequence[int],
    offset: int | None,
    since: datetime | None,
    last: int,
    *,
    follow: bool,
    is_json: bool,
) -> bool:
    """Show records; True if none were lost."""
    async with open_source(url) as source:
        bounds = await source.bounds(numbers or await source.partitions())
        begin = await _begin(source, bounds, offset, since, last)
        reader = await source.reader(begin)
        try:
            return await _show(reader, bounds, follow=follow, is_json=is_json)
        finally:
            await reader.close()


async def _begin(
    source: Source, bounds: Mapping[int, Bounds], offset: int | None, since: datetime | None, last: int
) -> dict[int, int]:
    if since is not None:
        return {number: await source.offset_at(number, since) for number in bounds}
    if offset is not None:
        return dict.fromkeys(bounds, offset)
    return {number: max(whole.start, whole.end - last) for number, whole in bounds.items()}


async def _show(reader: Reader, bounds: Mapping[int, Bounds], *, follow: bool, is_json: bool) -> bool:
    is_whole = True
    while follow or any(reader.positions[number] < whole.end for number, whole in bounds.items()):
        try:
            for batch in await reader.read():
                for record in batch.records:
                    if follow or record.offset < bounds[batch.partition].end:
                        _print(batch.partition, record, is_json=is_json)
            sys.stdout.buffer.flush()
        except Vanished as lost:
            click.echo(f"rota: {lost}", err=True)
            is_whole = False
            then = min(lost.gap.last + 1, lost.bounds.end)
            await reader.assign({**reader.positions, lost.partition: then})
    return is_whole


def _print(partition: int, record: Record, *, is_json: bool) -> None:
    sys.stdout.buffer.write(encode(partition, record) if is_json else (record.value or b"") + b"\n")


def _end_quietly() -> NoReturn:
    """Exit without an error when the reader of stdout has gone."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    click.get_current_context().exit(0)


@command.command()
@log_url
@options.output(Shape.LIST)
def ls(url: str) -> None:
    """Show each partition's offsets and size on disk.

    Example: rota log ls log:///var/lib/rota/clicks
    """
    with open_log(url) as log:
        described = log.describe()
    tables.answer([one._asdict() for one in described])
    rows = [
        [str(one.partition), str(one.start), str(one.end), str(one.end - one.start), str(one.segments), str(one.size)]
        for one in described
    ]
    tables.show(["PARTITION", "START", "END", "RECORDS", "SEGMENTS", "BYTES"], rows, "it has no partitions")


@command.command()
@log_url
@click.option("--partition", type=click.IntRange(min=0), help="Which partition; needed with --before.")
@click.option("--before", type=click.IntRange(min=0), metavar="OFFSET", help="Delete the records before this offset.")
@click.option("--retain", is_flag=True, help="Apply the log's own retention settings now, to all partitions.")
@options.output(Shape.OBJECT)
def truncate(url: str, partition: int | None, before: int | None, retain: bool) -> None:
    """Delete the oldest records of a log.

    Streams that have not read them find a gap. No process may append to the partition meanwhile.

    Example: rota log truncate log:///var/lib/rota/clicks --partition 0 --before 5000
    """
    if retain == (before is not None) or (before is None) != (partition is None):
        raise click.UsageError("give --partition and --before, or --retain")
    with open_log(url) as log:
        if partition is not None and before is not None:
            starts = log.truncate(partition, before)
            tables.answer({"partition": partition, "starts": starts})
            tables.say(f"partition {partition} starts at {starts} now")
        else:
            segments = log.retain()
            tables.answer({"deleted_segments": segments})
            tables.say(f"deleted {tables.count(segments, 'segment')}")
