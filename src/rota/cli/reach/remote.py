"""A fleet by the doors of a node: each operation as the request that the HTTP door has for it.

The request follows from the description of the operation (`doors.verbs`). The server itself knows the caller's name,
the clock and where output is kept, so these arguments are not sent. A refusal is raised as the error that the server
raised, with its message. A request without an answer that may have been carried out is Unknown, and never repeated; one
that changes nothing is Unavailable.
"""

import asyncio
import inspect
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast, get_type_hints
from urllib.parse import quote

import httpx2
import msgspec

from rota.cli.reach.targets import ServerTarget
from rota.doors.verbs import OURS, VERBS, Where
from rota.doors.why_answers import Why
from rota.fleet.doors.nodes.answers import NodeList
from rota.fleet.doors.nodes.why import why_node
from rota.jobs.doors.answers import LogPart, RunPage, RunView
from rota.jobs.logs.port import Logs
from rota.kit.record import replace
from rota.kit.time import durations
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Conflict, Denied, Invalid, NotFound, RotaError, Unavailable, Unknown
from rota.model.event import Event
from rota.model.ids import NodeId, Revision
from rota.model.node import NodeStatus
from rota.relay.core.records import RelayStatus
from rota.resources.core.records import SlotsSet
from rota.resources.doors.answers import ResourceView
from rota.resources.doors.why import why_resource
from rota.store import Store
from rota.views.printing import PrintedPage
from rota.views.watching import Happened, ResourceChange, What

P = ParamSpec("P")
T = TypeVar("T")

CONNECT = 5.0
"""Seconds to reach a node."""

PATIENCE = 30.0
"""Seconds that an answer may take, beyond what the request waits for."""

RELOAD = 300.0
"""Seconds that a node may take to reload, or to go back."""

LOOK = 0.3
"""Seconds between looks at a run, or at its output."""

LINGER = 3.0
"""Seconds that the last output of a run that is over may take to arrive."""

AWAY = 10.0
"""Seconds for which output that is followed may be out of reach."""

FAMILIES: dict[int, type[RotaError]] = {
    400: Invalid, 401: Denied, 403: Denied, 404: NotFound, 405: Invalid, 408: Unavailable, 409: Conflict, 413: Invalid,
    415: Invalid, 421: Invalid, 422: Invalid, 429: Unavailable, 503: Unavailable, 504: Unknown,
}  # fmt: skip
"""The error that each status stands for; any other is a plain RotaError."""


class Way(msgspec.Struct, frozen=True):
    """How an operation is asked over HTTP."""

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Arguments that are parameters, by the names that these have there."""

    body: Mapping[str, str] | str | None = None
    """Arguments that are fields of the body, likewise; or the one argument that is the body."""

    answer: str = ""
    """The field of the answer that is meant; empty: all of it."""

    nothing: bool = False
    """Is there nothing to be read from the answer?"""

    is_paged: bool = False
    """Does one answer have only a part of a long list?"""


@cache
def way_of(name: str) -> Way | None:
    """The request for an operation; None if it has none."""
    verb = VERBS.get(name)
    if verb is None or verb.shown is not None:  # a list that is shown in another way than it is kept
        return None
    at = {where: {field.name: field.key for field in verb.fields if field.where is where} for where in Where}
    fields = at[Where.BODY] if verb.body or verb.method == "POST" else None
    return Way(
        verb.method,
        verb.path,
        at[Where.QUERY] | ({"token": "token"} if verb.page_by else {}),
        next(iter(at[Where.WHOLE]), fields),
        answer=verb.holds,
        nothing=verb.deletes or verb.answers_as_asked,
        is_paged=bool(verb.page_by and verb.holds),
    )


_HEADERS = {"version": "if-match", "key": "idempotency-key"}


class DoorFleet:
    """A fleet by the doors of one of its nodes."""

    def __init__(self, server: ServerTarget) -> None:
        self._server = server
        self._up = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._client = await self._up.enter_async_context(
            httpx2.AsyncClient(
                base_url=self._server.url,
                headers={"authorization": f"Bearer {self._server.token}"},
                trust_env=False,
                verify=_context(self._server),
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._up.aclose()

    async def do(
        self, operation: Callable[Concatenate[Store, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What an operation answers."""
        given = _bound(operation, args, kwargs)
        if special := getattr(self, f"_{operation.__name__}", None):
            return cast(T, await special(**given))
        return cast(T, await self._ask(operation.__name__, given, get_type_hints(operation)["return"]))

    async def each(
        self, operation: Callable[Concatenate[Store, P], AsyncGenerator[T, None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """What a streaming operation yields."""
        going: dict[str, Callable[..., AsyncGenerator[Any, None]]] = {
            "watch_resources": self._watch_resources,
            "watch_events": self._watch_events,
            "follow_log": self._follow_log,
            "follow_printed": self._follow_printed,
        }
        async for each in going[operation.__name__](**_bound(operation, args, kwargs)):
            yield cast(T, each)

    async def now(self) -> datetime:
        """The store's clock."""
        return (await self._list_nodes()).as_of

    @property
    def logs(self) -> Logs:
        """The server knows."""
        return cast(Logs, None)

    async def who(self) -> tuple[str, str]:
        """The caller's name and access, as the server knows them."""
        answer = await self._request("GET", "/v1/session", (), None, {}, timedelta())
        session = msgspec.json.decode(answer.content, type=dict[str, str])
        return session["name"], session["access"]

    async def steer(self, node: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A node's answer to what only that node can answer."""
        patience = timedelta(seconds=RELOAD if path in ("reload", "rollback") else 0)
        where = f"/v1/nodes/{quote(node, safe='')}/{path}"
        return msgspec.json.decode((await self._request(method, where, (), body, {}, patience)).content)

    # What is more than one request, or another shape

    async def _list_nodes(self) -> NodeList:
        page = cast(NodeList, await self._ask("list_nodes", {}, NodeList))
        nodes = list(page.nodes)
        while page.next is not None:
            page = cast(NodeList, await self._ask("list_nodes", {"token": page.next}, NodeList))
            nodes += page.nodes
        return replace(page, nodes=tuple(nodes))

    async def _list_tasks(self, node: str) -> list[str]:
        return list(cast(Why, await self._ask(why_node.__name__, {"node": node}, Why)).holds)

    async def _why(self, thing: str) -> Why:
        kind, slash, id = thing.partition("/")
        asked, given = (why_resource, {"kind": kind, "id": id}) if slash else (why_node, {"node": thing})
        return cast(Why, await self._ask(asked.__name__, given, Why))

    async def _explained(self, page: RunPage) -> RunPage:
        return page  # the server has explained it

    async def _explained_run(self, view: RunView) -> RunView:
        return view

    async def _fleet_status(self) -> dict[str, Any]:
        seen: dict[str, Any] = await self._ask("fleet_status", {}, dict[str, Any])
        for node in seen["nodes"]:
            for name, kind in (("work", NodeStatus), ("relay", RelayStatus)):
                if node.get(name) is not None:
                    node[name] = msgspec.convert(node[name], kind)
        return seen

    async def _delete_resource(self, kind: str, id: str, version: int | None = None) -> ResourceView:
        named = {"kind": kind, "id": id}
        was = cast(ResourceView, await self._ask("get_resource", named, ResourceView))
        await self._ask("delete_resource", {**named, "version": version}, None)
        return was

    async def _set_slots(self, node: str, slots: int | None) -> SlotsSet | None:
        await self._ask("set_slots", {"node": node, "slots": slots}, None)
        return None if slots is None else SlotsSet(node=NodeId(node), slots=slots, since=SYSTEM.wall())

    async def _put_job(self, fields: Mapping[str, object], version: int | None = None) -> Any:
        from rota.jobs.doors.answers import JobView  # noqa: PLC0415

        return await self._ask("put_job", {"name": fields["name"], "fields": fields, "version": version}, JobView)

    async def _await_run(self, run: str, wait: timedelta) -> RunView:
        end = SYSTEM.monotonic() + wait.total_seconds()
        while True:
            view = cast(RunView, await self._ask("get_run", {"run": run}, RunView))
            if view.is_over or SYSTEM.monotonic() >= end:
                return view
            await asyncio.sleep(LOOK)

    async def _read_log(self, run: str, attempt: int | None = None, offset: int = 0) -> LogPart:
        way = Way("GET", "/v1/runs/{job}/{moment}/log", {"attempt": "attempt", "offset": "offset"})
        given = {"attempt": attempt, "offset": offset}
        answer = await self._request("GET", _path(way.path, {"run": run}), _query(way, given), None, {}, timedelta())
        said = answer.headers
        return LogPart(
            run=run,
            attempt=int(said["rota-attempt"]),
            offset=offset,
            data=answer.content,
            next=int(said["rota-next"]),
            is_whole="rota-whole" in said,
        )

    async def _follow_log(self, run: str, attempt: int | None = None, offset: int = 0) -> AsyncGenerator[LogPart, None]:
        """By asking again and again: as events the bytes would have to be text."""
        quiet, answered = 0.0, float("-inf")
        while True:
            try:
                part = await self._read_log(run, attempt, offset)
                is_plain = part.data or part.is_whole
                view = None if is_plain else cast(RunView, await self._ask("get_run", {"run": run}, RunView))
            except Unavailable:
                if SYSTEM.monotonic() - answered > AWAY:
                    raise
                await asyncio.sleep(LOOK)
                continue
            attempt, offset, answered = part.attempt, part.next, SYSTEM.monotonic()
            if part.data:
                quiet = 0.0
                yield part
                continue
            if view is None:
                return
            if view.is_over or attempt != view.attempt:
                quiet += LOOK
                if quiet > LINGER:
                    return
            await asyncio.sleep(LOOK)

    async def _watch_resources(
        self, kind: str | None = None, prefix: str = ""
    ) -> AsyncGenerator[tuple[ResourceChange, ...], None]:
        given = {"kind": kind, "prefix": prefix or None}
        async for event, data, resume in self._events("/v1/resources/watch", given):
            what = What(event)
            if what in (What.PUT, What.DELETE):
                view = msgspec.json.decode(data, type=ResourceView)
                yield (ResourceChange(what=what, resource=view, resume=resume),)
            else:
                why = msgspec.json.decode(data, type=dict[str, Any]).get("why", "")
                yield (ResourceChange(what=what, why=str(why), resume=resume),)

    async def _follow_printed(
        self, kind: str, id: str, nodes: Collection[str] = (), after: str = "", tail: int | None = None
    ) -> AsyncGenerator[PrintedPage, None]:
        path = _path("/v1/logs/{kind}/{id}/follow", {"kind": kind, "id": id})
        async for _, data, _ in self._events(path, {"node": list(nodes), "after": after, "tail": tail}):
            yield msgspec.json.decode(data, type=PrintedPage)

    async def _watch_events(
        self, kinds: Collection[str] = (), node: str | None = None, limit: int = 50, after: Revision | None = None
    ) -> AsyncGenerator[tuple[Happened, ...], None]:
        given = {"kind": list(kinds), "node": node, "limit": limit, "after": after}
        async for event, data, resume in self._events("/v1/events/watch", given):
            happened = msgspec.json.decode(data, type=Event) if event == What.HAPPENED else None
            yield (Happened(event=happened, resume=resume),)

    async def _events(
        self, path: str, given: Mapping[str, object]
    ) -> AsyncGenerator[tuple[str, bytes, Revision | None], None]:
        """Server-sent events: what sort, its data, and behind which revision to go on."""
        query = _query(Way("GET", path, {name: name for name in given}), given)
        timeout = httpx2.Timeout(PATIENCE, connect=CONNECT, read=None)
        try:
            async with self._client.stream("GET", path, params=query, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise _refusal(answer, self._server)
                event, data, resume = "", b"", None
                async for line in answer.aiter_lines():
                    name, _, value = line.partition(": ")
                    match name:
                        case "event":
                            event = value
                        case "id":
                            resume = Revision(int(value))
                        case "data":
                            data = value.encode()
                        case "" if event and not value:
                            yield event, data, resume
                            event, data, resume = "", b"", None
        except httpx2.HTTPError as error:
            raise Unavailable(f"{self._server.url} broke off ({_why(error)}); try again") from None
        raise Unavailable(f"{self._server.url} ended the watch; is the node stopping? Try again, or ask another")

    # How

    async def _ask(self, name: str, given: Mapping[str, Any], kind: Any) -> Any:
        """The answer of an operation, as its type has it."""
        way = way_of(name)
        if way is None:
            raise Invalid(f"{name} cannot be asked of a server; use --store URL")
        headers = {header: str(given[name]) for name, header in _HEADERS.items() if given.get(name) is not None}
        wait = given.get("wait") if "wait" in way.query else None
        answer = await self._request(
            way.method, _path(way.path, given), _query(way, given), _body(way, given), headers, wait or timedelta()
        )
        if way.nothing or kind in (None, NoneType):
            return None
        try:
            content = msgspec.json.decode(answer.content)
            found = content[way.answer] if way.answer else content
            while way.is_paged and content.get("next"):
                page = (*_query(way, given), ("token", str(content["next"])))
                answer = await self._request(way.method, _path(way.path, given), page, None, headers, timedelta())
                content = msgspec.json.decode(answer.content)
                found += content[way.answer]
            return msgspec.convert(found, kind, strict=False)
        except (msgspec.MsgspecError, UnicodeDecodeError, LookupError, TypeError) as error:
            raise RotaError(
                f"{self._server.url} answered something else than a node of this version does ({error}); "
                "is it a node, and of the same version as this command?"
            ) from None

    async def _request(
        self,
        method: str,
        path: str,
        query: tuple[tuple[str, str], ...],
        body: object,
        headers: dict[str, str],
        wait: timedelta,
    ) -> httpx2.Response:
        timeout = httpx2.Timeout(PATIENCE + wait.total_seconds(), connect=CONNECT)
        content = None if body is None else msgspec.json.encode(body)
        all_headers = {**headers, **({"content-type": "application/json"} if content is not None else {})}
        try:
            answer = await self._client.request(
                method, path, params=query, content=content, headers=all_headers, timeout=timeout
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Unavailable(f"{self._server.url} was not reached ({_why(error)}); is a node running there?") from None
        except httpx2.HTTPError as error:
            if method == "GET":
                raise Unavailable(f"{self._server.url} did not answer ({_why(error)}); try again") from None
            raise Unknown(
                f"{self._server.url} did not report the outcome ({_why(error)}); check before you retry"
            ) from None
        if not answer.is_success:
            raise _refusal(answer, self._server)
        return answer


def _bound(operation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, without those that the server has values of its own for."""
    bound = inspect.signature(operation).bind(None, *args, **kwargs).arguments
    verb = VERBS.get(operation.__name__)
    asked = {field.name for field in verb.fields} if verb else bound.keys() - OURS.keys()
    return {name: value for name, value in bound.items() if name in asked}


def _path(path: str, given: Mapping[str, Any]) -> str:
    values = dict(given)
    if "run" in values:
        values["job"], _, values["moment"] = str(values["run"]).partition("/")
        if not values["moment"]:
            raise NotFound(f"there is no run {values['run']}; rota runs ls shows those there are")
    return re.sub(r"\{(\w+)\}", lambda found: quote(str(values[found[1]]), safe="") or "-", path)


def _query(way: Way, given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for name, there in way.query.items():
        value = given.get(name)
        if value is None or value == "":
            continue
        each = value if isinstance(value, list | tuple | set | frozenset) else [value]
        found += [(there, _text(one)) for one in each]
    return tuple(found)


def _body(way: Way, given: Mapping[str, Any]) -> object:
    if way.body is None:
        return None
    if isinstance(way.body, str):
        return given[way.body]
    return {there: _plain(given[name]) for name, there in way.body.items() if name in given}


def _plain(value: object) -> object:
    return _text(value) if isinstance(value, timedelta | datetime) else value


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return durations.render(value)
        case datetime():
            return value.isoformat()
        case _:
            return str(value)


def _refusal(answer: httpx2.Response, server: ServerTarget) -> RotaError:
    """The error that the server answered with."""
    try:
        said = msgspec.json.decode(answer.content, type=dict[str, Any])
        sentence, code = str(said["error"]), str(said.get("code", ""))
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
        sentence, code = f"{server.url} answered {answer.status_code} without a sentence; is it a node of a fleet?", ""
    return FAMILIES.get(answer.status_code, RotaError)(sentence, code=code)


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _context(server: ServerTarget) -> ssl.SSLContext | bool:
    if not server.url.startswith("https:"):
        return False
    try:
        return ssl.create_default_context(cafile=server.ca)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"--ca {server.ca}: {error}; name a file with certificates in PEM form") from None
