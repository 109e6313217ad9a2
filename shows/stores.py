"""`make show-stores`: what the SQL stores must show. Takes about fifteen minutes."""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import benchmarks
from rota.model import keys
from rota.store import Put, open_store
from shows.ground import TTL, figure, frozen, numbered, takeover
from shows.report import Line, show
from tests.kit.cli import rota
from tests.kit.harness import EtcdHarness, MysqlHarness, PostgresHarness, StoreHarness
from tests.kit.process import ROOT
from tests.kit.trials import freeze_the_leader, kill_the_leader, rota_node, take_the_store_away

OUTAGE = 60.0
ROUNDS = 3


def all_laws_hold_on_five_stores() -> Iterator[Line]:
    """The contract suite, with CI's rule that nothing is skipped."""
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "tests/contract", "-q", "-n", "2", "-rA"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    minutes = (time.monotonic() - started) / 60
    for store in ("memory", "sqlite", "etcd", "postgresql", "mysql"):
        passed = re.findall(
            rf"^PASSED tests/contract/test_store.py::test_law_(\d+)_\S*\[{store}", done.stdout, re.MULTILINE
        )
        laws = sorted({int(law) for law in passed})
        is_ok = done.returncode == 0 and len(laws) >= (7 if store == "memory" else 10)
        yield Line(is_ok, f"{store}: laws green", f"{len(passed)} tests of laws {laws}")
    last = done.stdout.splitlines()[-1]
    yield Line(done.returncode == 0 and minutes < 12, "contract suite", f"{last.strip(' =')}; {minutes:.1f} min")


def leaders_die_and_freeze_on_sql() -> Iterator[Line]:
    """As on the ground floor."""
    for harness, folder in places(PostgresHarness, MysqlHarness):
        took = []
        for number in range(ROUNDS):
            url = harness.url(beside=f"kill{number}")
            took.append(asyncio.run(kill_the_leader(url, numbered(folder, number), f"{TTL:g}s")).seconds)
        yield takeover(harness.name, took)
        thaw = asyncio.run(freeze_the_leader(harness.url(beside="freeze"), numbered(folder, 99), f"{TTL:g}s"))
        yield frozen(harness.name, thaw.accepted, thaw.refused)


def an_outage_kills_nobody() -> Iterator[Line]:
    """Each server is away for a minute."""
    for harness, folder in places(EtcdHarness, PostgresHarness, MysqlHarness):
        assert harness.running is not None
        outage = asyncio.run(take_the_store_away(harness.url(), harness.running, folder, OUTAGE))
        for line in outage.timeline:
            print(f"       {harness.name}: {line}")
        is_ok = outage.lost_sessions == 0 and outage.leaders == 1 and outage.has_kept
        figures = f"{outage.lost_sessions} declared dead, {outage.leaders} leader after, kept: {outage.has_kept}"
        yield Line(is_ok, f"{harness.name}: {OUTAGE:.0f} s without its server", figures)


def a_fleet_moves_from_store_to_store() -> Iterator[Line]:
    """SQLite → PostgreSQL → etcd, and a node starts on each."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-move-")))
        homes = stack.enter_context(closing_places(PostgresHarness, EtcdHarness))
        postgres, etcd = homes
        first = f"sqlite:///{base / 'first.db'}"
        asyncio.run(_fill(first))
        dumps = []
        for number, (source, target) in enumerate([(first, postgres.url()), (postgres.url(), etcd.url())]):
            dump = base / f"{number}.dump"
            for step in (("dump", source, dump), ("load", target, dump)):
                answer = rota("store", *step, cwd=base, within=120)
                if answer.code:
                    yield Line(False, "dump and load", answer.err.strip())
                    return
            dumps.append(_entries(dump))
        last = base / "last.dump"
        rota("store", "dump", etcd.url(), last, cwd=base)
        dumps.append(_entries(last))
        is_same = dumps[0] == dumps[1] == dumps[2]
        yield Line(is_same, "dump on SQLite, load on PostgreSQL, load on etcd: identical", f"{len(dumps[0])} entries")
        with rota_node(etcd.url(), "a", base, "5s") as node:
            end = time.monotonic() + 20
            while "leading" not in node.complaint() and time.monotonic() < end:
                time.sleep(0.1)
            yield Line("leading" in node.complaint(), "a fleet starts on what was loaded", "a node leads")


def the_stores_are_fast() -> Iterator[Line]:
    """`make bench`, by its own verdicts."""
    for only in ("store", "watch", "scale"):
        for row in benchmarks.run(only):
            yield Line(row.verdict != "short", row.name, figure(row))


def places(*kinds: type[StoreHarness]) -> Iterator[tuple[StoreHarness, Path]]:
    """Each store on a server of its own, and a folder."""
    for kind in kinds:
        with closing_places(kind) as homes:
            yield from homes.items()


@contextmanager
def closing_places(*kinds: type[StoreHarness]) -> Iterator[dict[StoreHarness, Path]]:
    """Stores with their servers and folders, for a while."""
    with ExitStack() as stack:
        homes = {}
        for kind in kinds:
            base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-show-")))
            base.chmod(0o755)  # PostgreSQL runs as a user of its own
            server = stack.enter_context(kind.server(numbered(base, 0))) if kind.server else None
            homes[kind(base, server)] = numbered(base, 1)
        yield homes


async def _fill(url: str) -> None:
    async with open_store(url) as store:
        for page in range(20):
            await store.commit(
                *(Put(f"/things/{page:02}/{number:03}", b'{"v":1}' * (number + 1)) for number in range(50))
            )
        await store.commit(Put("/bytes", bytes(range(256))), Put("/ünïcode", "ß".encode()))


def _entries(dump: Path) -> list[str]:
    """What a dump has, but for the entries that say who loaded it."""
    lines = [line for line in dump.read_text().splitlines() if line.startswith('{"key"')]
    return [line for line in lines if keys.AUDIT_OPEN not in line]


if __name__ == "__main__":
    show(
        [
            leaders_die_and_freeze_on_sql,
            a_fleet_moves_from_store_to_store,
            an_outage_kills_nobody,
            the_stores_are_fast,
            all_laws_hold_on_five_stores,
        ]
    )
