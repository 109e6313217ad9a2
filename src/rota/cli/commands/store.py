"""`rota store`: look after a fleet's store, whichever it is."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach.on_store import note
from rota.cli.terminal import tables
from rota.cli.verbs import Verbs
from rota.kit.time import durations
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Invalid, RotaError
from rota.model.ids import Revision
from rota.store import Store, history, open_store
from rota.store import url as urls
from rota.store.tools import backup, dumpfile, probe

STORE_VARIABLE = "ROTA_STORE"

store_url = click.argument("url", metavar="URL", envvar=STORE_VARIABLE)
file_name = click.argument("file", metavar="[FILE|-]", required=False)


@click.group(cls=Verbs)
def command() -> None:
    """Check, copy and clear up a fleet's store.

    URL may be left out where ROTA_STORE has it.
    """


@command.command()
@store_url
@options.output(Shape.OBJECT)
def check(url: str) -> None:
    """Test whether a store keeps its laws, and how fast it is.

    The check uses keys below /check/ and leaves nothing behind; a fleet may be running meanwhile. Exit code 1 if a
    probe failed.

    Example: rota store check sqlite:///rota.db
    """
    found: list[probe.Finding] = []

    def show(finding: probe.Finding) -> None:
        found.append(finding)
        tables.say(f"{_verdict(finding):<7} {finding.probe:<12} {finding.said}")

    asyncio.run(_check(url, show))
    tables.answer(_report(url, found))
    click.get_current_context().exit(next((finding.code for finding in found if finding.code), 0))


async def _check(url: str, show: Callable[[probe.Finding], None]) -> None:
    async with open_store(url, create=False) as store:
        await probe.check(store, SYSTEM, show)


def _verdict(finding: probe.Finding) -> str:
    return "failed" if finding.code else "ok"


def _report(url: str, found: list[probe.Finding]) -> dict[str, Any]:
    return {
        "store": str(urls.parse(url)),
        "ok": not any(finding.code for finding in found),
        "probes": [
            {"probe": finding.probe, "ok": not finding.code, "said": finding.said, **finding.figures}
            for finding in found
        ],
    }


@command.command()
@store_url
@file_name
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@options.output(Shape.OBJECT)
def dump(url: str, file: str | None, force: bool) -> None:
    """Write a store's content to a file, or to stdout.

    The content is of one revision; a fleet may be running meanwhile. Keys under a lease (nodes, leader) are left out.

    Example: rota store dump sqlite:///rota.db rota.dump
    """
    url, file = _sorted_out(url, file)
    if file == "-" and not tables.is_for_people():
        raise click.UsageError("-o json is about a dump into a file, and stdout has the dump itself; name a FILE")
    with _stdout() if file == "-" else dumpfile.fresh_file(Path(file), force=force) as out:
        footer = asyncio.run(_dump(url, out))
    tables.answer({"store": str(urls.parse(url)), "file": file, "entries": footer.entries})
    tables.say(f"dumped {_count(footer.entries, 'entry', 'entries')} of {urls.parse(url)}", err=True)


async def _dump(url: str, out: BinaryIO) -> dumpfile.Footer:
    async with open_store(url, create=False) as store:
        return await backup.dump(store, out)


@contextmanager
def _stdout() -> Iterator[BinaryIO]:
    """Standard output for bytes; its reader may stop."""
    try:
        with open(sys.stdout.fileno(), "wb", closefd=False) as out:
            yield out
    except OSError as error:
        raise RotaError(f"cannot write to stdout: {error.strerror}") from error


@command.command()
@store_url
@file_name
@click.option("--force", is_flag=True, help="Replace the keys that the store has.")
@options.output(Shape.OBJECT)
def load(url: str, file: str | None, force: bool) -> None:
    """Fill a store from a file that `rota store dump` wrote, or from stdin.

    The file is checked to its end first. No node may be on the store, and it must be empty unless --force is given or
    an earlier load was interrupted. The store begins a new incarnation.

    Example: rota store load etcd://127.0.0.1:2379 rota.dump
    """
    url, file = _sorted_out(url, file)
    with _source(file) as source:
        whole = dumpfile.Dump(source, "stdin" if file == "-" else file)
        done = asyncio.run(_load(url, whole, force=force))
    loaded = _count(done.entries, "entry", "entries")
    tables.answer(done)
    replaced = f", in place of {_count(done.removed, 'key', 'keys')}" if done.removed else ""
    tables.say(
        f"loaded {loaded} of revision {whole.header.revision} into {urls.parse(url)}{replaced}; "
        f"its incarnation is {done.incarnation}"
    )


async def _load(url: str, whole: dumpfile.Dump, *, force: bool) -> backup.LoadResult:
    async with open_store(url) as store:
        told = f"revision {whole.header.revision} of {whole.header.at:%Y-%m-%d %H:%M:%S}"
        return await backup.load(store, whole, SYSTEM, force=force, note=note(told))


def _source(file: str) -> BinaryIO:
    """What to read, as a file that can be read twice."""
    try:
        source = sys.stdin.buffer if file == "-" else open(file, "rb")  # noqa: SIM115  # the caller closes it
        if source.seekable():
            return source
        with source:
            copy = tempfile.TemporaryFile()  # noqa: SIM115
            shutil.copyfileobj(source, copy)
            return copy
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}") from error


@command.command()
@store_url
@click.option(
    "--keep",
    type=options.Duration(),
    help="Keep this much history. A store does not record its age, so the command waits as long.  [default: 10m]",
)
@click.option(
    "--before", type=click.IntRange(min=1), metavar="REVISION", help="Delete what is older than this revision, at once."
)
@options.output(Shape.OBJECT)
def compact(url: str, keep: timedelta | None, before: int | None) -> None:
    """Delete old history of a store; the present state stays.

    A running fleet does this by itself. On etcd this deletes the history of every user of that etcd.

    Example: rota store compact sqlite:///rota.db --keep 0s
    """
    if keep is not None and before is not None:
        raise click.UsageError("--keep and --before exclude each other; give one of them")
    start, end = asyncio.run(_compact(url, timedelta(minutes=10) if keep is None else keep, before))
    tables.answer({"store": str(urls.parse(url)), "started": start, "starts": end})
    tables.say(f"history of {urls.parse(url)} started at revision {start}, and starts at {end} now")


async def _compact(url: str, keep: timedelta, before: int | None) -> tuple[Revision, Revision]:
    async with open_store(url, create=False) as store:
        if before is not None:
            return await _forget(store, Revision(before))
        present = await store.revision()
        if keep:
            tables.say(f"revision {present} is the present; it will be compacted in {durations.render(keep)}", err=True)
        await asyncio.sleep(keep.total_seconds())
        return await _forget(store, present)


async def _forget(store: Store, before: Revision) -> tuple[Revision, Revision]:
    await store.commit(note(f"before revision {before}"))  # first of all, so that nothing is deleted without a message
    return await history.compact(store, before)


def _sorted_out(url: str, file: str | None) -> tuple[str, str]:
    """The store and the file; with the store in the environment, a lone argument that is no URL is the file."""
    if file is None and "://" not in url and STORE_VARIABLE in os.environ:
        return os.environ[STORE_VARIABLE], url
    return url, file or "-"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
