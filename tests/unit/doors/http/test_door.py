"""What the HTTP door answers, asked without a socket."""

from datetime import timedelta

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors.health import HealthChecks
from rota.doors.http.door import door
from rota.model.errors import Conflict, Denied, Invalid, LeaseLost, Unavailable, Unknown
from rota.model.ids import LeaseId
from rota.services.node.recent_figures import ServiceFigures
from tests.kit.hand_clock import HandClock
from tests.kit.http_door import GATE, ask, made
from tests.kit.services import MemoryServices


async def test_a_node_that_gets_on_is_healthy_ready_and_alive() -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        answer = await ask(made(), path)
        assert (answer.status, answer.json) == (200, {"ok": True})


async def test_a_node_that_stands_still_says_why_and_is_alive() -> None:
    clock = HandClock()
    health = HealthChecks(clock)
    health.expect("tick", timedelta(seconds=30))
    health.check_ready("app", lambda: "not loaded yet")
    clock.time += 60
    answer = await ask(made(health), "/healthz")
    late = "no progress for 1m, at most 30s is expected"
    assert (answer.status, answer.json) == (503, {"ok": False, "reasons": {"tick": late}})
    answer = await ask(made(health), "/readyz")
    assert (answer.status, answer.json["reasons"]) == (503, {"tick": late, "app": "not loaded yet"})
    assert (await ask(made(health), "/livez")).status == 200


async def test_metrics_come_in_the_form_that_was_asked_for() -> None:
    answer = await ask(made(), "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"rota_leader 0.0" in answer.body
    answer = await ask(made(), "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


async def test_figures_that_take_a_while_are_waited_for() -> None:
    services = MemoryServices({"logic": {1: 2}})
    services.work("logic", 1, 3, ms=20)
    figures = ServiceFigures(lambda: services, HandClock())
    app = door(
        HealthChecks(HandClock()),
        registry(lambda: NodeFigures(services=figures.latest)),
        dict,
        gate=GATE,
        refresh=figures.refresh,
    )
    answer = await ask(app, "/metrics")
    assert b'rota_service_answers_total{group="1",service="logic"} 3.0' in answer.body
    answer = await ask(app, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert b'rota_service_duration_seconds_bucket{le="0.05",service="logic"} 3.0' in answer.body


async def test_the_node_tells_of_itself() -> None:
    answer = await ask(made(), "/v1/node")
    assert (answer.status, answer.json) == (200, {"id": "a", "since": "2026-01-01T00:00:00Z"})


async def test_every_answer_has_its_date_and_is_not_kept() -> None:
    for path in ("/healthz", "/nowhere"):
        headers = (await ask(made(), path)).headers
        assert headers["date"] == "Thu, 01 Jan 2026 00:00:00 GMT"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


async def test_what_is_not_there_is_refused_with_what_is() -> None:
    answer = await ask(made(), "/v1/nod")
    assert answer.status == 404
    assert answer.json["error"] == "there is nothing at /v1/nod; did you mean /v1/node?"


async def test_a_wrong_method_is_refused_with_the_right_ones() -> None:
    answer = await ask(made(), "/v1/node", "DELETE")
    assert answer.status == 405
    assert answer.json["detail"] == f"/v1/node does not take DELETE; use {answer.headers['allow']}"
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Invalid("it is wrong; correct it"), 422),
        (Denied("not yours"), 403),
        (Conflict("taken"), 409),
        (Unavailable("away"), 503),
        (Unknown("perhaps"), 504),
    ],
)
async def test_an_error_of_ours_explains_itself(error: Exception, status: int) -> None:
    answer = await ask(made(error=error), "/v1/fail")
    assert (answer.status, answer.json["error"]) == (status, str(error))


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), LeaseLost(LeaseId("secret"))])
async def test_a_bug_is_logged_and_not_shown(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask(made(error=error), "/v1/fail")
    assert answer.status == 500
    assert answer.json["error"].startswith("something went wrong in this node")
    assert b"secret" not in answer.body
    (record,) = caplog.records
    assert record.exc_info is not None
    assert (record.message, vars(record)["path"]) == ("request failed", "/v1/fail")
