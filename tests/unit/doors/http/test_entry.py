"""Who is let in over HTTP, asked without a socket."""

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.http.entry import host_of
from rota.doors.verbs import OPERATIONS
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, TurnedAway, known
from rota.fleet.core.access.logins import Failures
from tests.kit.hand_clock import HandClock
from tests.kit.http_caller import Caller
from tests.kit.http_door import Answer
from tests.kit.relay_records import count

LOOKER, OPERATOR = "rota_looker", "rota_operator"
GATE = Doorkeeper(
    Gate((known(LOOKER, Access.VIEW), known(OPERATOR, Access.OPERATE)), "see: cat data/token"),
    failures=Failures(10_000),
)
ENDPOINTS = [(each.method, each.path, each.operation) for each in resources.table()]


def calling(token: str) -> Caller:
    clock = HandClock()
    routes = resources.routes(NodeBackend(lambda: None, clock, Watches(), count))
    return Caller(
        door(HealthChecks(clock), registry(NodeFigures), dict, gate=GATE, hosts={"box.example"}, more=routes), token
    )


async def named(host: str, path: str = "/v1/node") -> Answer:
    return await calling(LOOKER)("GET", path, headers={"host": host})


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health_is_for_everybody_under_any_name(path: str) -> None:
    answer = await calling("wrong")("GET", path, headers={"host": "evil.example"})
    assert (answer.status, answer.json) == (200, {"ok": True})


@pytest.mark.parametrize("path", ["/", "/metrics", "/v1/node", "/openapi.json", "/v1/nodes", "/nowhere", "/healthz/"])
async def test_everything_else_needs_a_token(path: str) -> None:
    for headers, word in (({"authorization": ""}, "cat data/token"), ({"authorization": "Bearer x"}, "not known")):
        answer = await calling(LOOKER)("GET", path, headers=headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["cache-control"] == "no-store"
        assert word in answer.json["error"]


async def test_who_may_look_sees_the_node_its_metrics_and_the_description() -> None:
    for path in ("/metrics", "/v1/node", "/openapi.json"):
        assert (await calling(LOOKER)("GET", path)).status == 200


@pytest.mark.parametrize(("method", "path", "operation"), ENDPOINTS)
async def test_every_endpoint_asks_for_what_its_operation_needs(method: str, path: str, operation: str) -> None:
    """503: let in, and there is no store."""
    needed = OPERATIONS[operation]
    for token, access in ((LOOKER, Access.VIEW), (OPERATOR, Access.OPERATE)):
        answer = await calling(token)(method, path)
        assert answer.status == (503 if access.covers(needed) else 403)
        assert access.covers(needed) or f"needs a token for {needed}, and yours is for {access}" in answer.json["error"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:7700", "LOCALHOST", "127.0.0.1:7700", "127.9.9.9", "[::1]:7700", "[::1]", "BOX.example:1"],
)
async def test_the_node_answers_to_its_names(host: str) -> None:
    assert (await named(host)).status == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:7700", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.9"]
)
async def test_the_node_does_not_answer_to_others(host: str) -> None:
    answer = await named(host)
    assert answer.status == 421
    assert f'does not answer to "{host_of(host)}"' in answer.json["error"]


def test_a_host_is_what_stands_before_the_port() -> None:
    assert [host_of(each) for each in ("A.b:1", "[fe80::1]:2", "[::1]", "x", "")] == ["a.b", "fe80::1", "::1", "x", ""]


def test_callers_behind_one_proxy_are_limited_apart_and_the_trail_has_both_addresses() -> None:
    noted: list[str] = []

    def note(*, by: str, origin: str, what: str, refused: str = "") -> None:
        noted.append(origin)

    keeper = Doorkeeper(Gate((), "see: cat data/token"), note=note, failures=Failures(at_once=1, every=3600))

    def turned_away(address: str) -> bool:
        refused = TurnedAway("no", is_stranger=True, name="")
        return keeper.turn_away(refused, door="http", address=address, what="GET /").is_too_often

    assert [turned_away(f"{caller} via 10.0.0.5") for caller in ("203.0.113.7", "203.0.113.8", "203.0.113.7")] == [
        False,
        False,
        True,
    ]
    assert noted[:2] == ["http 203.0.113.7 via 10.0.0.5", "http 203.0.113.8 via 10.0.0.5"]
