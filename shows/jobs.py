"""`make show-jobs`: what jobs must show. Takes about twenty minutes."""

import asyncio
import os
import pwd
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import psutil

import benchmarks
from rota.jobs.core.records import RunRecord, RunState
from rota.jobs.fleet import verbs
from rota.model import codec, keys
from rota.store import Store, open_store
from shows.ground import figure
from shows.report import Line, show
from tests.kit import clock_changes
from tests.kit.cli import rota
from tests.kit.faultproxy import FaultProxy
from tests.kit.fleet import Fleet
from tests.kit.harness import EtcdHarness, MysqlHarness, PostgresHarness, SqliteHarness, StoreHarness
from tests.kit.job_storm import TTL, Account, one_token, storm, storm_fleet
from tests.kit.node import NodeUnderTest, is_alive
from tests.kit.process import ROOT
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

STORM = 120.0
KILL_EVERY = 20.0
GOAL = 250.0
"""Milliseconds from due to start, of the 99th percentile, while all nodes live."""

GRACE = 2.0

RATES = {SqliteHarness: (100, 50, 20), EtcdHarness: (200, 100, 50)}
"""Jobs a second that these stores are tried with, until one is held."""


# Every due time once


def every_due_time_runs_once_though_nodes_are_killed() -> Iterator[Line]:
    """200 jobs that are due each second, in warm executors."""
    for kind in (PostgresHarness, MysqlHarness):
        yield from _stormed(kind, 200, process=False)


def so_does_it_with_a_process_per_run() -> Iterator[Line]:
    """20 jobs that are due each second."""
    for kind in (PostgresHarness, MysqlHarness):
        yield from _stormed(kind, 20, process=True)


def other_stores_hold_what_they_hold() -> Iterator[Line]:
    """The highest rate at which the 99th percentile stays below a second, without kills; then a storm at that rate."""
    for kind, rates in RATES.items():
        for jobs in rates:
            account = _storm(kind, jobs, 20, kill_every=None, process=False)
            if account.is_right and account.delay(99) < 1000:
                break
        what = f"{kind.name} holds {jobs} runs a second"
        yield Line(account.is_right, what, f"p50 {account.delay(50):.0f} ms, p99 {account.delay(99):.0f} ms")
        yield from _stormed(kind, jobs, process=False, seconds=60)


def _stormed(kind: type[StoreHarness], jobs: int, *, process: bool, seconds: float = STORM) -> Iterator[Line]:
    account = _storm(kind, jobs, seconds, kill_every=KILL_EVERY, process=process)
    how = "a process per run" if process else "warm executors"
    what = f"{kind.name}, 3 nodes, {jobs} one-second jobs for {seconds:.0f} s, {how}, {account.kills} kills −9"
    wrong = "; ".join((*account.unaccounted[:3], *account.doubled[:3]))
    yield Line(
        account.is_right,
        f"{what}: each due time ran exactly once, or is listed as missed",
        f"{account.due:,} due, {account.once:,} ran under one token, {account.again} once more under a later token "
        f"because their node was lost, {account.missed} listed as missed, {len(account.unaccounted)} without account, "
        f"{len(account.doubled)} doubled{f': {wrong}' if wrong else ''}",
    )
    yield Line(
        account.delay(99) < GOAL,
        f"{what}: due to start while all nodes live, p99 below {GOAL:g} ms",
        f"p50 {account.delay(50):.0f} ms, p99 {account.delay(99):.0f} ms of {len(account.delays):,}",
    )


def _storm(kind: type[StoreHarness], jobs: int, seconds: float, *, kill_every: float | None, process: bool) -> Account:
    with _place(kind) as (base, harness):
        return asyncio.run(_rage(base, harness.url(), jobs, seconds, kill_every, process))


async def _rage(base: Path, url: str, jobs: int, seconds: float, kill_every: float | None, process: bool) -> Account:
    async with storm_fleet(base, url, jobs, "--executors", 4, process=process) as fleet:
        return await storm(fleet, seconds, kill_every=kill_every)


@contextmanager
def _place(kind: type[StoreHarness]) -> Iterator[tuple[Path, StoreHarness]]:
    """A folder, and a store of this kind on a server of its own."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-storm-")))
        base.chmod(0o755)  # PostgreSQL runs as a user of its own
        (base / "server").mkdir()
        server = stack.enter_context(kind.server(base / "server")) if kind.server else None
        yield base, kind(base, server)


# Clocks that change


def due_times_where_clocks_change_follow_the_rule() -> Iterator[Line]:
    """The table over twelve zones, against a walk minute by minute."""
    zones = clock_changes.ZONES
    changes = sum(len(list(clock_changes.changes(ZoneInfo(zone)))) for zone in zones)
    wrong = [each for zone in zones for each in clock_changes.disagreements(zone)]
    yield Line(
        len(zones) >= 12 and not wrong,
        "due times around every change of clocks, 2026 to 2030, are those of the rule",
        f"{changes} changes of {len(zones)} zones, half hours (Lord Howe) and midnights (Beirut, Havana) among them",
    )


# Interrupting

TREE = """
trap 'echo asked to stop' TERM
setsid sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 0.1; done' &
sh -c 'trap "" TERM
    echo $$ >> pids
    sh -c "trap : TERM; echo \\$\\$ >> pids; while :; do sleep 0.1; done" &
    while :; do sleep 0.1; done' &
echo $$ >> pids
echo begun
while :; do sleep 0.1; done
"""

TRIAL = """
import os, time
import rota

app = rota.App("trial")
HERE = os.path.dirname(__file__)
SHARED = os.environ["TRIAL_FOLDER"]


def note(*words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


@app.job()
def slow(run: rota.Run) -> None:
    note(run.id, run.attempt, run.token)
    time.sleep(6)


@app.job()
def gated(run: rota.Run) -> None:
    note(run.id, run.attempt, run.token)
    while not os.path.exists(os.path.join(SHARED, "go")):
        time.sleep(0.01)
"""


@asynccontextmanager
async def _trial(names: str, *flags: object) -> AsyncIterator[tuple[Fleet, Path, str]]:
    """Nodes on SQLite, the folder of it all, and the store's URL."""
    with tempfile.TemporaryDirectory(prefix="rota-jobs-") as found:
        folder = Path(found)
        url = f"sqlite:///{folder}/rota.db"
        usual = ("--lease-ttl", f"{TTL:g}s", "--drain", "3s", "--token", one_token(folder), *flags)
        async with open_store(url) as store:
            with Fleet(folder, url, store, names, *usual, app=TRIAL, environ={"TRIAL_FOLDER": str(folder)}) as fleet:
                for node in fleet.nodes.values():
                    await node.ready(within=60)
                await eventually(lambda: store.get(keys.job("gated")), within=60)
                yield fleet, folder, url


def an_interrupted_command_is_gone_with_all_its_kin() -> Iterator[Line]:
    """A shell that traps TERM, with children, a grandchild, and one in a session of its own."""
    yield from asyncio.run(_interrupt())


async def _interrupt() -> list[Line]:
    os.environ["ROTA_COMMANDS_USER"] = pwd.getpwuid(os.geteuid()).pw_name  # it writes where only we may
    async with _trial("a", "--grace", f"{GRACE:g}s") as (fleet, folder, url):
        argv = ("jobs", "add", "tree", "--cwd", folder, "--store", url, "--", "sh", "-c", TREE)
        added = rota(*argv, cwd=folder)
        assert added.code == 0, added.err
        (run,) = await verbs.run_now(fleet.store, "tree", "show")
        pids = folder / "pids"
        kin = await eventually(
            lambda: pids.exists() and len(found := pids.read_text().split()) == 4 and [int(pid) for pid in found],
            within=30,
        )
        began = time.monotonic()
        await verbs.interrupt(fleet.store, run, "enough", "show")
        await eventually(lambda: not any(_lives(pid) for pid in kin), within=30)
        took = time.monotonic() - began
        over = await _over(fleet.store, run)
        log = rota("runs", "logs", run, "--store", url, cwd=folder).out
    is_complete = "begun" in log and "asked to stop" in log
    return [
        Line(
            took <= GRACE + 1,
            f"a command that traps TERM, with grandchildren: all gone within the grace and 1 s ({GRACE + 1:g} s)",
            f"{len(kin)} processes gone after {took:.2f} s",
        ),
        Line(
            over.state is RunState.INTERRUPTED and is_complete,
            "its state is interrupted, its log complete",
            f"{over.state}, {len(log)} bytes of output, from the first line to what it said when it was asked to stop",
        ),
    ]


def _lives(pid: int) -> bool:
    try:
        return is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


async def _over(store: Store, run: str, is_enough: Callable[[RunRecord], object] = lambda _: True) -> RunRecord:
    """A run that is over, once it is as it should be."""

    async def look() -> RunRecord | None:
        entry = await store.get(keys.run(run))
        found = codec.decode(RunRecord, entry.value) if entry else None
        return found if found is not None and is_enough(found) else None

    return await eventually(look, within=60)


# What gets lost on the way


def a_dispatch_whose_reply_is_lost_is_one_execution() -> Iterator[Line]:
    """One node only schedules, the other one runs; what it answers passes a proxy, which holds it."""
    yield from asyncio.run(_lost_reply())


async def _lost_reply() -> list[Line]:
    async with _trial("a", "--executors", 0) as (fleet, _folder, _url):
        port = free_port()
        async with FaultProxy(port, host="127.0.0.2", port=port) as between:
            doors = ("--grpc", f"127.0.0.2:{port}", "--advertise", "127.0.0.1", "--executors", 2)
            other = fleet.add_node("b", *doors)
            await other.ready(within=60)
            await asyncio.sleep(2)  # until it is known to be reached
            between.hold_answers()
            (run,) = await verbs.run_now(fleet.store, "slow", "show")
            await eventually(other.notes, within=30)
            await asyncio.sleep(3)  # the answer is given up, and the node asked again
            await between.heal()
            over = await _over(fleet.store, run)
        notes = [words for words in other.notes() if words[0] == run]
    return [
        Line(
            len(notes) == 1 and over.state is RunState.SUCCEEDED and over.attempt == 1,
            "a dispatch whose reply is lost after it was accepted: one execution",
            f"{len(notes)} executed, {over.state} as attempt {over.attempt}",
        )
    ]


def what_a_frozen_node_says_late_changes_nothing() -> Iterator[Line]:
    """It is frozen while its attempt comes to a good end, and wakes when another node has done it."""
    yield from asyncio.run(_frozen())


async def _frozen() -> list[Line]:
    async with _trial("ab", "--executors", 2) as (fleet, folder, url):
        (run,) = await verbs.run_now(fleet.store, "gated", "show")
        first = await eventually(lambda: next((each for each in fleet.nodes.values() if each.notes()), None), within=30)
        first.freeze_between_writes(url)  # the agent alone: its executor comes to an end
        (folder / "go").touch()
        before = await _over(fleet.store, run)
        first.thaw()
        after = await _over(fleet.store, run, lambda found: found.late)
        told = rota("events", "--kind", "run.late", "--store", url, cwd=folder).out
    late = after.late[0]
    same = (after.state, after.epoch, after.node, after.outcome) == (
        before.state,
        before.epoch,
        before.node,
        before.outcome,
    )
    return [
        Line(
            same and before.node != first.name and late.node == first.name,
            "a frozen node that wakes and reports success late: kept as late, the final state unchanged",
            f"{before.state} elsewhere as attempt {before.attempt}; late: {late.outcome.state} as attempt "
            f"{late.attempt}; an event says so: {run in told}",
        )
    ]


# Bad specs

BAD = {
    "minute 61": ("--cron", "61 * * * *", "--", "true"),
    "an unknown zone": ("--cron", "0 3 * * *", "--tz", "Europe/Atlantis", "--", "true"),
    "a job that comes after itself": ("--after", "bad", "--", "true"),
    "a job that comes after one that there is not": ("--after", "nobody", "--", "true"),
    "no command": ("--cron", "0 3 * * *", "--"),
    "a cron and an every": ("--cron", "0 3 * * *", "--every", "1m", "--", "true"),
    "a misfire that there is not": ("--every", "1m", "--misfire", "never", "--", "true"),
}
CIRCLE = """
import rota

app = rota.App("circle")
app.command("one", ["true"], after="two")
app.command("two", ["true"], after="one")
"""


def bad_specs_are_refused_before_anything_is_stored() -> Iterator[Line]:
    """By the command line, and by an app."""
    with tempfile.TemporaryDirectory(prefix="rota-bad-") as found:
        folder = Path(found)
        url = f"sqlite:///{folder}/rota.db"
        assert _stored(url) == 0  # and with that there is a store
        for what, words in BAD.items():
            said = rota("jobs", "add", "bad", "--store", url, *words, cwd=folder)
            yield Line(said.code != 0 and _stored(url) == 0, f"{what} is refused", _sentence(said.err))
        with NodeUnderTest(folder / "node", app=CIRCLE, store=url) as node:
            said_by_app = asyncio.run(_complaint(node))
        yield Line(_stored(url) == 0, "an app with a circle of after= is refused", said_by_app)


async def _complaint(node: NodeUnderTest) -> str:
    return await eventually(
        lambda: next((line for line in node.complaint().splitlines() if "circle" in line), None), within=30
    )


def _stored(url: str) -> int:
    async def count() -> int:
        async with open_store(url) as store:
            return len((await store.scan(keys.JOBS)).entries)

    return asyncio.run(count())


def _sentence(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing was said")


# Beside others


def it_is_faster_than_its_peers() -> Iterator[Line]:
    """`make bench`'s part about jobs, by its own verdicts."""
    for row in benchmarks.run(only="jobs"):
        yield Line(row.verdict != "short", row.name, figure(row))


if __name__ == "__main__":
    os.chdir(ROOT)
    show(
        [
            bad_specs_are_refused_before_anything_is_stored,
            due_times_where_clocks_change_follow_the_rule,
            an_interrupted_command_is_gone_with_all_its_kin,
            a_dispatch_whose_reply_is_lost_is_one_execution,
            what_a_frozen_node_says_late_changes_nothing,
            every_due_time_runs_once_though_nodes_are_killed,
            so_does_it_with_a_process_per_run,
            other_stores_hold_what_they_hold,
            it_is_faster_than_its_peers,
        ]
    )
