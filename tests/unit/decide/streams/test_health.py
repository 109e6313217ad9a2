"""How a stream is said to be: by several failures or successes in a row."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.decide.streams.health import Health, Quiet, Streak, state
from rota.model.stream import StreamState, StreamWishes

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def streak(words: str) -> Streak:
    """After these, `+` for a success and `-` for a failure."""
    found = Streak()
    for each in words:
        found = found.add(is_good=each == "+")
    return found


@pytest.mark.parametrize(
    ("words", "is_bad"),
    [
        ("", False),
        ("--", False),
        ("---", True),
        ("--+--", False),
        ("---++", True),
        ("---++-++", True),
        ("---+++", False),
        ("---+++--", False),
    ],
)
def test_only_three_in_a_row_change_it(words: str, is_bad: bool) -> None:
    assert streak(words).is_bad is is_bad


def looked(words: str, tasks: str = "") -> Health:
    return Health(looks=streak(words), tasks=streak(tasks), has_looked="+" in words)


@pytest.mark.parametrize(
    ("health", "wishes", "is_idle", "shown"),
    [
        (looked(""), StreamWishes(), False, StreamState.PENDING),
        (looked("--"), StreamWishes(is_suspended=True), False, StreamState.PENDING),
        (looked("+"), StreamWishes(), False, StreamState.RUNNING),
        (looked("+"), StreamWishes(), True, StreamState.IDLE),
        (looked("+"), StreamWishes(is_suspended=True), True, StreamState.SUSPENDED),
        (looked("+---"), StreamWishes(), False, StreamState.UNHEALTHY_SUPERVISOR),
        (looked("+", "---"), StreamWishes(), False, StreamState.UNHEALTHY_TASKS),
        (looked("---"), StreamWishes(is_terminated=True), False, StreamState.STOPPING),
    ],
)
def test_what_is_shown(health: Health, wishes: StreamWishes, is_idle: bool, shown: StreamState) -> None:
    assert state(health, wishes, is_idle=is_idle) is shown


def test_tasks_that_fail_and_groups_that_publish_are_counted_in_that_order() -> None:
    health = Health().tasked(failures=3, successes=1)
    assert health.tasks.is_bad
    assert not health.tasked(failures=0, successes=2).tasks.is_bad


def test_a_stream_is_idle_when_nothing_came_and_nothing_is_left_for_long_enough() -> None:
    quiet = Quiet()
    assert not quiet.is_idle(MINUTE, NOON)
    quiet.look({0: 5}, 0, NOON)
    quiet.look({0: 5}, 0, NOON + MINUTE)
    assert quiet.is_idle(MINUTE, NOON + MINUTE)
    assert not quiet.is_idle(2 * MINUTE, NOON + MINUTE)
    assert not quiet.is_idle(None, NOON + MINUTE)
    quiet.look({0: 5}, 1, NOON + MINUTE)
    assert not quiet.is_idle(MINUTE, NOON + MINUTE), "something is not published yet"
    quiet.look({0: 6}, 0, NOON + 3 * MINUTE)
    assert not quiet.is_idle(MINUTE, NOON + 3 * MINUTE), "something has come"
