"""Watches: what they tell, where they go on, and how they end."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors import watches
from rota.doors.behind import NodeBackend
from rota.doors.health import HealthChecks
from rota.doors.http import door as http
from rota.doors.http import routes as resources
from rota.doors.http.door import door, serve
from rota.doors.http.listen import bind
from rota.doors.watches import Watches
from rota.fleet.events.event_log import EventLog
from rota.model.errors import Unavailable
from rota.model.ids import NodeId, Revision
from rota.resources.doors import operations as resource_operations
from rota.store import Put, Store, open_store
from rota.views.watching import ResourceChange, watch_events, watch_resources
from tests.kit.fleet_records import CLOCK, create, declare, settle
from tests.kit.http_door import GATE, TOKEN
from tests.kit.relay_records import count
from tests.kit.waiting import eventually

T = TypeVar("T")


@pytest.fixture(params=["memory://", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store in which two kinds are declared."""
    url = f"sqlite:///{tmp_path}/rota.db" if request.param == "sqlite" else request.param
    async with open_store(url) as store:
        await declare(store, "room")
        await declare(store, "site")
        yield store


async def take(batches: AsyncGenerator[tuple[ResourceChange, ...], None], count: int) -> list[ResourceChange]:
    """The next changes; no more may come with them."""
    found: list[ResourceChange] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await anext(batches)
    assert len(found) == count
    return found


def said(changes: list[ResourceChange]) -> list[str]:
    return [f"{each.what} {each.resource.name}" if each.resource else str(each.what) for each in changes]


# What is told


async def test_a_watch_begins_with_what_there_is_and_goes_on_with_what_changes(store: Store) -> None:
    made = [await create(store, id) for id in "12"]
    async with aclosing(watch_resources(store)) as watch:
        assert said(await take(watch, 3)) == ["put room/1", "put room/2", "synced"]
        await resource_operations.update_resource(store, "room", "1", {"priority": 3})
        (put,) = await take(watch, 1)
        assert put.resource == await resource_operations.get_resource(store, "room", "1")
        assert put.resume == put.resource.version
        await settle(store, made[0], "n1")
        (placed,) = await take(watch, 1)
        assert placed.resource == await resource_operations.get_resource(store, "room", "1")
        await resource_operations.delete_resource(store, "room", "1")
        (gone,) = await take(watch, 1)
        assert (gone.what, gone.resource) == ("delete", placed.resource)


async def test_a_watch_is_of_one_kind_and_of_ids_that_begin_so(store: Store) -> None:
    async with aclosing(watch_resources(store, kind="room", prefix="a")) as watch:
        assert said(await take(watch, 1)) == ["synced"]
        for kind, id in (("site", "a"), ("room", "b"), ("room", "a1")):
            await resource_operations.create_resource(store, CLOCK, {"kind": kind, "id": id})
        assert said(await take(watch, 1)) == ["put room/a1"]


async def test_a_status_that_is_written_once_more_is_no_change(store: Store) -> None:
    made = await create(store, "1")
    await settle(store, made, "n1")
    async with aclosing(watch_resources(store)) as watch:
        await take(watch, 2)
        await settle(store, made, "n1")
        await settle(store, made, "n2")
        (change,) = await take(watch, 1)
        assert change.resource is not None
        assert change.resource.status is not None
        assert change.resource.status.AssignedNode.startswith("n2")


# Going on


async def test_only_the_last_change_of_a_commit_is_one_to_go_on_from(store: Store) -> None:
    async with aclosing(watch_resources(store)) as watch:
        await take(watch, 1)
        for id in "12":
            await create(store, id)
        records = [await store.get(f"/resources/room/{id}") for id in "12"]
        await take(watch, 2)
        together = [
            Put(f"/resources/room/{id}", record.value) for id, record in zip("12", records, strict=True) if record
        ]
        revision = await store.commit(*together)
        assert [each.resume for each in await take(watch, 2)] == [None, revision]


async def test_who_comes_again_is_told_what_it_missed_and_no_more(store: Store) -> None:
    await create(store, "1")
    async with aclosing(watch_resources(store)) as watch:
        after = (await take(watch, 2))[-1].resume
    await create(store, "2")
    await resource_operations.delete_resource(store, "room", "1")
    async with aclosing(watch_resources(store, after=after)) as watch:
        assert said(await take(watch, 3)) == ["synced", "put room/2", "delete room/1"]


async def test_where_the_history_is_gone_everything_is_told_anew(store: Store) -> None:
    made = await create(store, "1")
    for priority in range(1, 4):
        await resource_operations.update_resource(store, "room", "1", {"priority": priority})
    await store.compact(await store.revision())
    async with aclosing(watch_resources(store, after=made.version)) as watch:
        changes = await take(watch, 3)
        assert said(changes) == ["reset", "put room/1", "synced"]
        assert "gone" in changes[0].why


async def test_a_revision_of_another_store_is_none_to_go_on_from(store: Store) -> None:
    async with aclosing(watch_resources(store, after=Revision(10**9))) as watch:
        assert said(await take(watch, 2)) == ["reset", "synced"]


async def test_events_are_told_from_before_and_as_they_come(store: Store) -> None:
    log = EventLog(store, NodeId("n1"), CLOCK)
    for name in "ab":
        log.record("node.joined", name)
    await log.flush()
    async with aclosing(watch_events(store, kinds=["node.*"], limit=1)) as watch:
        first = await anext(watch)
        assert [each.event.subject if each.event else None for each in first] == ["b", None]
        log.record("app.failed", "x")
        log.record("node.left", "b")
        await log.flush()
        (left,) = await anext(watch)
        assert left.event is not None
        assert left.event.kind == "node.left"
    async with aclosing(watch_events(store, after=first[-1].resume)) as watch:
        again = [each.event.kind if each.event else None for _ in range(2) for each in await anext(watch)]
        assert again == [None, "app.failed", "node.left"]


# How many, how silent, how they end


async def never() -> AsyncGenerator[int, None]:
    yield 1
    await asyncio.Event().wait()


async def test_silence_is_broken_and_all_end_when_the_node_stops() -> None:
    open = Watches(quiet=timedelta(milliseconds=10))
    async with aclosing(open.each(never())) as coming:
        assert [await anext(coming) for _ in range(3)] == [1, None, None]
        closing = asyncio.create_task(open.close())
        assert [each async for each in coming if each is not None] == []
    await closing
    with pytest.raises(Unavailable, match="stopping"):
        await anext(open.each(never()))


async def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MOST", 1)
    open = Watches()
    async with aclosing(open.each(never())) as first:
        await anext(first)
        with pytest.raises(Unavailable, match="ask another node"):
            await anext(open.each(never()))
    async with aclosing(open.each(never())) as next:
        assert await anext(next) == 1


# Over HTTP


@asynccontextmanager
async def opened(store: Store, open: Watches) -> AsyncIterator[int]:
    """The port of a door."""
    routes = resources.routes(NodeBackend(lambda: store, CLOCK, open, count))
    app = door(HealthChecks(CLOCK), registry(NodeFigures), dict, gate=GATE, more=routes, clock=CLOCK)
    with bind("127.0.0.1:0") as sock:
        serving = asyncio.create_task(serve(sock, app))
        try:
            yield sock.getsockname()[1]
        finally:
            await open.close()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


async def ask(port: int, path: str, *headers: str, method: str = "GET") -> tuple[asyncio.StreamReader, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        "\r\n".join(
            (f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {TOKEN}", *headers, "", "")
        ).encode()
    )
    return reader, writer


async def part(reader: asyncio.StreamReader) -> str:
    """The next chunk of an answer."""
    async with asyncio.timeout(60):
        size = int((await reader.readline()).strip(), 16)
        return (await reader.readexactly(size + 2))[:-2].decode()


async def head(reader: asyncio.StreamReader) -> str:
    async with asyncio.timeout(60):
        return (await reader.readuntil(b"\r\n\r\n")).decode().lower()


async def test_http_tells_events_and_goes_on_from_an_id(store: Store) -> None:
    open = Watches(quiet=timedelta(milliseconds=50))
    async with opened(store, open) as port:
        reader, writer = await ask(port, "/v1/resources/watch?kind=room")
        assert "content-type: text/event-stream" in await head(reader)
        at = await store.revision()
        assert await part(reader) == f'event: synced\nid: {at}\ndata: {{"revision":{at}}}\n\n'
        assert await part(reader) == ": keep-alive\n\n"
        made = await create(store, "1")
        while (told := await part(reader)).startswith(":"):
            pass
        name, id, data = told.strip().split("\n")
        assert (name, id) == ("event: put", f"id: {made.version}")
        assert json.loads(data.removeprefix("data: "))["id"] == "1"
        writer.close()
        reader, writer = await ask(port, "/v1/resources/watch", f"last-event-id: {at}")
        await head(reader)
        while "event: put" not in await part(reader):
            pass  # signs of life, and that it is in step
        await open.close()
        assert await eventually(lambda: _ended(reader))
        writer.close()


async def _ended(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(60):
        return (await reader.readuntil(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")


async def test_http_tells_what_is_wrong_before_it_begins(store: Store) -> None:
    async with opened(store, Watches()) as port:
        for path, header, word in (
            ("/v1/resources/watch?kind=room&colour=red", "x: y", "colour"),
            ("/v1/resources/watch", "last-event-id: abc", "last-event-id"),
            ("/v1/events/watch?limit=5000", "x: y", "limit"),
        ):
            reader, writer = await ask(port, path, header, "connection: close")
            answer = (await reader.read()).decode().lower()
            assert " 422 " in answer.splitlines()[0]
            assert word in answer
            writer.close()
        reader, writer = await ask(port, "/v1/events/watch", "connection: close", method="HEAD")
        assert "text/event-stream" in (await reader.read()).decode()
        writer.close()


async def test_http_cuts_a_caller_that_takes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "STALLED", 0.1)
    open = Watches()
    async with opened(store, open) as port:
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            caller.sendall(
                b"GET /v1/resources/watch HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer "
                + TOKEN.encode()
                + b"\r\n\r\n"
            )
            await eventually(lambda: open._open == 1)
            await create(store, "1")
            for number in range(1000):
                await resource_operations.update_resource(store, "room", "1", {"spec": {"text": f"{number}" * 2000}})
                if not open._open:
                    break
            await eventually(lambda: open._open == 0)


async def test_an_answer_that_cannot_go_on_is_cut_and_does_not_pass_for_whole(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    class Torn(Watches):
        async def each(self, items: AsyncGenerator[T, None]) -> AsyncGenerator[T | None, None]:
            async with aclosing(super().each(items)) as coming:
                async for item in coming:
                    yield item
                    raise Unavailable("the node that has the rest does not answer")

    caplog.set_level("INFO")
    async with opened(store, Torn()) as port:
        reader, writer = await ask(port, "/v1/resources/watch?kind=room")
        await head(reader)
        assert "event: synced" in await part(reader)
        rest = b""
        with suppress(ConnectionResetError):
            rest = await asyncio.wait_for(reader.read(), 60)
        assert rest == b"", "the last chunk, of length 0, is missing"
        writer.close()
    (line,) = (each for each in caplog.records if each.getMessage() == "answer broken off")
    assert line.__dict__["why"] == "the node that has the rest does not answer"
    assert "Traceback" not in caplog.text
