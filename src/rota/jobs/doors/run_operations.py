"""Operations on runs: start, stop, repeat, delete and look at them. The decisions are `jobs.fleet.verbs`."""

import asyncio
from contextlib import aclosing, suppress
from datetime import timedelta

import msgspec

from rota.doors.bodies import ReasonBody
from rota.doors.guard import idempotency
from rota.doors.limits import PAGE, check_limit, check_reason, check_wait
from rota.doors.parameters import Limit, OnceKey, Token, Wait
from rota.doors.verbs import needs, verb
from rota.fleet.core.access.gate import Access
from rota.jobs.core.records import RunRecord, RunState
from rota.jobs.doors.answers import RunPage, RunView, run_view
from rota.jobs.doors.bodies import RunBody
from rota.jobs.doors.parameters import DueSince, InStates, JobName, OfJob, RanOn, RunId
from rota.jobs.doors.reading import check_known, job_entry, run_record
from rota.jobs.doors.run_listing import WantedRuns, page_of
from rota.jobs.fleet import verbs
from rota.jobs.logs.port import Logs
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound
from rota.store.follow import follow
from rota.store.port import Store

LARGEST_PAYLOAD = 64 * 1024
"""Bytes of a run's payload, at most."""


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
    await job_entry(store, name)
    run = await _started(store, name, by, payload, key)
    return await await_run(store, run, wait) if wait else await get_run(store, run)


async def _started(store: Store, name: str, by: str, payload: object, key: str | None) -> str:
    """The run that was made, or the one that the same request made before."""
    if key is None:
        [run] = await verbs.run_now(store, name, by, payloads=[payload])
        return run
    request = idempotency.digest({"run": name, "payload": payload})
    if note := await idempotency.find(store, key, request, by):
        return await _started_before(store, key, note)
    prepared = await verbs.prepare_run(store, name, by, payload)
    made = idempotency.IdempotencyNote(request=request, kind="run", id=prepared.run.id, uid="")
    try:
        async with idempotency.noted(store, key, made, by) as also:
            await verbs.make_run(store, prepared, also)
    except Conflict:
        # The same request may have come a moment earlier.
        if note := await idempotency.find(store, key, request, by):
            return await _started_before(store, key, note)
        raise
    return prepared.run.id


async def _started_before(store: Store, key: str, note: idempotency.IdempotencyNote) -> str:
    try:
        return (await run_record(store, note.id)).id
    except NotFound:
        raise Conflict(
            f"idempotency key {key} started run {note.id}, which has been deleted since; use a new key to run it again",
            code="key_reused",
        ) from None


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
    wanted = WantedRuns(job, frozenset(_state(each) for each in states), node, since)
    if job is not None:
        await check_known(store, job)
    return await page_of(store, wanted, limit, token)


@verb("GET", "/v1/runs/{job}/{moment}", Access.VIEW, rpc="Runs.Get")
async def get_run(store: Store, run: RunId) -> RunView:
    """A run, living or over; NotFound if there is none."""
    return run_view(await run_record(store, run))


@needs(Access.VIEW)
async def await_run(store: Store, run: str, wait: timedelta) -> RunView:
    """A run when it is over, or as it is after `wait`."""
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
    """Repeat a run that is over; returns the new run."""
    await run_record(store, run)
    return await get_run(store, await verbs.restart(store, run, by))


@verb("POST", "/v1/runs/{job}/{moment}/interrupt", Access.OPERATE, rpc="Runs.Interrupt", body=ReasonBody)
async def interrupt_run(store: Store, run: RunId, *, by: str, why: str = "", wait: Wait = None) -> RunView:
    """Stop a run; with `wait`, return when it is over, or when that time is."""
    check_wait(wait)
    check_reason(why)
    await run_record(store, run)
    await verbs.interrupt(store, run, why, by)
    return await await_run(store, run, wait) if wait else await get_run(store, run)


@verb("DELETE", "/v1/runs/{job}/{moment}", Access.OPERATE, rpc="Runs.Delete", deletes=True)
async def delete_run(store: Store, logs: Logs, run: RunId) -> None:
    """Delete a run that is over, and its output: a backfill may make a run of the same id."""
    await run_record(store, run)
    await verbs.delete_run(store, run)
    await logs.forget([run])


def _state(text: str) -> RunState:
    try:
        return RunState(text.replace("-", " ").replace("_", " "))
    except ValueError:
        known = ", ".join(state.replace(" ", "-") for state in RunState)
        raise Invalid(f'state is "{text}"; there are {known}') from None


def check_payload(payload: object) -> None:
    """Raises Invalid if it is too large for a run's payload."""
    try:
        size = len(msgspec.json.encode(payload))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Invalid(f"the payload cannot be written as JSON: {error}") from None
    if size > LARGEST_PAYLOAD:
        raise Invalid(f"the payload has {size} bytes; at most {LARGEST_PAYLOAD} go with a run: store it and name it")
