"""Reading jobs and runs from the store; NotFound suggests names that exist."""

from rota.doors.limits import MAX_PAGE
from rota.jobs.core.records import RunRecord, job_of
from rota.model import codec, keys
from rota.model.errors import NotFound
from rota.model.spec.checks import did_you_mean
from rota.store.port import Entry, Store


async def job_entry(store: Store, name: str) -> Entry:
    entry = await store.get(keys.job(name)) if name else None
    if entry is None:
        raise await no_job(store, name)
    return entry


async def check_known(store: Store, name: str) -> None:
    """Raises NotFound unless there is such a job, or a run of one."""
    if await store.get(keys.job(name)) is None and not (await store.scan(keys.runs(name), limit=1)).entries:
        raise await no_job(store, name)


async def no_job(store: Store, name: str) -> NotFound:
    known = [entry.key.removeprefix(keys.JOBS) for entry in (await store.scan(keys.JOBS, limit=MAX_PAGE)).entries]
    guess = did_you_mean(name, known) or "; rota jobs ls shows those there are"
    return NotFound(f'there is no job "{name}"{guess}', code="job_not_found")


async def run_record(store: Store, run: str) -> RunRecord:
    """A run, whether living or over; it may move between the two during the search."""
    for key in (keys.live_run(run), keys.run(run), keys.live_run(run)):
        entry = await store.get(key) if job_of(run) != run else None
        if entry is not None:
            return codec.decode(RunRecord, entry.value)
    raise NotFound(f"there is no run {run}; rota runs ls shows those there are", code="run_not_found")
