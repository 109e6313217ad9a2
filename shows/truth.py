"""`make show-truth`: every finding of the hostile readings and its test, and the worst of them at full size.

The tests of all findings run once, in three processes; the rest takes about an hour. `PARTS=findings` runs the tests
alone.
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shows.finding import report
from shows.findings import BEFORE, FINDINGS
from shows.report import Line, show
from tests.kit.clearing import Cleared, clear_beside_a_writer
from tests.kit.draining import drain
from tests.kit.exclusive_churn import Churn, churn, robots
from tests.kit.harness import MysqlHarness, PostgresHarness
from tests.kit.job_storm import Account, storm, storm_fleet
from tests.kit.multitude import place_a_multitude
from tests.kit.node import NodeUnderTest
from tests.kit.saved_states import KEEPING, keep_states
from tests.kit.servers import MariaDB, Postgres, RabbitMQ
from tests.kit.stream_reloads import reload_and_verify

MESSAGES = int(os.environ.get("MESSAGES", "40000"))
RELOADS = int(os.environ.get("RELOADS", "200"))
TASKS = int(os.environ.get("TASKS", "1000"))
CYCLES = int(os.environ.get("CYCLES", "200"))
GIB = float(os.environ.get("GIB", "3"))
RESOURCES = int(os.environ.get("RESOURCES", "200000"))

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
"""Debian's library that shows another time to a process; package `faketime`."""

LONGEST_WRITE = 1.0
"""Seconds that a commit may take while output is cleared away."""


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rota-truth-") as base:
        folder = Path(base)
        folder.chmod(0o755)  # PostgreSQL and RabbitMQ run as users of their own
        yield folder


# Every finding


def findings() -> Iterator[Line]:
    """A line for each finding."""
    yield from report(FINDINGS, BEFORE)


# At full size


def nacked_messages() -> Iterator[Line]:
    """Messages through a queue that refuses them while it is full, and is drained meanwhile."""
    with _folder() as folder, RabbitMQ(folder) as rabbit:
        found = asyncio.run(drain(rabbit.port, MESSAGES, room=40, window=500, within=1800))
    confirmed = {message.id for message in found.confirmed}
    arrived = {message.id for message in found.arrived}
    yield Line(
        len(confirmed) == MESSAGES and confirmed == arrived,
        f"{MESSAGES} messages through a draining reject-publish queue: confirmed = arrived",
        f"{len(confirmed)} confirmed, {len(arrived)} arrived ({len(found.arrived)} copies), "
        f"{len(found.rejected)} rejected",
    )


def reloads_under_a_stream() -> Iterator[Line]:
    """A stream with a checkpoint each 100 ms, whose node is reloaded all the time."""
    with _folder() as folder:
        found = asyncio.run(reload_and_verify(folder, RELOADS))
    yield Line(
        found.rows == found.records and found.code == 0,
        f"{RELOADS} reloads under a stream with a checkpoint each 100 ms: every record once, `verify` clean",
        f"{found.rows} rows of {found.records} records; verify: exit code {found.code}, {found.said.strip()}",
    )


def saved_states() -> Iterator[Line]:
    """Many tasks with large saved states: all start at once."""
    size = 250_000
    with _folder() as folder, NodeUnderTest(folder / "node", "--slots", TASKS, app=KEEPING) as node:
        took = asyncio.run(_kept(node, size))
    yield Line(
        True,
        f"{TASKS} tasks with {size // 1000} kB saved each: all run again with what they saved",
        ", ".join(f"{way} {seconds:.1f} s" for way, seconds in took.items()),
    )


async def _kept(node: NodeUnderTest, size: int) -> dict[str, float]:
    await node.ready()
    return await keep_states(node, TASKS, size, within=600)


def output_cleared() -> Iterator[Line]:
    """Output of runs cleared away beside a process that keeps a lease and writes."""
    with _folder() as folder:
        url = f"sqlite:///{folder}/rota.db"
        yield _cleared_line("SQLite", asyncio.run(clear_beside_a_writer(url, int(GIB * 2**30), folder)))
    with _folder() as folder, Postgres(folder) as server:
        url = PostgresHarness(folder, server).url()
        yield _cleared_line("PostgreSQL", asyncio.run(clear_beside_a_writer(url, int(GIB * 2**30), folder)))


def _cleared_line(name: str, found: Cleared) -> Line:
    return Line(
        found.longest_write < LONGEST_WRITE and not found.leases_lost and not found.left,
        f"{GIB:g} GiB of run output cleared on {name}: longest write < {LONGEST_WRITE:g} s, no lease lost",
        f"{found.runs} runs in {found.seconds:.1f} s; slowest of {found.commits} commits {found.longest_write:.2f} s, "
        f"{found.leases_lost} leases lost, {found.left} runs with output left",
    )


def exclusive_churn() -> Iterator[Line]:
    """Exclusive tasks while resources go and come, nodes are cordoned and killed."""
    with _folder() as folder:
        found = asyncio.run(_churned(folder))
    yield Line(
        not found.overlaps,
        f"exclusive tasks, {CYCLES} cycles of remove, add, cordon, kill on 3 nodes: overlap 0 s",
        f"{found.lives} lives, {found.done}; overlaps: {found.overlaps or 'none'}",
    )


async def _churned(folder: Path) -> Churn:
    async with robots(folder, f"sqlite:///{folder}/rota.db") as fleet:
        return await churn(fleet, CYCLES)


def many_resources() -> Iterator[Line]:
    """More resources than one plan can place within a lease."""
    with _folder() as folder:
        found = asyncio.run(place_a_multitude(folder, f"sqlite:///{folder}/rota.db", RESOURCES))
    yield Line(
        found.terms == 1,
        f"{RESOURCES} resources, three real nodes that lead, default lease: placed, no change of leader",
        f"{found.seconds:.0f} s, {found.terms} term, {found.moved} moved after a worker's death, {found.least} to "
        f"{found.most} on each of 100 workers (records; one follower was killed meanwhile)",
    )


CHANGES = {
    "the hour begins for the first time": datetime(2026, 10, 25, 0, 0, tzinfo=UTC),
    "the hour begins for the second time": datetime(2026, 10, 25, 1, 0, tzinfo=UTC),
}


def autumn_hour() -> Iterator[Line]:
    """Jobs that are due each second on a MariaDB in Berlin's time, around both ends of the hour that comes twice."""
    if not FAKETIME.exists():
        subprocess.run(["apt-get", "install", "-y", "-qq", "faketime"], check=True, stdout=subprocess.DEVNULL)
    for what, moment in CHANGES.items():
        with _folder() as folder, MariaDB(folder, _clock_at(moment - timedelta(seconds=60))) as server:
            found = asyncio.run(_stormed(folder, MysqlHarness(folder, server).url()))
        yield Line(
            found.is_right and not found.missed,
            f"MariaDB with TZ=Europe/Berlin, {what}: every due time once",
            f"{found.due} due, {found.once} once, {found.missed} missed, {len(found.doubled)} doubled, "
            f"{len(found.unaccounted)} without account",
        )


def _clock_at(moment: datetime) -> dict[str, str]:
    """What makes a server's wall clock show `moment` now and go on from there."""
    offset = moment.timestamp() - time.time()
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{offset:+.0f}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


async def _stormed(folder: Path, url: str) -> Account:
    async with storm_fleet(folder, url, 20) as fleet:
        return await storm(fleet, 90.0)


if __name__ == "__main__":
    show(
        [
            findings,
            nacked_messages,
            reloads_under_a_stream,
            many_resources,
            saved_states,
            autumn_hour,
            output_cleared,
            exclusive_churn,
        ]
    )
