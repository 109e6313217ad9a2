from datetime import timedelta

import pytest

from rota.doors.health import HealthChecks, LoopProgress, judge
from rota.kit.time.instant import Instant
from tests.kit.hand_clock import HandClock

LIMIT = timedelta(seconds=30)


@pytest.mark.parametrize(
    ("progress", "answers", "expected"),
    [
        pytest.param({}, {}, {}, id="nothing is expected"),
        pytest.param({"tick": LoopProgress(Instant(70.0), LIMIT)}, {"store": None}, {}, id="just in time"),
        pytest.param(
            {"tick": LoopProgress(Instant(69.0), LIMIT)},
            {},
            {"tick": "no progress for 31s, at most 30s is expected"},
            id="a loop stands still",
        ),
        pytest.param({}, {"store": "it is away", "disk": None}, {"store": "it is away"}, id="a check says no"),
    ],
)
def test_judging(progress: dict[str, LoopProgress], answers: dict[str, str | None], expected: dict[str, str]) -> None:
    verdict = judge(progress, answers, Instant(100.0))
    assert verdict.reasons == expected
    assert verdict.is_well is not bool(expected)


def test_a_loop_that_stamps_is_healthy_and_one_that_stops_is_not() -> None:
    clock = HandClock()
    health = HealthChecks(clock)
    stamp = health.expect("tick", LIMIT)
    assert health.healthy().is_well
    clock.time += 31
    assert not health.healthy().is_well
    stamp()
    assert health.healthy().is_well


def test_a_loop_that_ended_in_order_is_not_missed() -> None:
    clock = HandClock()
    health = HealthChecks(clock)
    stamp = health.expect("reload", LIMIT)
    health.forget("reload")
    stamp()
    clock.time += 1000
    assert health.healthy().is_well


def test_readiness_asks_for_more_than_health() -> None:
    health = HealthChecks(HandClock())
    health.check("store", lambda: None)
    health.check_ready("app", lambda: "not loaded yet")
    assert health.healthy().is_well
    assert health.ready().reasons == {"app": "not loaded yet"}
    health.check("store", lambda: "away")
    assert health.healthy().reasons == {"store": "away"}
    assert health.ready().reasons == {"store": "away", "app": "not loaded yet"}


def test_a_check_that_fails_does_not_hide_the_others() -> None:
    health = HealthChecks(HandClock())
    health.check("bad", lambda: str(1 // 0))
    health.check("store", lambda: "away")
    reasons = health.healthy().reasons
    assert reasons["store"] == "away"
    assert "ZeroDivisionError" in reasons["bad"]
