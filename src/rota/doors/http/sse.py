"""Server-sent events: a streamed answer, in a form that browsers and `curl -N` understand.

A client may resume after an event with an id: it sends the id back as `Last-Event-ID`. An invalid request gets an error
with its status, as nothing is sent before the first event is there.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rota.doors.guard.budget import paced
from rota.doors.http.calls import HttpCall
from rota.model.errors import Invalid
from rota.model.ids import Revision

T = TypeVar("T")

KEEP_ALIVE = b": keep-alive\n\n"


class ServerEvent(msgspec.Struct, frozen=True):
    """One event."""

    event: str
    data: object
    id: Revision | None = None
    """Where to go on after it; None: not here."""


class EventStream(Response):
    """Events as they occur, in batches; None means that there was none for a while."""

    media_type = "text/event-stream"

    def __init__(self, batches: AsyncGenerator[Iterable[ServerEvent] | None, None]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._batches) as batches:
            first = await anext(batches, None)
            await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            await _until_gone(receive, _send(first, batches, send))


async def as_events(
    batches: AsyncGenerator[tuple[T, ...] | None, None], render: Callable[[T], ServerEvent]
) -> AsyncGenerator[list[ServerEvent] | None, None]:
    """Batches as events; None stays None."""
    async with aclosing(batches):
        async for batch in batches:
            yield None if batch is None else [render(each) for each in batch]


async def _send(
    first: Iterable[ServerEvent] | None, batches: AsyncGenerator[Iterable[ServerEvent] | None, None], send: Send
) -> None:
    await send({"type": "http.response.body", "body": encode(first), "more_body": True})
    async for batch in batches:
        await send({"type": "http.response.body", "body": encode(batch), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Run the work, and cancel it when the client disconnects."""
    working, gone = asyncio.ensure_future(paced(work)), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.wait({working, gone})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def encode(batch: Iterable[ServerEvent] | None) -> bytes:
    """A batch as it is sent."""
    return KEEP_ALIVE if batch is None else b"".join(_encoded(event) for event in batch)


def _encoded(event: ServerEvent) -> bytes:
    id = b"" if event.id is None else b"id: %d\n" % event.id
    return b"event: %s\n%sdata: %s\n\n" % (event.event.encode(), id, msgspec.json.encode(event.data))


def resumed_after(call: HttpCall) -> Revision | None:
    """The id after which a client resumes: that of the header, for a browser that reconnects, or of the parameter."""
    for name, text in (
        ("Last-Event-ID", call.request.headers.get("last-event-id")),
        ("after", call.request.query_params.get("after")),
    ):
        if text:
            if not (text.isascii() and text.isdigit() and len(text) <= 18):
                raise Invalid(f'{name} is "{text[:40]}"; it must be the id of an event that was sent, or be left out')
            return Revision(int(text))
    return None
