"""The operations on jobs and runs over gRPC: each request is decoded, one operation called, its answer encoded."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

import msgspec
from google.protobuf.message import Message

from rota.api import job_operations, job_why, wire
from rota.api.job_schema import JobView, LogPart, RunView
from rota.api.methods import Call, Method, Stream
from rota.api.operations import PAGE
from rota.api.pb import jobs_pb2 as pb
from rota.api.schema import Why
from rota.api.watches import Watches
from rota.model.errors import Invalid
from rota.model.job import Try

# Jobs


async def _list(call: Call, request: pb.ListJobsRequest) -> pb.JobPage:
    limit = wire.given(request, "limit")
    page = await job_operations.list_jobs(
        call.store, prefix=request.prefix, limit=PAGE if limit is None else limit, token=request.token or None
    )
    return pb.JobPage(jobs=map(to_job, page.jobs), next=page.next or "", not_understood=page.not_understood)


async def _get(call: Call, request: pb.JobRequest) -> pb.Job:
    return to_job(await job_operations.get_job(call.store, request.name))


async def _put(call: Call, request: pb.PutJobRequest) -> pb.Job:
    fields = wire.from_json("spec_json", request.spec_json or "{}")
    if not isinstance(fields, dict):
        raise Invalid("spec_json must be an object, with the fields of the job")
    version = wire.given(request, "version")
    return to_job(
        await job_operations.put_job(call.store, {**fields, "name": request.name}, by=call.by, version=version)
    )


async def _delete(call: Call, request: pb.JobRequest) -> pb.JobDeleted:
    await job_operations.delete_job(call.store, request.name, by=call.by)
    return pb.JobDeleted(name=request.name)


async def _enable(call: Call, request: pb.JobRequest) -> pb.Job:
    return to_job(await job_operations.enable_job(call.store, request.name, by=call.by))


async def _disable(call: Call, request: pb.JobRequest) -> pb.Job:
    return to_job(await job_operations.disable_job(call.store, request.name, by=call.by))


async def _start(call: Call, request: pb.RunJobRequest) -> pb.Run:
    payload = wire.from_json("payload_json", request.payload_json) if request.payload_json else None
    wait = call.wait(request)
    key = wire.given(request, "idempotency_key")
    run = await job_operations.run_job(call.store, request.name, by=call.by, payload=payload, wait=wait, key=key)
    return to_run(run)


async def _preview(call: Call, request: pb.PreviewJobRequest) -> pb.DueTimes:
    count = wire.given(request, "count")
    due = await job_operations.preview_job(
        call.store, request.name, count=10 if count is None else count, after=wire.from_time(request, "after")
    )
    return pb.DueTimes(
        due=[pb.DueTime(due=wire.to_time(each.due), local=each.local.isoformat(), odd=each.odd) for each in due]
    )


async def _backfill(call: Call, request: pb.BackfillJobRequest) -> pb.RunIds:
    first, last = _span(request)
    made = await job_operations.backfill_job(call.store, request.name, first, last, by=call.by, is_forced=request.force)
    return pb.RunIds(runs=made)


async def _preview_backfill(call: Call, request: pb.BackfillJobRequest) -> pb.RunIds:
    first, last = _span(request)
    missing = await job_operations.preview_backfill(call.store, request.name, first, last, is_forced=request.force)
    return pb.RunIds(runs=missing)


def _span(request: pb.BackfillJobRequest) -> tuple[datetime, datetime]:
    first, last = wire.from_time(request, "first"), wire.from_time(request, "last")
    if first is None or last is None:
        raise Invalid(f"{'first' if first is None else 'last'} is missing; say from when to when")
    return first, last


# Runs


async def _runs(call: Call, request: pb.ListRunsRequest) -> pb.RunPage:
    limit = wire.given(request, "limit")
    page = await job_operations.list_runs(
        call.store,
        job=wire.given(request, "job"),
        states=list(request.states),
        node=wire.given(request, "node"),
        since=wire.from_time(request, "since"),
        limit=PAGE if limit is None else limit,
        token=request.token or None,
    )
    page = await job_why.explained(call.store, page)
    return pb.RunPage(runs=map(to_run, page.runs), next=page.next or "", looked_at=page.looked_at)


async def _why_run(call: Call, request: pb.RunRequest) -> pb.WhyWork:
    return _why(await job_why.why_run(call.store, request.run))


async def _why_job(call: Call, request: pb.JobRequest) -> pb.WhyWork:
    return _why(await job_why.why_job(call.store, request.name))


def _why(found: Why) -> pb.WhyWork:
    return pb.WhyWork(thing=found.thing, says=found.says, reasons=found.reasons)


async def _run(call: Call, request: pb.RunRequest) -> pb.Run:
    return to_run(await job_why.explained_run(call.store, await job_operations.get_run(call.store, request.run)))


async def _restart(call: Call, request: pb.RunRequest) -> pb.Run:
    return to_run(await job_operations.restart_run(call.store, request.run, by=call.by))


async def _interrupt(call: Call, request: pb.InterruptRunRequest) -> pb.Run:
    wait = call.wait(request)
    return to_run(await job_operations.interrupt_run(call.store, request.run, by=call.by, why=request.why, wait=wait))


async def _forget(call: Call, request: pb.RunRequest) -> pb.RunDeleted:
    await job_operations.delete_run(call.store, call.behind.present_logs(), request.run)
    return pb.RunDeleted(run=request.run)


async def _log(call: Call, request: pb.RunLogRequest) -> pb.LogPart:
    logs, attempt = call.behind.present_logs(), wire.given(request, "attempt")
    return to_part(
        await job_operations.read_log(
            call.store, logs, request.run, attempt=attempt, offset=request.offset, log_at=call.behind.log_at
        )
    )


async def _follow(call: Call, watches: Watches, request: pb.RunLogRequest) -> AsyncGenerator[list[Message], None]:
    logs, attempt = call.behind.present_logs(), wire.given(request, "attempt")
    parts = job_operations.follow_log(
        call.store, logs, request.run, attempt=attempt, offset=request.offset, log_at=call.behind.log_at
    )
    async with aclosing(watches.each(parts)) as coming:
        async for part in coming:
            yield [to_part(part)] if part is not None else []


# Answers


def to_job(view: JobView) -> pb.Job:
    """A job, and how it is doing."""
    return pb.Job(
        name=view.name,
        version=view.version,
        origin=view.origin,
        app=view.app,
        enabled=view.enabled,
        since=wire.to_time(view.since),
        at=wire.to_time(view.at),
        by=view.by,
        schedule=view.schedule,
        spec_json=msgspec.json.encode(view.spec).decode(),
        next=wire.to_time(view.next),
        live=view.live,
        last=to_run(view.last) if view.last else None,
    )


def to_run(view: RunView) -> pb.Run:
    """A run."""
    return pb.Run(
        id=view.id,
        job=view.job,
        state=view.state,
        due=wire.to_time(view.due),
        cause=view.cause,
        created=wire.to_time(view.created),
        attempt=view.attempt,
        node=view.node or "",
        started=wire.to_time(view.started),
        ended=wire.to_time(view.ended),
        seconds=view.seconds,
        exit_code=view.exit_code,
        error=view.error,
        cpu_seconds=view.cpu_seconds,
        peak_memory=view.peak_memory,
        log_bytes=view.log_bytes,
        not_before=wire.to_time(view.not_before),
        why=view.why,
        stop=view.stop,
        of=view.of,
        by=view.by,
        payload_json="" if view.payload is None else msgspec.json.encode(view.payload).decode(),
        earlier=map(_try, view.earlier),
        late=map(_try, view.late),
    )


def to_part(part: LogPart) -> pb.LogPart:
    """A piece of an attempt's output."""
    return pb.LogPart(attempt=part.attempt, offset=part.offset, data=part.data, next=part.next, is_whole=part.is_whole)


def _try(each: Try) -> pb.Attempt:
    outcome = each.outcome
    return pb.Attempt(
        attempt=each.attempt, node=each.node, state=outcome.state, error=outcome.error, ended=wire.to_time(each.ended)
    )


METHODS: dict[str, Method | Stream] = {
    "rota.v1.Jobs.List": Method("list_jobs", _list),
    "rota.v1.Jobs.Get": Method("get_job", _get),
    "rota.v1.Jobs.Put": Method("put_job", _put),
    "rota.v1.Jobs.Delete": Method("delete_job", _delete),
    "rota.v1.Jobs.Enable": Method("enable_job", _enable),
    "rota.v1.Jobs.Disable": Method("disable_job", _disable),
    "rota.v1.Jobs.Start": Method("run_job", _start),
    "rota.v1.Jobs.Preview": Method("preview_job", _preview),
    "rota.v1.Jobs.Backfill": Method("backfill_job", _backfill),
    "rota.v1.Jobs.PreviewBackfill": Method("preview_backfill", _preview_backfill),
    "rota.v1.Jobs.Why": Method("why_job", _why_job),
    "rota.v1.Runs.Why": Method("why_run", _why_run),
    "rota.v1.Runs.List": Method("list_runs", _runs),
    "rota.v1.Runs.Get": Method("get_run", _run),
    "rota.v1.Runs.Restart": Method("restart_run", _restart),
    "rota.v1.Runs.Interrupt": Method("interrupt_run", _interrupt),
    "rota.v1.Runs.Delete": Method("delete_run", _forget),
    "rota.v1.Runs.ReadLog": Method("read_log", _log),
    "rota.v1.Runs.FollowLog": Stream("follow_log", _follow),
}
"""What answers each method of the contract."""
