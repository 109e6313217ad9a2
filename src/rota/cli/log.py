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

from rota.cli import options, tables
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
@click.option("--keep", type=options.Size(), help="Delete the oldest of a partition as long as this much is left.")
@click.option("--keep-for", type=options.Duration(), help="Delete what was appended longer ago.")
def create(url: str, partitions: int, segment: int, keep: int | None, keep_for: timedelta | None) -> None:
    """Make a log.

    What is deleted goes a file at a time, whenever one is full. Without --keep and --keep-for nothing is.

    Example: rota log create log:///var/lib/rota/clicks --partitions 4 --keep-for 7d
    """
    place = log_place(url)
    place.create(partitions, segment_bytes=segment, keep_bytes=keep, keep_age=keep_for)
    click.echo(f"made {place.shown} with {tables.count(partitions, 'partition')}")


@command.command()
@log_url
@click.option("--partitions", type=click.IntRange(min=1), required=True, help="How many partitions it has then.")
def grow(url: str, partitions: int) -> None:
    """Give a log more partitions.

    Keys are shared out anew, so that later records of a key may come to another partition than earlier ones.

    Example: rota log grow log:///var/lib/rota/clicks --partitions 8
    """
    place = log_place(url)
    place.grow(partitions)
    click.echo(f"{place.shown} has {tables.count(partitions, 'partition')} now")


@command.command()
@log_url
@click.option("--partition", type=click.IntRange(min=0), help="Where to; otherwise by key, or in turn.")
@click.option("--key", help="The key of every record.")
@click.option("--json", "is_json", is_flag=True, help="Each line is a JSON object: value, key, headers, time.")
def append(url: str, partition: int | None, key: str | None, is_json: bool) -> None:
    """Append what comes on stdin, a record for each line.

    Lines are appended as they come. With ?fsync=never or ?fsync=1s behind the URL not each of them is waited for until
    it is on disk.

    Example: tail -F access.log | rota log append log:///var/lib/rota/clicks
    """
    logging.getLogger("rota").addHandler(logging.NullHandler())  # what it warns of is told below
    counts: Counter[int] = Counter()
    with open_log(url) as log:
        for lines in _lines(sys.stdin.buffer):
            for appended in log.append(_records(lines, key, is_json=is_json), partition):
                counts[appended.partition] += appended.size
        for number, size in log.torn.items():
            click.echo(f"partition {number}: cut {size} bytes off its end that were half written", err=True)
    where = ", ".join(f"{count} to partition {number}" for number, count in sorted(counts.items()))
    click.echo(f"appended {tables.count(counts.total(), 'record')}" + (f": {where}" if where else ""), err=True)


def _lines(source: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that have come, as soon as they have; the last one needs no end."""
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
@click.option("--partition", "numbers", type=click.IntRange(min=0), multiple=True, help="Only this; may be repeated.")
@click.option("--offset", type=click.IntRange(min=0), metavar="OFFSET", help="Begin there.")
@click.option("--since", type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), metavar="TIME", help="Begin at that time.")
@click.option("-n", "last", type=click.IntRange(min=0), default=LAST, show_default=True, help="Begin so far back.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until interrupted.")
@click.option("--json", "is_json", is_flag=True, help="Show offset, time, key and headers too, as JSON.")
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

    URL may also be that of another source, such as kafka://host/topic. Exit code 1 if records were lost on the way.

    Example: rota log tail log:///var/lib/rota/clicks -f
    """
    if offset is not None and since is not None:
        raise click.UsageError("--offset and --since exclude each other; give one of them")
    try:
        is_whole = asyncio.run(_tail(url, numbers, offset, since, last, follow=follow, is_json=is_json))
    except BrokenPipeError:  # whoever reads has seen enough
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
    """Show records; were none lost?"""
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
    """End without a complaint about an output that nobody reads."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    click.get_current_context().exit(0)


@command.command()
@log_url
@options.output
def ls(url: str, output: str) -> None:
    """Show what each partition has.

    Example: rota log ls log:///var/lib/rota/clicks
    """
    with open_log(url) as log:
        described = log.describe()
    if output == "json":
        tables.show_json({"log": log.meta, "partitions": [one._asdict() for one in described]})
        return
    rows = [
        [str(one.partition), str(one.start), str(one.end), str(one.end - one.start), str(one.segments), str(one.size)]
        for one in described
    ]
    tables.show(["PARTITION", "START", "END", "RECORDS", "SEGMENTS", "BYTES"], rows, "it has no partitions")


@command.command()
@log_url
@click.option("--partition", type=click.IntRange(min=0), help="Which partition; needed with --before.")
@click.option("--before", type=click.IntRange(min=0), metavar="OFFSET", help="Delete what comes before this.")
@click.option("--retain", is_flag=True, help="Delete what the log's own settings let go, now and of all partitions.")
def truncate(url: str, partition: int | None, before: int | None, retain: bool) -> None:
    """Delete the oldest records of a log.

    Streams that have not read them meet a gap. Nobody may be appending to the partition meanwhile.

    Example: rota log truncate log:///var/lib/rota/clicks --partition 0 --before 5000
    """
    if retain == (before is not None) or (before is None) != (partition is None):
        raise click.UsageError("give --partition and --before, or --retain")
    with open_log(url) as log:
        if partition is not None and before is not None:
            click.echo(f"partition {partition} starts at {log.truncate(partition, before)} now")
        else:
            click.echo(f"deleted {tables.count(log.retain(), 'segment')}")
