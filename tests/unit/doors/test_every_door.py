"""Every route and every method, as the doors themselves list them: who may not is refused and noted, who may is let in.

A route or method that is added is in the table by itself. One that says nothing of what it needs is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import grpc
import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors.grpc import door as grpc_door
from rota.doors.grpc import introspection
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http import session
from rota.doors.http.door import door
from rota.doors.http.entry import FREE
from rota.doors.http.openapi import describe
from rota.fleet.core.access.gate import Access, Gate, TurnedAway, by_digest
from rota.fleet.core.access.logins import Failures
from rota.link import serve_link
from rota.link.pb import link_pb2
from rota.web.routes import is_page
from tests.kit.grpc_caller import Caller as GrpcCaller
from tests.kit.guarded import CLOCK, EXPIRED, RECORDS, REVOKED, TOKENS, Guarded, routes
from tests.kit.http_caller import Caller
from tests.kit.link_server import Desk

BAD = {
    "none": "",
    "unknown": "rota_unknown_0123456789",
    "expired": EXPIRED,
    "revoked": REVOKED,
    "tampered": f"{TOKENS[Access.NODE][:-1]}x",
    "cut": TOKENS[Access.NODE][:-1],
}
"""Tokens that open nothing, by what is wrong with them."""


def too_little(needed: Access) -> list[Access]:
    return [access for access in Access if not access.covers(needed)]


# HTTP


@cache
def paths() -> dict[str, Any]:
    """The paths that the API describes."""
    return describe(resources.table())["paths"]


def needed_over_http(method: str, path: str) -> Access:
    """What the description of the API says of a route; what it does not describe is for those who may look."""
    described = paths().get(path, {})
    found = described.get("get" if method == "HEAD" else method.lower())
    return Access(found["x-role"]) if found else Access.VIEW


JUDGES = ("POST", session.PATH)
"""It brings a token in its body, and has tests of its own (`test_session`)."""

PAGES = [(method, path) for method, path in routes() if is_page(path)]
"""The dashboard's files, which are for everybody."""

ROUTES = [each for each in routes() if each[1] not in FREE and each not in PAGES and each != JUDGES]


def test_the_table_has_the_routes() -> None:
    assert len(ROUTES) > 60
    assert {path for _, path in routes()} >= {"/metrics", "/openapi.json", "/v1/tokens", "/v1/jobs/{name}", *FREE}


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_route_refuses_who_may_not_and_lets_in_who_may(method: str, path: str) -> None:
    guarded, needed = Guarded(), needed_over_http(method, path)
    where = path.replace("{", "").replace("}", "")
    for wrong, token in BAD.items():
        answer = await Caller(guarded.app, token)(method, where)
        assert answer.status == 401, wrong
        (noted,) = guarded.take_notes()
        assert (noted.origin, noted.what) == ("http 127.0.0.1", f"{method} {where}")
        assert noted.by == (wrong if wrong in ("expired", "revoked") else "")
        assert token == "" or token not in noted.refused
    for access in Access:
        answer = await Caller(guarded.app, TOKENS[access])(method, where)
        if access in too_little(needed):
            assert answer.status == 403
            (noted,) = guarded.take_notes()
            assert (noted.by, noted.what) == (access, f"{method} {where}")
        else:
            assert answer.status in (200, 204, 503)  # there is no store behind this door
            assert guarded.take_notes() == []


def test_pages_can_only_be_read() -> None:
    assert {method for method, _ in PAGES} == {"GET", "HEAD"}
    assert not [path for _, path in ROUTES if path.startswith("/static")]


async def test_what_is_no_route_is_refused_to_strangers_like_any_other() -> None:
    guarded = Guarded()
    for path in ("/static", "/v1/../v1/nodes", "/v1/nodes/", "//v1/nodes", "/v1/explode", "/healthz/x"):
        for method in ("GET", "POST", "TRACE", "OPTIONS"):
            assert (await Caller(guarded.app, "")(method, path)).status == 401
    assert len(guarded.take_notes()) == 24


# gRPC


def methods() -> Iterator[str]:
    """Every method of every service at the port."""
    link = link_pb2.DESCRIPTOR.services_by_name["Link"]
    for service in (*grpc_door.SERVICES, link, introspection.REFLECTION):
        for method in service.methods:
            yield f"/{service.full_name}/{method.name}"


METHODS = list(methods())


@asynccontextmanager
async def opened(guarded: Guarded) -> AsyncIterator[GrpcCaller]:
    def take_note(refused: TurnedAway, method: str, address: str) -> TurnedAway:
        return guarded.keeper.turn_away(refused, door="grpc", address=address, what=method)

    def more() -> list[grpc.GenericRpcHandler]:
        return grpc_door.handlers(guarded.behind, HealthChecks(CLOCK), asyncio.Event(), guarded.keeper)

    async with serve_link(
        "grpc://127.0.0.1:0",
        Desk(),
        more=more,
        admit=lambda method, shown: grpc_door.turned_away(guarded.keeper, method, shown),
        take_note=take_note,
    ) as server:
        async with grpc.aio.insecure_channel(server.address.removeprefix("grpc://")) as channel:
            yield GrpcCaller(channel, server.address)


async def code(ask: GrpcCaller, method: str, token: str) -> grpc.StatusCode:
    """How a call ends."""
    try:
        await ask.raw(method, b"", token=token)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_the_table_has_the_methods() -> None:
    assert len(METHODS) > 40
    assert {"/rota.link.v1.Link/DispatchMany", "/CrawlerMaster/AddResource", "/rota.v1.Jobs/Put"} <= set(METHODS)


async def test_every_method_refuses_who_may_not_and_lets_in_who_may() -> None:
    guarded = Guarded()
    async with opened(guarded) as ask:
        for method in METHODS:
            needed = grpc_door.needed(method)
            assert needed is not None
            for wrong, token in BAD.items():
                assert await code(ask, method, token) is grpc.StatusCode.UNAUTHENTICATED, (method, wrong)
                (noted,) = guarded.take_notes()
                assert (noted.origin, noted.what) == ("grpc 127.0.0.1", method)
                assert noted.by == (wrong if wrong in ("expired", "revoked") else "")
            for access in Access:
                ended = await code(ask, method, TOKENS[access])
                if access in too_little(needed):
                    assert ended is grpc.StatusCode.PERMISSION_DENIED, (method, access)
                    assert [noted.by for noted in guarded.take_notes()] == [access]
                else:
                    assert ended not in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED), method
                    assert guarded.take_notes() == []


# Too often


async def test_who_is_refused_again_and_again_is_told_to_wait_and_others_are_not_held_up() -> None:
    guarded = Guarded()
    guarded.keeper = keeper = Doorkeeper(
        Gate(tuple(by_digest(RECORDS).values()), "see: cat data/token"), CLOCK, failures=Failures(at_once=3)
    )
    app = door(HealthChecks(CLOCK), registry(NodeFigures), dict, gate=keeper, clock=CLOCK)
    statuses = [(await Caller(app, "rota_guess")("GET", "/v1/node")).status for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    waiting = await Caller(app, "rota_guess")("GET", "/v1/node")
    assert waiting.headers["retry-after"] == "1"
    assert "too many" in waiting.json["error"]
    assert (await Caller(app, TOKENS[Access.VIEW])("GET", "/v1/node")).status == 200
    CLOCK.time += 10
    assert (await Caller(app, "rota_guess")("GET", "/v1/node")).status == 401
    async with opened(guarded) as ask:
        ended = [await code(ask, "/rota.v1.Nodes/List", "rota_guess") for _ in range(4)]
    assert ended[0] is grpc.StatusCode.UNAUTHENTICATED
    assert ended[-1] is grpc.StatusCode.RESOURCE_EXHAUSTED
