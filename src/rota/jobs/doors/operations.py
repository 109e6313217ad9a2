"""Operations on jobs: what can be asked of them, as plain functions on the store.

The decisions and the writes are `jobs.fleet.verbs`; here is what a caller sees of them, and what is allowed to whom.
A job that an app or a file declares is changed there; at a door it can be run, switched on and off, and looked at.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice

from rota.doors.limits import PAGE, check_limit
from rota.doors.parameters import IfMatch, Limit, Prefix, Token
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.jobs.core import due as dues
from rota.jobs.core.preview import preview
from rota.jobs.core.records import JobCursor, JobRecord, Origin
from rota.jobs.core.spec import read_job
from rota.jobs.doors.answers import DueTime, DueTimes, JobPage, JobView, RunIds, job_view
from rota.jobs.doors.bodies import BackfillBody, JobBody
from rota.jobs.doors.parameters import DueAfter, DueCount, FirstDue, IsForced, JobName, LastDue
from rota.jobs.doors.reading import job_entry
from rota.jobs.doors.run_listing import WantedRuns, runs_over
from rota.jobs.fleet import verbs
from rota.kit.aside import in_thread
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid
from rota.model.ids import Revision
from rota.store.port import Entry, Store
from rota.store.records import understood

MOST_DUE = 1000
"""Due times that one preview shows."""


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
    return await _job_view(store, await job_entry(store, name), await store.now())


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
    entry = await job_entry(store, name)
    _refuse_declared(codec.decode(JobRecord, entry.value), name)
    await verbs.delete_job(store, name)


@verb("POST", "/v1/jobs/{name}/enable", Access.OPERATE, rpc="Jobs.Enable", is_versioned=True)
async def enable_job(store: Store, name: JobName, *, by: str) -> JobView:
    """Enable a job's schedule, from now on."""
    await job_entry(store, name)
    await verbs.enable(store, name, by)
    return await get_job(store, name)


@verb("POST", "/v1/jobs/{name}/disable", Access.OPERATE, rpc="Jobs.Disable", is_versioned=True)
async def disable_job(store: Store, name: JobName, *, by: str) -> JobView:
    """Disable a job's schedule; runs that are not over continue, and the job can still be run by hand."""
    await job_entry(store, name)
    await verbs.disable(store, name, by)
    return await get_job(store, name)


@verb("GET", "/v1/jobs/{name}/preview", Access.VIEW, rpc="Jobs.Preview", answer=DueTimes, heavy=True)
async def preview_job(
    store: Store, name: JobName, *, count: DueCount = 10, after: DueAfter = None
) -> tuple[DueTime, ...]:
    """When a job is due next, and which of these times are odd because clocks change."""
    if not 1 <= count <= MOST_DUE:
        raise Invalid(f"count is {count}; it must be from 1 to {MOST_DUE}")
    spec = codec.decode(JobRecord, (await job_entry(store, name)).value).spec
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
    await job_entry(store, name)
    return tuple(await verbs.backfill(store, name, first, last, by, is_forced=is_forced))


@verb("GET", "/v1/jobs/{name}/backfill", Access.VIEW, rpc="Jobs.PreviewBackfill", answer=RunIds, heavy=True)
async def preview_backfill(
    store: Store, name: JobName, first: FirstDue, last: LastDue, *, is_forced: IsForced = False
) -> tuple[str, ...]:
    """The runs that a backfill would make; nothing is changed. Raises Invalid where that one would."""
    _check_span(first, last)
    await job_entry(store, name)
    return tuple(await verbs.preview_backfill(store, name, first, last, is_forced=is_forced))


def _check_span(first: datetime, last: datetime) -> None:
    if last < first:
        raise Invalid(f"from {first.isoformat()} to {last.isoformat()}; the end must not be before the beginning")


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
    over, *_ = await runs_over(store, WantedRuns(name), 1, None, 1)
    return job_view(record, entry.modified, due=due, live=len(living), last=over[0] if over else None)
