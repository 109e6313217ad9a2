"""Operations on jobs and runs: what can be asked of them, as plain functions on the store.

The decisions and the writes are `control.jobs.verbs`; here is what a caller sees of them, and what is allowed to whom.
A job that an app or a file declares is changed there; at a door it can be run, switched on and off, and looked at.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Self

import msgspec

from rota.api import idempotency
from rota.api.bodies import BackfillBody, JobBody, ReasonBody, RunBody
from rota.api.job_schema import (
    DueTime,
    DueTimes,
    JobPage,
    JobView,
    LogPart,
    RunIds,
    RunPage,
    RunView,
    job_view,
    run_view,
)
from rota.api.log_at import LogAt
from rota.api.operations import MAX_PAGE, PAGE, check_limit, check_wait
from rota.api.parameters import (
    AttemptNumber,
    DueAfter,
    DueCount,
    DueSince,
    FirstDue,
    IfMatch,
    InStates,
    IsForced,
    JobName,
    LastDue,
    Limit,
    Offset,
    OfJob,
    OnceKey,
    Prefix,
    RanOn,
    RunId,
    Token,
    Wait,
)
from rota.api.verbs import needs, verb
from rota.control.jobs import verbs
from rota.decide.access import Access
from rota.decide.jobs import due as dues
from rota.decide.jobs.preview import preview
from rota.kit.aside import in_thread
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable
from rota.model.ids import Key, NodeId, Revision
from rota.model.job import JobCursor, JobRecord, Origin, Outcome, RunRecord, RunState, job_of
from rota.model.link import AttemptId, LogPiece
from rota.store.follow import follow
from rota.store.logs.port import CHUNK, Logs
from rota.store.logs.reading import read_piece
from rota.store.port import Entry, Store
from rota.store.records import understood
from rota.workloads.checks import did_you_mean
from rota.workloads.jobs.spec import read_job

MOST_DUE = 1000
"""Due times that one preview shows."""

LARGEST_PAYLOAD = 64 * 1024
"""Bytes of what is given to a run."""

MOST_LOOKED_AT = 2000
"""Runs that one call looks at for those in a state; what it finds by then is the page."""

POLL = 0.5
"""Seconds between looks at a log that grows."""

LINGER = 3.0
"""Seconds for which the last output of an attempt that is over is waited for."""

AWAY = 30.0
"""Seconds for which the node that has a log may be out of reach while it is followed."""

LIVING = "living:"
"""How a token begins that goes on among the runs that are not over; no job's name has a colon."""


# Jobs


@verb("GET", "/v1/jobs", Access.VIEW, rpc="Jobs.List", heavy=True)
async def list_jobs(store: Store, *, prefix: Prefix = "", limit: Limit = PAGE, token: Token = None) -> JobPage:
    """Jobs in the order of the name; `token` is the `next` of the page before."""
    check_limit(limit)
    after = keys.job(token) if token else None
    page = await store.scan(keys.JOBS + prefix, after=after, limit=limit)
    jobs, strange = [], {}
    now = await store.now()
    for entry in page.entries:
        name = entry.key.removeprefix(keys.JOBS)
        try:
            jobs.append(await _job_view(store, entry, now))
        except Invalid as error:
            strange[name] = str(error)
    last = page.entries[-1].key.removeprefix(keys.JOBS) if page.more else None
    return JobPage(jobs=tuple(jobs), next=last, not_understood=strange)


@verb("GET", "/v1/jobs/{name}", Access.VIEW, rpc="Jobs.Get", is_versioned=True)
async def get_job(store: Store, name: JobName) -> JobView:
    """A job, when it is due next, and how it is doing; NotFound if there is none."""
    return await _job_view(store, await _job(store, name), await store.now())


@verb("PUT", "/v1/jobs/{name}", Access.ADMIN, rpc="Jobs.Put", body=JobBody, is_versioned=True)
async def put_job(store: Store, fields: Mapping[str, object], *, by: str, version: IfMatch = None) -> JobView:
    """Add a job, or give one other fields; Conflict if it is not at `version` any more (0: if it is there)."""
    wanted = read_job(fields)
    entry = await store.get(keys.job(wanted.name))
    _refuse_declared(understood(JobRecord, entry), wanted.name)
    expected = None if version is None else Revision(version)
    await verbs.put_job(store, wanted, Origin.API, by, expected=expected)
    return await get_job(store, wanted.name)


@verb("DELETE", "/v1/jobs/{name}", Access.ADMIN, rpc="Jobs.Delete", deletes=True)
async def delete_job(store: Store, name: JobName, *, by: str) -> None:
    """Delete a job. Runs that wait are interrupted, those that run go on to their end, the history stays."""
    entry = await _job(store, name)
    _refuse_declared(codec.decode(JobRecord, entry.value), name)
    await verbs.delete_job(store, name)


@verb("POST", "/v1/jobs/{name}/enable", Access.OPERATE, rpc="Jobs.Enable", is_versioned=True)
async def enable_job(store: Store, name: JobName, *, by: str) -> JobView:
    """Let a job be due again, from now on."""
    await _job(store, name)
    await verbs.enable(store, name, by)
    return await get_job(store, name)


@verb("POST", "/v1/jobs/{name}/disable", Access.OPERATE, rpc="Jobs.Disable", is_versioned=True)
async def disable_job(store: Store, name: JobName, *, by: str) -> JobView:
    """Let a job not be due any more; runs that live go on, and it can still be run by hand."""
    await _job(store, name)
    await verbs.disable(store, name, by)
    return await get_job(store, name)


@verb("GET", "/v1/jobs/{name}/preview", Access.VIEW, rpc="Jobs.Preview", answer=DueTimes, heavy=True)
async def preview_job(
    store: Store, name: JobName, *, count: DueCount = 10, after: DueAfter = None
) -> tuple[DueTime, ...]:
    """When a job is due next, and which of these times are odd because clocks change."""
    if not 1 <= count <= MOST_DUE:
        raise Invalid(f"count is {count}; it must be from 1 to {MOST_DUE}")
    spec = codec.decode(JobRecord, (await _job(store, name)).value).spec
    begin = after or await store.now()
    coming = await in_thread(lambda: preview(spec, begin, count=count))
    return tuple(DueTime(due=each.due, local=each.local, odd=each.odd) for each in coming)


@verb(
    "POST",
    "/v1/jobs/{name}/backfill",
    Access.OPERATE,
    rpc="Jobs.Backfill",
    body=BackfillBody,
    answer=RunIds,
    makes=True,
    heavy=True,
)
async def backfill_job(
    store: Store, name: JobName, first: FirstDue, last: LastDue, *, by: str, is_forced: IsForced = False
) -> tuple[str, ...]:
    """Make the runs of due times between two moments that had none; their ids.

    Raises Invalid if one of them may have run and its record have been deleted; not with `force`.
    """
    _check_span(first, last)
    await _job(store, name)
    return tuple(await verbs.backfill(store, name, first, last, by, is_forced=is_forced))


@verb("GET", "/v1/jobs/{name}/backfill", Access.VIEW, rpc="Jobs.PreviewBackfill", answer=RunIds, heavy=True)
async def preview_backfill(
    store: Store, name: JobName, first: FirstDue, last: LastDue, *, is_forced: IsForced = False
) -> tuple[str, ...]:
    """The runs that a backfill would make; nothing is changed. Raises Invalid where that one would."""
    _check_span(first, last)
    await _job(store, name)
    return tuple(await verbs.preview_backfill(store, name, first, last, is_forced=is_forced))


def _check_span(first: datetime, last: datetime) -> None:
    if last < first:
        raise Invalid(f"from {first.isoformat()} to {last.isoformat()}; the end must not be before the beginning")


@verb(
    "POST", "/v1/jobs/{name}/run", Access.OPERATE, rpc="Jobs.Start", body=RunBody, makes=True, found_at="/v1/runs/{run}"
)
async def run_job(
    store: Store,
    name: JobName,
    *,
    by: str,
    payload: object = None,
    wait: Wait = None,
    key: OnceKey = None,
) -> RunView:
    """Start a run of a job by hand; with `wait`, return when it is over, or when that time is.

    With an idempotency `key` a repeat gives the run that the first request made; Conflict if that is deleted, or if the
    key was used for another request.
    """
    check_wait(wait)
    check_payload(payload)
    await _job(store, name)
    run = await _started(store, name, by, payload, key)
    return await await_run(store, run, wait) if wait else await get_run(store, run)


async def _started(store: Store, name: str, by: str, payload: object, key: str | None) -> str:
    """The run that was made, or that this request made before."""
    if key is None:
        [run] = await verbs.run_now(store, name, by, payloads=[payload])
        return run
    request = idempotency.digest({"run": name, "payload": payload})
    if note := await idempotency.find(store, key, request, by):
        return await _started_before(store, key, note)
    prepared = await verbs.prepare_run(store, name, by, payload)
    made = idempotency.Note(request=request, kind="run", id=prepared.run.id, uid="")
    try:
        async with idempotency.noted(store, key, made, by) as also:
            await verbs.make_run(store, prepared, also)
    except Conflict:
        # Perhaps the same request, a moment earlier.
        if note := await idempotency.find(store, key, request, by):
            return await _started_before(store, key, note)
        raise
    return prepared.run.id


async def _started_before(store: Store, key: str, note: idempotency.Note) -> str:
    try:
        return (await run_record(store, note.id)).id
    except NotFound:
        raise Conflict(
            f"idempotency key {key} started run {note.id}, which has been deleted since; use a new key to run it again",
            code="key_reused",
        ) from None


# Runs


@verb("GET", "/v1/runs", Access.VIEW, rpc="Runs.List", heavy=True, codes=("job_not_found",))
async def list_runs(
    store: Store,
    *,
    job: OfJob = None,
    states: InStates = (),
    node: RanOn = None,
    since: DueSince = None,
    limit: Limit = PAGE,
    token: Token = None,
) -> RunPage:
    """Runs of one job or of all: those that are not over, job by job, then the others from the newest on.

    `node` had one of a run's attempts; `since` is the earliest due time. `token` is the `next` of the page before. A
    run that ends between two pages may be on both. With `states` or `node` a page may have fewer runs than `limit`, or
    none, and still a `next`: one call looks at `MOST_LOOKED_AT` runs at most.
    """
    check_limit(limit)
    wanted = _Listed(job, frozenset(_state(each) for each in states), node, since)
    if job is not None:
        await _known_job(store, job)
    living: list[RunView] = []
    looked_at = 0
    if token is None or token.startswith(LIVING):
        living, behind, looked_at = await _living(store, wanted, limit, token and token.removeprefix(LIVING))
        if behind is not None:
            return RunPage(runs=_newest_due(living), next=f"{LIVING}{behind}", looked_at=looked_at)
        token = None
    over, after, more = await _over(store, wanted, limit - len(living), token, MOST_LOOKED_AT - looked_at)
    return RunPage(runs=(*_newest_due(living), *over), next=after, looked_at=looked_at + more)


@verb("GET", "/v1/runs/{job}/{moment}", Access.VIEW, rpc="Runs.Get")
async def get_run(store: Store, run: RunId) -> RunView:
    """A run, living or over; NotFound if there is none."""
    return run_view(await run_record(store, run))


@needs(Access.VIEW)
async def await_run(store: Store, run: str, wait: timedelta) -> RunView:
    """A run when it is over, or as it is when the time is over."""
    view = await get_run(store, run)
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(wait.total_seconds()),
            aclosing(follow(store, keys.live_run(run))) as entries,
        ):
            async for entry in entries:
                if entry is None:
                    return await get_run(store, run)
                view = run_view(codec.decode(RunRecord, entry.value))
    return view


@verb(
    "POST", "/v1/runs/{job}/{moment}/restart", Access.OPERATE, rpc="Runs.Restart", makes=True, found_at="/v1/runs/{run}"
)
async def restart_run(store: Store, run: RunId, *, by: str) -> RunView:
    """Do once more what a run that is over did; the new run."""
    await run_record(store, run)
    return await get_run(store, await verbs.restart(store, run, by))


@verb("POST", "/v1/runs/{job}/{moment}/interrupt", Access.OPERATE, rpc="Runs.Interrupt", body=ReasonBody)
async def interrupt_run(store: Store, run: RunId, *, by: str, why: str = "", wait: Wait = None) -> RunView:
    """Stop a run; with `wait`, return when it is over, or when that time is."""
    check_wait(wait)
    if not why.isprintable() or len(why) > 200:
        raise Invalid("a reason has at most 200 characters, all printable; shorten it")
    await run_record(store, run)
    await verbs.interrupt(store, run, why, by)
    return await await_run(store, run, wait) if wait else await get_run(store, run)


@verb("DELETE", "/v1/runs/{job}/{moment}", Access.OPERATE, rpc="Runs.Delete", deletes=True)
async def delete_run(store: Store, logs: Logs, run: RunId) -> None:
    """Delete a run that is over, and its output: a backfill may make a run of the same id."""
    await run_record(store, run)
    await verbs.delete_run(store, run)
    await logs.forget([run])


# Output


@verb("GET", "/v1/runs/{job}/{moment}/log", Access.VIEW, rpc="Runs.ReadLog", codes=("not_found",))
async def read_log(
    store: Store,
    logs: Logs,
    run: RunId,
    *,
    attempt: AttemptNumber = None,
    offset: Offset = 0,
    log_at: LogAt | None = None,
) -> LogPart:
    """A piece of what an attempt of a run has put out, from an offset on; the newest attempt unless one is named.

    Where nodes do not share the place for logs, it is read at the node that had the attempt.
    """
    if not 0 <= offset < 2**63:
        raise Invalid(f"offset is {offset}; it must not be below zero, nor above 2^63 - 1")
    record = await run_record(store, run)
    number = _attempt(record, attempt)
    size, node = _log_bytes(record, number), _node_of(record, number)
    if log_at is None or logs.is_shared or node is None:
        piece = await read_piece(logs, AttemptId(run, number), offset)
    elif size is not None and offset >= size:
        piece = LogPiece(b"", is_last=True)  # its node need not be there to say so
    else:
        piece = await log_at(node, AttemptId(run, number), offset)
    end = offset + len(piece.data)
    return LogPart(
        run=run,
        attempt=number,
        offset=offset,
        data=piece.data,
        next=end,
        is_whole=len(piece.data) < CHUNK and (piece.is_last or (size is not None and end >= size)),
    )


@verb(
    "GET",
    "/v1/runs/{job}/{moment}/log/follow",
    Access.VIEW,
    rpc="Runs.FollowLog",
    goes_on="Events `output`, with `attempt`, `offset`, `text` and `next`.",
    codes=("not_found",),
)
async def follow_log(
    store: Store,
    logs: Logs,
    run: RunId,
    *,
    attempt: AttemptNumber = None,
    offset: Offset = 0,
    log_at: LogAt | None = None,
) -> AsyncGenerator[LogPart, None]:
    """What an attempt of a run puts out, from an offset on, until it ends.

    Once there was an answer, it goes on where it was if the node that has the log is out of reach for a while.
    """
    quiet, clock = 0, asyncio.get_running_loop().time
    answered = float("-inf")
    while True:
        try:
            part = await read_log(store, logs, run, attempt=attempt, offset=offset, log_at=log_at)
        except Unavailable:
            if clock() - answered > AWAY:
                raise
            await asyncio.sleep(POLL)
            continue
        attempt, offset, answered = part.attempt, part.next, clock()
        if part.data:
            quiet = 0
            yield part
            continue
        if part.is_whole:
            return
        # What was under way when the run ended arrives within a second or two, unless its node was killed then.
        record = await run_record(store, run)
        if record.is_over or attempt != record.attempt:
            quiet += 1
            if quiet > LINGER / POLL:
                return
        await asyncio.sleep(POLL)


# How


async def _job(store: Store, name: str) -> Entry:
    entry = await store.get(keys.job(name)) if name else None
    if entry is None:
        raise await no_job(store, name)
    return entry


async def _known_job(store: Store, name: str) -> None:
    """NotFound unless there is such a job, or runs of one."""
    if await store.get(keys.job(name)) is None and not (await store.scan(keys.runs(name), limit=1)).entries:
        raise await no_job(store, name)


async def no_job(store: Store, name: str) -> NotFound:
    known = [entry.key.removeprefix(keys.JOBS) for entry in (await store.scan(keys.JOBS, limit=MAX_PAGE)).entries]
    guess = did_you_mean(name, known) or "; rota jobs ls shows those there are"
    return NotFound(f'there is no job "{name}"{guess}', code="job_not_found")


def _refuse_declared(record: JobRecord | None, name: str) -> None:
    if record is not None and record.origin is not Origin.API:
        whose = f'app "{record.app}"' if record.origin is Origin.APP else f"the file of node {record.by}"
        raise Conflict(
            f'job "{name}" belongs to {whose}; change it there, or switch it off with: rota jobs disable {name}'
        )


async def _job_view(store: Store, entry: Entry, now: datetime) -> JobView:
    record = codec.decode(JobRecord, entry.value)
    name = record.spec.name
    living = (await store.scan(f"{keys.LIVE_RUNS}{name}/")).entries
    cursor = understood(JobCursor, await store.get(keys.job_cursor(name)))
    due = None
    if record.enabled and record.spec.is_timed:
        due = next(islice(dues.times(record.spec, max(now, dues.decided(record, cursor))), 1), None)
    over, *_ = await _over(store, _Listed(name), 1, None, 1)
    return job_view(record, entry.modified, due=due, live=len(living), last=over[0] if over else None)


async def run_record(store: Store, run: str) -> RunRecord:
    """A run, wherever it is; it may move while it is looked for."""
    for key in (keys.live_run(run), keys.run(run), keys.live_run(run)):
        entry = await store.get(key) if job_of(run) != run else None
        if entry is not None:
            return codec.decode(RunRecord, entry.value)
    raise NotFound(f"there is no run {run}; rota runs ls shows those there are", code="run_not_found")


class _Listed(msgspec.Struct, frozen=True):
    """Which runs a list is to have."""

    job: str | None
    states: frozenset[RunState] = frozenset()
    """In which states; empty: in any."""

    node: str | None = None
    since: datetime | None = None

    def has(self, run: RunRecord) -> bool:
        """Is this one of them?"""
        if self.is_too_old(run) or (self.states and run.state not in self.states):
            return False
        return self.node is None or run.node == self.node or any(each.node == self.node for each in run.earlier)

    def is_too_old(self, run: RunRecord) -> bool:
        """Was it due before all that are wanted?"""
        return self.since is not None and run.due < self.since


async def _living(
    store: Store, wanted: _Listed, limit: int, behind: str | None
) -> tuple[list[RunView], str | None, int]:
    """Runs that are not over in the order of their keys, behind which one to go on if there may be more, and how many
    were looked at."""
    found: list[RunView] = []
    looked_at = 0
    below = f"{keys.LIVE_RUNS}{wanted.job}/" if wanted.job else keys.LIVE_RUNS
    after = keys.live_run(behind) if behind else None
    while True:
        page = await store.scan(below, after=after, limit=PAGE)
        for entry in page.entries:
            run = understood(RunRecord, entry)
            looked_at += 1
            if run is not None and wanted.has(run):
                found.append(run_view(run))
            if len(found) == limit or looked_at == MOST_LOOKED_AT:
                return found, entry.key.removeprefix(keys.LIVE_RUNS), looked_at
        if not page.more:
            return found, None, looked_at
        after = page.entries[-1].key


def _newest_due(runs: list[RunView]) -> tuple[RunView, ...]:
    return tuple(sorted(runs, key=lambda run: run.due, reverse=True))


class _Head(msgspec.Struct, frozen=True):
    """The newest run of a job that was not looked at, and those behind it; the newest of all heads is the smallest."""

    run: RunRecord
    others: AsyncGenerator[RunRecord, None]

    def __lt__(self, other: Self) -> bool:
        return (self.run.due, self.run.id) > (other.run.due, other.run.id)


async def _over(
    store: Store, wanted: _Listed, limit: int, token: str | None, most: int
) -> tuple[list[RunView], str | None, int]:
    """Runs that are over, the newest first, where to go on (behind the last one that was looked at), and how many were.

    `most` are looked at.
    """
    jobs = [wanted.job] if wanted.job is not None else await _jobs_with_runs(store)
    found: list[RunView] = []
    looked_at = 0
    async with AsyncExitStack() as stack:
        heads: list[_Head] = []
        for name in jobs:
            runs = await stack.enter_async_context(aclosing(_newest_first(store, name, token)))
            if (first := await anext(runs, None)) is not None:
                heads.append(_Head(first, runs))
        heapq.heapify(heads)
        while heads:
            if len(found) == limit or (looked_at >= most and token is not None):
                return found, token, looked_at
            head = heads[0]
            if wanted.is_too_old(head.run):  # and so are all behind it
                break
            looked_at, token = looked_at + 1, head.run.id
            if wanted.has(head.run):
                found.append(run_view(head.run))
            if (behind := await anext(head.others, None)) is not None:
                heapq.heapreplace(heads, _Head(behind, head.others))
            else:
                heapq.heappop(heads)
    return found, None, looked_at


async def _newest_first(store: Store, job: str, token: str | None) -> AsyncGenerator[RunRecord, None]:
    after = _behind(job, token) if token else None
    while True:
        page = await store.scan(keys.runs(job), after=after, limit=PAGE)
        for entry in page.entries:
            if (run := understood(RunRecord, entry)) is not None:
                yield run
        if not page.more:
            return
        after = page.entries[-1].key


def _behind(job: str, token: str) -> Key:
    """Where the runs of a job go on behind a run of any job: of those due together, the last by name came first."""
    if job == job_of(token):
        return keys.run(token)
    moment = keys.run(f"{job}/{token.partition('/')[2].partition('-')[0]}")
    return f"{moment}~" if job > job_of(token) else f"{moment[:-1]}Y~"  # behind all of that moment, or before them


async def _jobs_with_runs(store: Store) -> list[str]:
    """The jobs that have a history, found by jumping from one to the next."""
    found: list[str] = []
    after: Key | None = None
    while True:
        page = await store.scan(keys.RUNS, after=after, limit=1)
        if not page.entries:
            return found
        found.append(job_of(keys.run_of(page.entries[0].key)))
        after = f"{keys.runs(found[-1])}~"  # behind everything of this job


def _state(text: str) -> RunState:
    try:
        return RunState(text.replace("-", " ").replace("_", " "))
    except ValueError:
        known = ", ".join(state.replace(" ", "-") for state in RunState)
        raise Invalid(f'state is "{text}"; there are {known}') from None


def _attempt(run: RunRecord, attempt: int | None) -> int:
    newest = run.attempt if run.is_bound or run.is_over else max((each.attempt for each in run.earlier), default=1)
    if attempt is None:
        return newest
    if not 1 <= attempt <= max(newest, run.attempt):
        raise NotFound(f"run {run.id} has no attempt {attempt}; it has had {newest}")
    return attempt


def _node_of(run: RunRecord, attempt: int) -> NodeId | None:
    """The node that has or had an attempt; None if there is none, or the record does not have it any more."""
    if attempt == run.attempt:
        return run.node
    return next((each.node for each in run.earlier if each.attempt == attempt), None)


def _log_bytes(run: RunRecord, attempt: int) -> int | None:
    """How much of an attempt that is over its node kept; None if it is not over, or its node was lost."""
    if run.is_over and attempt == run.attempt:
        outcome = run.outcome or Outcome(state=run.state)
    else:
        outcome = next((each.outcome for each in run.earlier if each.attempt == attempt), Outcome(state=RunState.LOST))
    return None if outcome.state is RunState.LOST else outcome.log_bytes


def check_payload(payload: object) -> None:
    """Invalid if it is too large to be given to a run."""
    try:
        size = len(msgspec.json.encode(payload))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Invalid(f"the payload cannot be written as JSON: {error}") from None
    if size > LARGEST_PAYLOAD:
        raise Invalid(f"the payload has {size} bytes; at most {LARGEST_PAYLOAD} go with a run: store it and name it")
