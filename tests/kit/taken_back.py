"""How long a fleet goes on listening to a token that was taken back: measured at every door of every node.

`measure` makes a token, opens with it everything that a caller can have open, takes it back in one of these ways
(`HOW`), and notes for each thing how many seconds later it was refused. `make show-doors` shows the figures; a test
asserts the refusals.

Which streams there are is read from the doors themselves (`http_streams`, `grpc_streams`): one that is added and that
this module cannot open fails the test, rather than being left out.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import httpx2

from rota.doors import verbs
from rota.doors.grpc import door as grpc_door
from rota.doors.grpc import introspection
from rota.doors.grpc.pb import api_pb2, jobs_pb2, reflection_pb2
from rota.doors.http import routes as resources
from rota.fleet.core.access.token import Access, TokenRecord
from rota.kit.record import replace
from rota.model import codec, keys
from rota.store import Put, Store, open_store
from tests.kit.doors import Door
from tests.kit.node import APP, NodeUnderTest
from tests.kit.waiting import eventually

PATIENCE = 120.0
"""Seconds until nobody waits for a refusal any more."""

TOO_OFTEN = "too many refused calls from your address"
"""What whoever shows no good token is told in the end; this trial does so a hundred times a second."""

HOW = ("revoked", "rotated", "expired", "lowered")
"""The ways in which a token is taken back; a role is lowered from `node` to `view`."""

SPEAKING = APP.replace('    note("run", run.id', '    print("begun", flush=True)\n    note("run", run.id')
"""The app of nodes under test, whose runs say something at once: who follows one is not answered before that."""

Refused: TypeAlias = Callable[[], Awaitable[str]]
"""Waits until something is refused, and returns the refusal; nothing if it ended in another way."""

Opened: TypeAlias = AbstractAsyncContextManager[Refused]


@dataclass(frozen=True)
class Figure:
    """How long one thing went on after a token was taken back."""

    how: str
    node: str
    """The address of its HTTP door."""

    what: str
    seconds: float
    said: str
    """The refusal; empty if there was none within `PATIENCE`."""


def http_streams(run: str) -> list[str]:
    """The path of every operation over HTTP that goes on answering; `run` is one that is not over."""
    job, _, moment = run.partition("/")
    found = [each for each in resources.table() if each.operation in verbs.STREAMING]
    named = {"{job}": job, "{moment}": moment, "{kind}": "service", "{id}": "logic"}
    return [reduce(lambda path, part: path.replace(*part), named.items(), each.path) for each in found]


def grpc_streams(run: str) -> dict[str, bytes | None]:
    """Every method over gRPC that goes on, and the request that opens it; None: none is sent."""
    services = [*grpc_door.SERVICES, introspection.REFLECTION]
    return {
        f"/{service.full_name}/{method.name}": REQUESTS[method.full_name](run)
        for service in services
        for method in service.methods
        if method.server_streaming or method.client_streaming
    }


REQUESTS: dict[str, Callable[[str], bytes | None]] = {
    "rota.v1.Resources.Watch": lambda run: api_pb2.WatchResourcesRequest().SerializeToString(),
    "rota.v1.Events.Watch": lambda run: api_pb2.WatchEventsRequest().SerializeToString(),
    "rota.v1.Runs.FollowLog": lambda run: jobs_pb2.RunLogRequest(run=run).SerializeToString(),
    introspection.REFLECTION.methods[0].full_name: lambda run: reflection_pb2.ServerReflectionRequest(
        list_services=""
    ).SerializeToString(),
}
"""How each stream is opened."""


@asynccontextmanager
async def fleet(folder: Path, names: Sequence[str]) -> AsyncIterator[tuple[list[Door], Store, str]]:
    """The doors of nodes that share a token, their store, and a run that is not over."""
    url, file = f"sqlite:///{folder}/rota.db", folder / "token"
    file.write_text("rota_that_several_nodes_share\n")
    file.chmod(0o600)
    with ExitStack() as stack:
        nodes = [
            NodeUnderTest(
                folder / name, "--token", f"file:{file}", "--role", "both", name=name, store=url, app=SPEAKING
            )
            for name in names
        ]
        doors = []
        for node in nodes:
            stack.enter_context(node)
        for node in nodes:
            told = (await node.ready())["doors"]
            doors.append(Door(told["http"], told["grpc"], file.read_text().strip()))

        async def started() -> str | None:
            status, said = doors[0].http("POST", "/v1/jobs/held/run", {})
            return str(json.loads(said)["id"]) if status == 201 else None

        run = await eventually(started)
        await eventually(lambda: any(["run", run] == words[:2] for node in nodes for words in node.notes()))
        async with open_store(url) as store:
            yield doors, store, run
        for node in nodes:
            node.gate.touch()


async def measure_all(folder: Path, names: Sequence[str] = ("a", "b", "c")) -> list[Figure]:
    """The figures of every way, on a fleet of nodes with these names."""
    async with fleet(folder, names) as (doors, store, run):
        return [figure for how in HOW for figure in await measure(doors, store, run, how)]


async def measure(doors: Sequence[Door], store: Store, run: str, how: str) -> list[Figure]:
    """Take a token back in one way, and see how long each door of each node goes on.

    `doors` show a token for `node`; `run` is a run that is not over, and whose output is followed.
    """
    name, role = f"trial-{how}-{time.monotonic_ns()}", "node" if how == "lowered" else "operate"
    made = _ask(doors[0], "POST", "/v1/tokens", {"name": name, "role": role})
    theirs = [door.showing(made["token"]) for door in doors]
    for door in theirs:
        await eventually(partial(_is_in, door))
    async with AsyncExitStack() as stack:
        waiting = []
        for door in theirs:
            for what, opened in _everything(door, run, how):
                waiting.append((door.address, what, await stack.enter_async_context(opened)))
        began = await _take_back(doors[0], store, name, how)
        found = await asyncio.gather(*(_timed(began, refused) for _, _, refused in waiting))
    return [
        Figure(how, node, what, seconds, said) for (node, what, _), (seconds, said) in zip(waiting, found, strict=True)
    ]


def lines(figures: Sequence[Figure]) -> list[str]:
    """The figures as lines: for each way and thing the slowest node."""
    slowest: dict[tuple[str, str], Figure] = {}
    for each in figures:
        before = slowest.get((each.how, each.what))
        if before is None or each.seconds > before.seconds:
            slowest[each.how, each.what] = each
    return [
        f"{each.how:8}  {each.what:60}  {f'{each.seconds:5.2f} s' if each.said else 'never refused'}"
        for each in slowest.values()
    ]


async def _take_back(door: Door, store: Store, name: str, how: str) -> float:
    """Take the token back; when that was."""
    began = time.monotonic()
    if how in ("revoked", "rotated"):
        await asyncio.to_thread(_ask, door, "POST", f"/v1/tokens/{name}/{how.removesuffix('d')}", {})
        return began
    entry = await store.get(keys.token(name))
    assert entry is not None
    record = codec.decode(TokenRecord, entry.value)
    if how == "lowered":
        await store.commit(Put(entry.key, codec.encode(replace(record, access=Access.VIEW))))
        return began
    # Everything is open by now, however long that took; the end is a little later, as if the token had been made so.
    expires = datetime.now(UTC) + timedelta(seconds=2)
    await store.commit(Put(entry.key, codec.encode(replace(record, expires=expires))))
    left = (expires - datetime.now(UTC)).total_seconds()
    await asyncio.sleep(max(0.0, left))
    return time.monotonic() + min(0.0, left)


def _everything(door: Door, run: str, how: str) -> list[tuple[str, Opened]]:
    """All that a caller can have open, by name; for a lowered role what that one does not open any more."""
    if how == "lowered":
        return [
            ("a change over HTTP", _plain(door, "POST", "/v1/nodes/nobody/cordon", 403)),
            ("a call over the node link", _plain_grpc(door, "/rota.link.v1.Link/Check", "PERMISSION_DENIED")),
        ]
    return [
        ("a call over HTTP", _plain(door, "GET", "/v1/nodes", 401)),
        ("a call over gRPC", _plain_grpc(door, "/rota.v1.Nodes/List", "UNAUTHENTICATED")),
        ("a call in a session", _in_session(door, "")),
        *((f"HTTP {path}", _http_stream(door, path)) for path in http_streams(run)),
        *((f"session {path}", _in_session(door, path)) for path in http_streams(run)),
        *((f"gRPC {path}", _grpc_stream(door, path, request)) for path, request in grpc_streams(run).items()),
    ]


@asynccontextmanager
async def _plain(
    door: Door, method: str, path: str, refusal: int, headers: dict[str, str] | None = None
) -> AsyncGenerator[Refused, None]:
    """A call that is made again and again."""

    async def refused() -> str:
        body = {} if method == "POST" else None
        while True:
            status, said = await asyncio.to_thread(door.http, method, path, body, headers)
            if status == refusal or TOO_OFTEN in said:
                return said
            await asyncio.sleep(0.05)

    yield refused


@asynccontextmanager
async def _plain_grpc(door: Door, path: str, refusal: str) -> AsyncGenerator[Refused, None]:
    async with grpc.aio.insecure_channel(door.grpc) as channel:

        async def refused() -> str:
            while True:
                call: Any = channel.unary_unary(path)(b"", metadata=_shown(door), timeout=60)
                said = str(await call.details())
                if (await call.code()).name == refusal or TOO_OFTEN in said:
                    return said
                await asyncio.sleep(0.05)

        yield refused


@asynccontextmanager
async def _http_stream(door: Door, path: str, headers: dict[str, str] | None = None) -> AsyncGenerator[Refused, None]:
    """A stream that goes on; it is refused when it breaks off and the same request is answered with 401."""
    shown = headers or {"authorization": f"Bearer {door.token}"}
    timeout = httpx2.Timeout(60, read=PATIENCE)
    async with (
        httpx2.AsyncClient(base_url=f"http://{door.address}", trust_env=False, timeout=timeout) as client,
        client.stream("GET", path, headers=shown) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()

        async def refused() -> str:
            try:
                async with aclosing(answer.aiter_raw()) as parts:
                    async for _ in parts:
                        pass
            except httpx2.HTTPError as error:
                seen = type(error).__name__
            else:
                return ""  # it ended as if there were nothing more
            again = await client.get(path, headers=shown)
            return f"{seen}, then {again.text}" if again.status_code == 401 or TOO_OFTEN in again.text else ""

        yield refused


@asynccontextmanager
async def _in_session(door: Door, path: str) -> AsyncGenerator[Refused, None]:
    """What a browser does that has logged in: it watches, or calls again and again."""
    async with httpx2.AsyncClient(base_url=f"http://{door.address}", trust_env=False, timeout=60) as client:
        answer = await client.post("/v1/session", json={"token": door.token})
    assert answer.status_code == 200, answer.text
    cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    assert door.token not in cookie["cookie"]
    opened = _http_stream(door, path, cookie) if path else _plain(door.showing(""), "GET", "/v1/nodes", 401, cookie)
    async with opened as refused:
        yield refused


@asynccontextmanager
async def _grpc_stream(door: Door, path: str, request: bytes | None) -> AsyncGenerator[Refused, None]:
    async with grpc.aio.insecure_channel(door.grpc) as channel:
        call: Any = channel.stream_stream(path)(metadata=_shown(door))
        await call.wait_for_connection()
        if request is not None:
            await call.write(request)

        async def refused() -> str:
            try:
                while await call.read() is not grpc.aio.EOF:
                    pass
            except grpc.aio.AioRpcError as error:
                denied = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
                said = f"{error.code().name}: {error.details()}"
                return said if error.code() in denied or TOO_OFTEN in said else ""
            return ""

        try:
            yield refused
        finally:
            call.cancel()


async def _timed(began: float, refused: Refused) -> tuple[float, str]:
    try:
        async with asyncio.timeout(PATIENCE):
            said = await refused()
    except TimeoutError:
        said = ""
    return time.monotonic() - began, said


def _is_in(door: Door) -> bool:
    return door.http("GET", "/v1/node")[0] == 200


def _shown(door: Door) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {door.token}"),)


def _ask(door: Door, method: str, path: str, body: object = None) -> Any:
    status, said = door.http(method, path, body)
    assert status < 300, said
    return json.loads(said)
