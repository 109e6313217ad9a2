"""A storm: a fleet whose jobs are due every second, while its nodes are killed; and the account of it.

Each attempt appends its run, attempt, token and time to a file of its node as the first thing it does. In the end these
notes are held against what the store knows: every due time must have had its run, or be among those recorded as
missed, and no token may have been noted twice.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from rota.jobs.core.due import LATE, decided, times
from rota.jobs.core.records import Cause, JobCursor, JobRecord, RunRecord, RunState
from rota.jobs.fleet import verbs
from rota.model import codec, keys
from rota.model.ids import Key
from rota.store import Entry, Store, open_store
from tests.kit.fleet import Fleet
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually

TTL = 3.0
"""Seconds of the nodes' leases."""

NAMES = "abc"

JOBS = """
import os, time

NOTES = os.path.join(os.path.dirname(__file__), "notes")


def note(run: rota.Run) -> None:
    due = run.due.timestamp() if run.due else 0.0
    line = f"{{run.id}} {{run.attempt}} {{run.token}} {{due:.3f}} {{time.time():.6f}}\\n"
    fd = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)
    time.sleep({linger})


for number in range({jobs}):
    app.job(name=f"j{{number:03}}", every="{every}", process={process}, retries={retries})(note)
"""
"""What follows an app: jobs that note each attempt and linger; `process` may be said of each `number`."""

APP = """
import rota

app = rota.App("storm")
"""


@dataclass(frozen=True)
class Note:
    """What an attempt wrote when it began."""

    run: str
    attempt: int
    token: int
    due: float
    at: float


@dataclass
class Account:
    """What became of the due times."""

    due: int = 0
    once: int = 0
    """Ran under one token."""

    again: int = 0
    """Ran under one more token, after its node was lost."""

    missed: int = 0
    """Recorded as missed, or as stood for by another run."""

    missed_when: list[datetime] = field(default_factory=list)
    hasty: list[str] = field(default_factory=list)
    """Due times that were given up before they were late."""

    unaccounted: list[str] = field(default_factory=list)
    """Due times of which nothing is known, or whose success nobody noted."""

    doubled: list[str] = field(default_factory=list)
    """Runs of which one token was noted twice, or which ran again though no node was lost."""

    delays: list[float] = field(default_factory=list)
    """Seconds from due to start, of those that were due while all nodes lived."""

    kills: int = 0

    @property
    def is_right(self) -> bool:
        """Did every due time run exactly once, or is it among the missed?"""
        return self.due > 0 and not self.unaccounted and not self.doubled and not self.hasty

    def delay(self, percent: int) -> float:
        """That percentile of the delays, in milliseconds."""
        ordered = sorted(self.delays)
        return 1000 * ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else float("inf")


@dataclass
class Calm:
    """When all nodes lived."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    def has(self, moment: float) -> bool:
        """Was it calm then?"""
        return any(start <= moment <= end for start, end in self.spans)


@asynccontextmanager
async def storm_fleet(folder: Path, url: str, jobs: int, *flags: object, process: bool = False) -> AsyncIterator[Fleet]:
    """Three nodes with so many jobs that are due every second."""
    app = APP + JOBS.format(jobs=jobs, every="1s", process=process, retries=0, linger=0)
    usual = ("--lease-ttl", f"{TTL:g}s", "--drain", "3s", "--token", one_token(folder))
    async with open_store(url) as store:
        with Fleet(folder, url, store, NAMES, *usual, *flags, app=app) as fleet:
            for node in fleet.nodes.values():
                await node.ready(within=60)
            await eventually(lambda: has_jobs(store, jobs), within=60)
            yield fleet


def one_token(folder: Path) -> str:
    """A reference to a token that all nodes of a fleet can have: without it they do not talk to each other."""
    token = folder / "fleet-token"
    token.touch(mode=0o600)
    token.write_text("rota_test_0123456789abcdefghij\n")
    return f"file:{token}"


async def has_jobs(store: Store, count: int) -> bool:
    """Has the store so many jobs?"""
    return len(await _all(store, keys.JOB_CURSORS)) == count


async def storm(fleet: Fleet, seconds: float, *, kill_every: float | None = None) -> Account:
    """Let it rage, and say what became of it."""
    calm, kills = Calm(), 0
    began = since = time.time()
    victims = _in_turn(fleet)
    while (left := began + seconds - time.time()) > 0:
        if kill_every is None or left <= kill_every:
            await asyncio.sleep(left)
            break
        await asyncio.sleep(max(0.0, since + kill_every - time.time()))
        calm.spans.append((since, time.time() - 1))
        victim = next(victims)
        victim.kill()
        kills += 1
        victim.start()
        await victim.ready(within=60)
        since = time.time() + 1  # so that a due time before it is not counted
    calm.spans.append((since, time.time() - 1))
    await come_to_rest(fleet.store)
    return await account_of(fleet, calm, kills)


def _in_turn(fleet: Fleet) -> Iterator[NodeUnderTest]:
    while True:
        yield from fleet.nodes.values()


async def come_to_rest(store: Store) -> None:
    """Nothing is due any more, and nothing runs."""
    for name in [entry.key.removeprefix(keys.JOBS) for entry in await _all(store, keys.JOBS)]:
        await verbs.disable(store, name, "storm")

    async def is_quiet() -> bool:
        return not (await store.scan(keys.LIVE_RUNS, limit=1)).entries

    await eventually(is_quiet, within=90)


async def account_of(fleet: Fleet, calm: Calm, kills: int) -> Account:
    """Hold what the nodes noted against what the store knows."""
    notes = [note for node in fleet.nodes.values() for note in _notes(node.notes())]
    by_run: defaultdict[str, list[Note]] = defaultdict(list)
    for note in notes:
        by_run[note.run].append(note)
    runs = [codec.decode(RunRecord, entry.value) for entry in await _all(fleet.store, keys.RUNS)]
    of_job: defaultdict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        if run.cause is Cause.SCHEDULE:
            of_job[run.job].append(run)
    account = Account(kills=kills)
    cursors = {entry.key.removeprefix(keys.JOB_CURSORS): entry for entry in await _all(fleet.store, keys.JOB_CURSORS)}
    for entry in await _all(fleet.store, keys.JOBS):
        record = codec.decode(JobRecord, entry.value)
        cursor = codec.decode(JobCursor, cursors[record.spec.name].value)
        _count_job(account, record, decided(record, cursor), of_job[record.spec.name], by_run)
    for note in notes:
        if note.attempt == 1 and calm.has(note.due):
            account.delays.append(note.at - note.due)
    return account


def _count_job(
    account: Account, record: JobRecord, upto: datetime, runs: list[RunRecord], notes: dict[str, list[Note]]
) -> None:
    """Hold one job's due times against its runs, and those against the notes."""
    by_due = {run.due: run for run in runs}
    skipped = [(run.skipped, run.created) for run in runs if run.skipped is not None]
    for due in takewhile(lambda due: due <= upto, times(record.spec, record.since)):
        account.due += 1
        run = by_due.get(due)
        if run is not None and run.state is not RunState.MISSED:
            _count_run(account, run, notes[run.id])
        elif created := next((at for each, at in skipped if each.first <= due <= each.last), None):
            account.missed += 1
            account.missed_when.append(due)
            if created < due + LATE:
                account.hasty.append(f"{record.spec.name} at {due}, given up at {created}")
        else:
            account.unaccounted.append(f"{record.spec.name} at {due}")


def _count_run(account: Account, run: RunRecord, notes: Iterable[Note]) -> None:
    tokens = Counter(note.token for note in notes)
    lost = {each.epoch for each in (*run.earlier, *run.late)}
    if any(count > 1 for count in tokens.values()) or tokens.keys() - {run.epoch} - lost:
        account.doubled.append(run.id)
    elif run.epoch not in tokens:
        account.unaccounted.append(f"{run.id}: {run.state}, and nobody noted that it ran")
    elif len(tokens) > 1:
        account.again += 1
    else:
        account.once += 1


def _notes(lines: Iterable[list[str]]) -> Iterator[Note]:
    for run, attempt, token, due, at in lines:
        yield Note(run, int(attempt), int(token), float(due), float(at))


async def _all(store: Store, prefix: Key) -> list[Entry]:
    found: list[Entry] = []
    while True:
        listing = await store.scan(prefix, after=found[-1].key if found else None, limit=1000)
        found += listing.entries
        if not listing.more:
            return found
