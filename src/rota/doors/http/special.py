"""Answers over HTTP that are not JSON: the bytes of an output, and event streams. The rest follows from verbs."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from rota.doors import limits
from rota.doors.http import calls
from rota.doors.http.calls import HttpCall
from rota.doors.http.sse import ServerEvent
from rota.doors.http.verbs import answers, events, one_by_one
from rota.doors.verbs import VERBS
from rota.jobs.doors.answers import LogPart
from rota.resources.doors import syncing
from rota.views import printing, pulse, watching
from rota.views.watching import Happened, ResourceChange, What


@answers("watch_resources")
async def _watch_resources(call: HttpCall, given: Mapping[str, Any]) -> Response:
    return events(watching.watch_resources(call.store, **given), call, _change)


def _change(change: ResourceChange) -> ServerEvent:
    said = {"why": change.why} if change.what is What.RESET else {"revision": change.resume}
    return ServerEvent(change.what, change.resource or said, change.resume)


@answers("watch_events")
async def _watch_events(call: HttpCall, given: Mapping[str, Any]) -> Response:
    return events(watching.watch_events(call.store, **given), call, _happened)


def _happened(one: Happened) -> ServerEvent:
    if one.event is None:
        return ServerEvent(What.SYNCED, {"revision": one.resume}, one.resume)
    return ServerEvent(What.HAPPENED, one.event, one.resume)


@answers("watch_pulse")
async def _watch_pulse(call: HttpCall, _: Mapping[str, Any]) -> Response:
    return events(pulse.watch_pulse(call.store), call, lambda beat: ServerEvent("beat", beat))


@answers("follow_printed")
async def _follow_printed(call: HttpCall, given: Mapping[str, Any]) -> Response:
    pages = printing.follow_printed(call.store, call.behind.steer, **given)
    return events(one_by_one(pages), call, lambda page: ServerEvent("printed", page))


@answers("read_log")
async def _log(call: HttpCall, given: Mapping[str, Any]) -> Response:
    """The bytes as they are; headers say where to go on, and whether the end was reached."""
    part = await VERBS["read_log"].begin(call, _newest(given))
    headers = {"rota-attempt": str(part.attempt), "rota-next": str(part.next)}
    if part.is_whole:
        headers["rota-whole"] = "true"
    return Response(part.data, headers=headers, media_type="application/octet-stream")


@answers("follow_log")
async def _follow_log(call: HttpCall, given: Mapping[str, Any]) -> Response:
    parts = VERBS["follow_log"].begin(call, _newest(given))
    return events(one_by_one(parts), call, _output)


def _output(part: LogPart) -> ServerEvent:
    text = part.data.decode(errors="replace")
    return ServerEvent("output", {"attempt": part.attempt, "offset": part.offset, "text": text, "next": part.next})


def _newest(given: Mapping[str, Any]) -> dict[str, Any]:
    """Attempt 0 is the newest, as if none was named."""
    return {**given, "attempt": given.get("attempt") or None}


@answers("sync_source")
async def _sync(call: HttpCall, given: Mapping[str, Any]) -> Response:
    """A caller over HTTP waits no longer than for anything else."""
    limits.check_wait(given.get("wait"))
    asked = {**given, "wait": given.get("wait") or limits.LONGEST_WAIT}
    return calls.json(syncing.Synced(listing=await syncing.sync_source(call.store, **asked)))
