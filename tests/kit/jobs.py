"""Jobs and runs, made through the operations."""

from datetime import UTC, datetime, timedelta

from rota.jobs.core.records import Cause, Outcome, RunRecord, RunState, run_id
from rota.jobs.doors import operations as job_operations
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.store import Put, Store

NOON = datetime(2026, 1, 16, 12, tzinfo=UTC)


HOUR = timedelta(hours=1)


BACKUP: dict[str, object] = {"name": "backup", "argv": ["pg_dump", "shop"], "cron": "0 3 * * *"}


async def add(store: Store, **fields: object) -> None:
    await job_operations.put_job(store, {**BACKUP, **fields}, by="me")


async def over(store: Store, job: str, due: datetime, state: RunState = RunState.SUCCEEDED, more: str = "") -> str:
    """A run that is over."""
    outcome = Outcome(state=state, started=due, seconds=1.5, error="no luck" if state is RunState.FAILED else "")
    run = RunRecord(
        id=run_id(job, due, more),
        job=job,
        due=due,
        cause=Cause.SCHEDULE,
        created=due,
        state=state,
        node=NodeId("n1"),
        ended=due + timedelta(seconds=2),
        outcome=outcome,
    )
    await store.commit(Put(keys.run(run.id), codec.encode(run)))
    return run.id
