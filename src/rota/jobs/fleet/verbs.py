"""What callers ask of jobs and runs: plain functions on the store, for every door.

Each reads, decides and writes in one commit that expects what it read. After a conflict it reads and decides again, a
few times; then the caller gets Conflict. Times are the store's. Nothing here needs this node to run jobs: the
schedulers see what was written.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from random import random
from typing import Any, TypeVar

import msgspec

from rota.jobs.core import outcome as outcomes
from rota.jobs.core.backfill import backfill as missing_runs
from rota.jobs.core.backfill import kept
from rota.jobs.core.circle import circle
from rota.jobs.core.due import new_run
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSpec, Origin, RunRecord, RunState, job_of
from rota.kit.aside import in_thread
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound
from rota.model.ids import Key, Revision
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Store, Write
from rota.store.records import understood

TRIES = 5
PAGE = 1000
BATCH, BYTES = 50, 900_000
"""Runs made in one commit at most, and their size in bytes together."""

LARGEST = 64 * 1024
"""Bytes of a payload, as JSON: it travels with the run, through the store and to its node."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

T = TypeVar("T")
Dice = Callable[[], float]


# Jobs


async def put_job(
    store: Store,
    wanted: JobSpec,
    origin: Origin,
    by: str,
    *,
    app: str = "",
    expected: Revision | None = None,
) -> Revision:
    """Add a job or change it, and return its version; with `expected`, only if it still has that version (0: is new).

    Raises Invalid if it comes after an unknown job, or after itself through other jobs.
    """

    async def put() -> Revision:
        now, key = await store.now(), keys.job(wanted.name)
        entry = await store.get(key)
        before = codec.decode(JobRecord, entry.value) if entry else None
        version = entry.modified if entry else Revision(0)
        if expected is not None and expected != version:
            raise _Stale(f'job "{wanted.name}" has version {version}, not {expected}; look at it again', [key])
        await _check_after(store, wanted)
        record = _changed(before, wanted, origin, by, app, now)
        if before is not None and replace(record, at=before.at, by=before.by) == before:
            return version
        return await store.commit(Put(key, codec.encode(record)), expect=[_as_read(key, entry)])

    return await _persistently(put)


async def enable(store: Store, name: str, by: str) -> None:
    """Enable a job's schedule, from now on."""
    await _switch(store, name, by, is_on=True)


async def disable(store: Store, name: str, by: str) -> None:
    """Disable a job's schedule; runs that are not over continue, and the job can still be run by hand."""
    await _switch(store, name, by, is_on=False)


async def delete_job(store: Store, name: str) -> None:
    """Delete a job. Runs that wait are interrupted, those that run go on to their end, the history stays."""

    async def delete() -> None:
        entry = await _need_job(store, name)
        gone = (Delete(key) for key in (entry.key, keys.job_cursor(name), keys.job_success(name)))
        await store.commit(*gone, expect=[At(entry.key, entry.modified)])

    await _persistently(delete)


# Runs


async def run_now(
    store: Store, name: str, by: str, dice: Dice = random, *, payloads: Sequence[Any] = (None,)
) -> list[str]:
    """Start runs of a job, one for each payload; their ids."""
    entry = await _need_job(store, name)
    spec, now = codec.decode(JobRecord, entry.value).spec, await store.now()
    runs = [_by_hand(spec, now, by, payload, dice) for payload in payloads]
    await _make(store, runs, At(entry.key, entry.modified))
    return [run.id for run in runs]


class Prepared(msgspec.Struct, frozen=True):
    """A run that is to be made, and the job as it was read for it."""

    run: RunRecord
    job: Expect


async def prepare_run(store: Store, name: str, by: str, payload: Any = None, dice: Dice = random) -> Prepared:
    """A run of a job that is started by hand; nothing is written."""
    entry = await _need_job(store, name)
    spec, now = codec.decode(JobRecord, entry.value).spec, await store.now()
    return Prepared(_by_hand(spec, now, by, payload, dice), At(entry.key, entry.modified))


def _by_hand(spec: JobSpec, now: datetime, by: str, payload: Any, dice: Dice) -> RunRecord:
    run = new_run(spec, now, Cause.MANUAL, now, more=_suffix(dice))
    return msgspec.structs.replace(run, payload=payload, by=by)


async def make_run(store: Store, prepared: Prepared, *also: Put) -> None:
    """Make a run, and in the same commit a note about it, whose key must not exist yet."""
    for batch in _batches([prepared.run]):
        await _commit_runs(store, batch, prepared.job, {}, also)


async def restart(store: Store, run_id: str, by: str, dice: Dice = random) -> str:
    """Repeat a run that is over; returns the new run's id."""
    entry = await store.get(keys.run(run_id))
    if entry is None:
        if await store.get(keys.live_run(run_id)) is not None:
            raise Invalid(f"run {run_id} is not over; interrupt it first, or wait")
        raise _no_run(run_id)
    old, job = codec.decode(RunRecord, entry.value), await _need_job(store, job_of(run_id))
    spec, now = codec.decode(JobRecord, job.value).spec, await store.now()
    run = new_run(spec, old.due, Cause.RESTART, now, more=_suffix(dice))
    run = msgspec.structs.replace(run, payload=old.payload, of=old.id, by=by)
    await _make(store, [run], At(job.key, job.modified))
    return run.id


async def interrupt(store: Store, run_id: str, why: str, by: str) -> RunRecord:
    """Request that a run is stopped; returns the run after that: over if it was waiting, otherwise to be stopped by its
    node."""

    async def stop() -> RunRecord:
        key = keys.live_run(run_id)
        entry = await store.get(key)
        if entry is None:
            if await store.get(keys.run(run_id)) is not None:
                raise Invalid(f"run {run_id} is over already; there is nothing to interrupt")
            raise _no_run(run_id)
        run = codec.decode(RunRecord, entry.value)
        after = outcomes.interrupt(run, f"{why or 'interrupted'} ({by})" if by else why, await store.now())
        if after.is_over:
            writes = (Delete(key), Put(keys.run(run_id), codec.encode(after)))
            await store.commit(*writes, expect=[At(key, entry.modified)])
        else:
            after = msgspec.structs.replace(after, epoch=run.epoch_at(entry.modified))
            await store.commit(Put(key, codec.encode(after)), expect=[At(key, entry.modified)])
        return after

    return await _persistently(stop)


async def delete_run(store: Store, run_id: str) -> None:
    """Delete a run that is over."""
    if await store.get(keys.live_run(run_id)) is not None:
        raise Invalid(f"run {run_id} is not over; interrupt it first")
    if await store.get(keys.run(run_id)) is None:
        raise _no_run(run_id)
    await store.commit(Delete(keys.run(run_id)))


async def backfill(
    store: Store, name: str, first: datetime, last: datetime, by: str, *, is_forced: bool = False
) -> list[str]:
    """Make the runs of due times between two moments that had none; their ids.

    Raises Invalid if one of them may have run and its record have been deleted; not if `is_forced`.
    """
    made: list[str] = []

    async def make() -> list[str]:
        missing = await _missing(store, name, first, last, is_forced)
        for batch in _batches([msgspec.structs.replace(run, by=by) for run in missing.runs]):
            await _commit_runs(store, batch, missing.job, missing.records)
            made.extend(run.id for run, _ in batch)
        return made

    return await _persistently(make)


async def preview_backfill(
    store: Store, name: str, first: datetime, last: datetime, *, is_forced: bool = False
) -> list[str]:
    """The ids of the runs that a backfill would make now; raises Invalid where that one would."""
    return [run.id for run in (await _missing(store, name, first, last, is_forced)).runs]


# How


class _Missing(msgspec.Struct, frozen=True):
    """Runs that a job lacks, and what was read to find them."""

    job: Expect
    runs: list[RunRecord]
    records: Mapping[str, Revision]
    """The versions of the records of missed due times."""


async def _missing(store: Store, name: str, first: datetime, last: datetime, is_forced: bool) -> _Missing:
    """A run for each of a job's due times between two moments that had none."""
    entry = await _need_job(store, name)
    cursor = await store.get(keys.job_cursor(name))
    living = [found.key.removeprefix(keys.LIVE_RUNS) async for found in _each(store, f"{keys.LIVE_RUNS}{name}/")]
    strange, over, records = list[str](), list[RunRecord](), dict[str, Revision]()
    async for found in _each(store, keys.runs(name)):
        run = understood(RunRecord, found)
        if run is None:
            strange.append(keys.run_of(found.key))
            continue
        over.append(msgspec.structs.replace(run, payload=None))
        if run.state is RunState.MISSED:
            records[run.id] = found.modified
    record, position = codec.decode(JobRecord, entry.value), codec.decode(JobCursor, cursor.value) if cursor else None
    now = await store.now()

    def find() -> list[RunRecord]:
        return missing_runs(record, position, first, last, kept((*living, *strange), over), now, is_forced=is_forced)

    runs = await in_thread(find)  # there may be thousands of due times; let other requests run meanwhile
    return _Missing(At(entry.key, entry.modified), runs, records)


def _changed(before: JobRecord | None, wanted: JobSpec, origin: Origin, by: str, app: str, now: datetime) -> JobRecord:
    if before is None:
        return JobRecord(spec=wanted, origin=origin, since=now, at=now, by=by, app=app)
    is_same = (wanted.cron, wanted.every, wanted.tz) == (before.spec.cron, before.spec.every, before.spec.tz)
    since = before.since if is_same else now
    return replace(before, spec=wanted, origin=origin, since=since, at=now, by=by, app=app)


async def _switch(store: Store, name: str, by: str, *, is_on: bool) -> None:
    async def switch() -> None:
        entry = await _need_job(store, name)
        record = codec.decode(JobRecord, entry.value)
        if record.enabled == is_on:
            return
        now = await store.now()
        changed = replace(record, enabled=is_on, since=now if is_on else record.since, at=now, by=by)
        writes, expect = [Put(entry.key, codec.encode(changed))], [At(entry.key, entry.modified)]
        if is_on and record.spec.after:
            key = keys.job_cursor(name)
            before = await store.get(key)
            writes.append(Put(key, codec.encode(await _past(store, record.spec.after, before))))
            await store.commit(*writes, expect=[*expect, _as_read(key, before)])
        else:
            await store.commit(*writes, expect=expect)

    await _persistently(switch)


async def _past(store: Store, after: Sequence[str], entry: Entry | None) -> JobCursor:
    """The cursor of a job that comes after others, moved behind every success so far."""
    before = codec.decode(JobCursor, entry.value) if entry else JobCursor()
    successes = {name: await store.get(keys.job_success(name)) for name in after}
    used = {name: success.modified for name, success in successes.items() if success is not None}
    return msgspec.structs.replace(before, used={**before.used, **used})


async def _check_after(store: Store, wanted: JobSpec) -> None:
    if not wanted.after:
        return
    known = {
        entry.key.removeprefix(keys.JOBS): understood(JobRecord, entry)
        for entry in (await store.scan(keys.JOBS)).entries
    }
    after = {name: record.spec.after if record else () for name, record in known.items()}
    for other in wanted.after:
        if other not in after:
            raise Invalid(
                f'job "{wanted.name}": it comes after "{other}", and there is no such job; add that one first'
            )
    if found := circle(wanted.name, {**after, wanted.name: wanted.after}):
        raise Invalid(f'job "{wanted.name}": after goes in a circle: {" after ".join(found)}; break it')


async def _make(store: Store, runs: Sequence[RunRecord], job: Expect) -> None:
    for batch in _batches(runs):
        await _commit_runs(store, batch, job, {})


def _batches(runs: Sequence[RunRecord]) -> Iterator[list[tuple[RunRecord, bytes]]]:
    """Runs that are made in one commit, and how they are written; Invalid if one is too large."""
    encoded = [(run, codec.encode(run)) for run in runs]
    for run, value in encoded:
        if len(value) > LARGEST + 4096:
            raise Invalid(
                f"the payload of a run of {run.job} has more than {LARGEST} bytes; hand large input over by reference"
            )
    batch, size = list[tuple[RunRecord, bytes]](), 0
    for run, value in encoded:
        if batch and (len(batch) == BATCH or size + len(value) > BYTES):
            yield batch
            batch, size = [], 0
        batch.append((run, value))
        size += len(value)
    if batch:
        yield batch


async def _commit_runs(
    store: Store,
    batch: Sequence[tuple[RunRecord, bytes]],
    job: Expect,
    missed: Mapping[str, Revision],
    also: Sequence[Put] = (),
) -> None:
    """Make runs, unless one with the same id exists, living or over; the record of a missed due time is replaced by its
    run."""
    writes: list[Write] = [Put(keys.live_run(run.id), value) for run, value in batch]
    writes += [Delete(keys.run(run.id)) for run, _ in batch if run.id in missed]
    living = [Absent(keys.live_run(run.id)) for run, _ in batch]
    over = [At(keys.run(run.id), missed[run.id]) if run.id in missed else Absent(keys.run(run.id)) for run, _ in batch]
    await store.commit(*writes, *also, expect=[job, *living, *over, *(Absent(put.key) for put in also)])


async def _need_job(store: Store, name: str) -> Entry:
    entry = await store.get(keys.job(name))
    if entry is None:
        raise NotFound(f'there is no job "{name}"; rota jobs ls shows those there are')
    return entry


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"there is no run {run_id}; rota runs ls shows those there are")


async def _each(store: Store, prefix: Key) -> AsyncIterator[Entry]:
    after: Key | None = None
    while True:
        listing = await store.scan(prefix, after=after, limit=PAGE)
        for entry in listing.entries:
            yield entry
        if not listing.more:
            return
        after = listing.entries[-1].key


def _as_read(key: Key, entry: Entry | None) -> Expect:
    return Absent(key) if entry is None else At(key, entry.modified)


def _suffix(dice: Dice) -> str:
    return "".join(_DIGITS[int(dice() * len(_DIGITS))] for _ in range(8))


class _Stale(Conflict):
    """The caller expected another version, so reading again does not help."""

    code = "stale_version"


async def _persistently(call: Callable[[], Awaitable[T]]) -> T:
    for attempt in range(TRIES):
        try:
            return await call()
        except _Stale:
            raise
        except Conflict:
            if attempt == TRIES - 1:
                raise
        await asyncio.sleep(0)
    raise AssertionError
