"""The operations on jobs and runs over HTTP. A run's id is two parts of a path: the job, and the moment."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from urllib.parse import quote

from starlette.responses import Response

from rota.api import calls, job_operations, job_why, sse
from rota.api.calls import Call, Endpoint
from rota.api.job_schema import JobView, LogPart, RunView
from rota.api.operations import PAGE
from rota.api.sse import EventStream, Told
from rota.model.errors import Invalid

# Jobs


async def _list(call: Call) -> Response:
    asked = call.request.query_params
    limit = calls.count(call.request, "limit", PAGE)
    page = await job_operations.list_jobs(
        call.store, prefix=asked.get("prefix", ""), limit=limit, token=asked.get("token")
    )
    return calls.json(page)


async def _get(call: Call) -> Response:
    return _job(await job_operations.get_job(call.store, call.path["name"]))


async def _put(call: Call) -> Response:
    fields, version = await calls.body(call.request), calls.version(call.request)
    name = call.path["name"]
    if fields.setdefault("name", name) != name:
        raise Invalid(f'the path says job "{name}", and the body "{fields["name"]}"; say the same, or leave it out')
    return _job(await job_operations.put_job(call.store, fields, by=call.by, version=version))


async def _delete(call: Call) -> Response:
    await job_operations.delete_job(call.store, call.path["name"], by=call.by)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _enable(call: Call) -> Response:
    await calls.fields(call)
    return _job(await job_operations.enable_job(call.store, call.path["name"], by=call.by))


async def _disable(call: Call) -> Response:
    await calls.fields(call)
    return _job(await job_operations.disable_job(call.store, call.path["name"], by=call.by))


async def _start(call: Call) -> Response:
    payload = (await calls.fields(call, "payload")).get("payload")
    wait = calls.duration(call.request, "wait")
    key = call.request.headers.get("idempotency-key")
    run = await job_operations.run_job(call.store, call.path["name"], by=call.by, payload=payload, wait=wait, key=key)
    return _made(run)


async def _preview(call: Call) -> Response:
    count, after = calls.count(call.request, "count", 10), calls.time(call.request, "after")
    due = await job_operations.preview_job(call.store, call.path["name"], count=count, after=after)
    return calls.json({"due": due})


async def _backfill(call: Call) -> Response:
    fields = await calls.fields(call, "first", "last", "force")
    first, last = calls.moment("first", fields.get("first")), calls.moment("last", fields.get("last"))
    force = fields.get("force", False)
    if not isinstance(force, bool):
        raise Invalid(f"force is {force!r}; it must be true or false")
    made = await job_operations.backfill_job(call.store, call.path["name"], first, last, by=call.by, is_forced=force)
    return calls.json({"runs": made}, HTTPStatus.CREATED)


async def _preview_backfill(call: Call) -> Response:
    first, last = (calls.moment(name, call.request.query_params.get(name)) for name in ("first", "last"))
    force = calls.flag(call.request, "force")
    missing = await job_operations.preview_backfill(call.store, call.path["name"], first, last, is_forced=force)
    return calls.json({"runs": missing})


# Runs


async def _runs(call: Call) -> Response:
    asked = call.request.query_params
    page = await job_operations.list_runs(
        call.store,
        job=asked.get("job"),
        states=asked.getlist("state"),
        node=asked.get("node"),
        since=calls.time(call.request, "since"),
        limit=calls.count(call.request, "limit", PAGE),
        token=asked.get("token"),
    )
    return calls.json(await job_why.explained(call.store, page))


async def _why_run(call: Call) -> Response:
    return calls.json(await job_why.why_run(call.store, _id(call)))


async def _why_job(call: Call) -> Response:
    return calls.json(await job_why.why_job(call.store, call.path["name"]))


async def _run(call: Call) -> Response:
    return calls.json(await job_why.explained_run(call.store, await job_operations.get_run(call.store, _id(call))))


async def _restart(call: Call) -> Response:
    await calls.fields(call)
    return _made(await job_operations.restart_run(call.store, _id(call), by=call.by))


async def _interrupt(call: Call) -> Response:
    why = (await calls.fields(call, "why")).get("why") or ""
    if not isinstance(why, str):
        raise Invalid(f"why is {why!r}; it must be a text")
    wait = calls.duration(call.request, "wait")
    return calls.json(await job_operations.interrupt_run(call.store, _id(call), by=call.by, why=why, wait=wait))


async def _forget(call: Call) -> Response:
    await job_operations.delete_run(call.store, call.behind.present_logs(), _id(call))
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _log(call: Call) -> Response:
    """The bytes as they are; headers say where to go on, and whether the end was reached."""
    logs, offset = call.behind.present_logs(), calls.count(call.request, "offset", 0)
    part = await job_operations.read_log(
        call.store, logs, _id(call), attempt=_attempt(call), offset=offset, log_at=call.behind.log_at
    )
    headers = {"rota-attempt": str(part.attempt), "rota-next": str(part.next)}
    if part.is_whole:
        headers["rota-whole"] = "true"
    return Response(part.data, headers=headers, media_type="application/octet-stream")


async def _follow(call: Call) -> Response:
    logs, offset = call.behind.present_logs(), calls.count(call.request, "offset", 0)
    parts = job_operations.follow_log(
        call.store, logs, _id(call), attempt=_attempt(call), offset=offset, log_at=call.behind.log_at
    )
    return EventStream(sse.told(call.watches.each(_one_by_one(parts)), _told))


def _told(part: LogPart) -> Told:
    text = part.data.decode(errors="replace")
    return Told("output", {"attempt": part.attempt, "offset": part.offset, "text": text, "next": part.next})


async def _one_by_one(parts: AsyncGenerator[LogPart, None]) -> AsyncGenerator[tuple[LogPart, ...], None]:
    async with aclosing(parts):
        async for part in parts:
            yield (part,)


def _id(call: Call) -> str:
    return f"{call.path['job']}/{call.path['moment']}"


def _attempt(call: Call) -> int | None:
    number = calls.count(call.request, "attempt", 0)
    return number or None


def _job(view: JobView) -> Response:
    return calls.json(view, HTTPStatus.OK, {"etag": f'"{view.version}"'})


def _made(run: RunView) -> Response:
    location = "/".join(quote(part, safe="") for part in run.id.split("/"))
    return calls.json(run, HTTPStatus.CREATED, {"location": f"/v1/runs/{location}"})


ENDPOINTS = (
    Endpoint("GET", "/v1/jobs", "list_jobs", _list, ("prefix", "limit", "token")),
    Endpoint("GET", "/v1/jobs/{name}", "get_job", _get),
    Endpoint("PUT", "/v1/jobs/{name}", "put_job", _put),
    Endpoint("DELETE", "/v1/jobs/{name}", "delete_job", _delete),
    Endpoint("POST", "/v1/jobs/{name}/enable", "enable_job", _enable),
    Endpoint("POST", "/v1/jobs/{name}/disable", "disable_job", _disable),
    Endpoint("POST", "/v1/jobs/{name}/run", "run_job", _start, ("wait",)),
    Endpoint("GET", "/v1/jobs/{name}/preview", "preview_job", _preview, ("count", "after")),
    Endpoint("GET", "/v1/jobs/{name}/backfill", "preview_backfill", _preview_backfill, ("first", "last", "force")),
    Endpoint("POST", "/v1/jobs/{name}/backfill", "backfill_job", _backfill),
    Endpoint("GET", "/v1/jobs/{name}/why", "why_job", _why_job),
    Endpoint("GET", "/v1/runs/{job}/{moment}/why", "why_run", _why_run),
    Endpoint("GET", "/v1/runs", "list_runs", _runs, ("job", "state", "node", "since", "limit", "token")),
    Endpoint("GET", "/v1/runs/{job}/{moment}", "get_run", _run),
    Endpoint("DELETE", "/v1/runs/{job}/{moment}", "delete_run", _forget),
    Endpoint("POST", "/v1/runs/{job}/{moment}/restart", "restart_run", _restart),
    Endpoint("POST", "/v1/runs/{job}/{moment}/interrupt", "interrupt_run", _interrupt, ("wait",)),
    Endpoint("GET", "/v1/runs/{job}/{moment}/log", "read_log", _log, ("attempt", "offset")),
    Endpoint("GET", "/v1/runs/{job}/{moment}/log/follow", "follow_log", _follow, ("attempt", "offset")),
)
