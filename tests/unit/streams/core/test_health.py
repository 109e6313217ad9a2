"""How a stream is said to be: by several failures or successes in a row."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.ids import NodeId, Revision
from rota.streams.core.health import Quiet, Streak, StreamHealth, dropped, state
from rota.streams.core.records import StreamState, StreamTaskStatus, StreamWishes, TaskState

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


def looked(words: str, tasks: str = "") -> StreamHealth:
    return StreamHealth(looks=streak(words), tasks=streak(tasks), has_looked="+" in words)


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
def test_what_is_shown(health: StreamHealth, wishes: StreamWishes, is_idle: bool, shown: StreamState) -> None:
    assert state(health, wishes, is_idle=is_idle) is shown


def test_tasks_that_fail_and_groups_that_publish_are_counted_in_that_order() -> None:
    health = StreamHealth().tasked(failures=3, agreements=0, publishes=1)
    assert health.tasks.is_bad
    assert not health.tasked(failures=0, agreements=1, publishes=1).tasks.is_bad


def test_agreements_prove_nothing_while_a_task_cannot_publish() -> None:
    health = StreamHealth().tasked(failures=3, agreements=0, publishes=0).saw_trouble("the output is read-only", NOON)
    assert health.tasked(failures=0, agreements=9, publishes=0).tasks.is_bad
    assert not health.tasked(failures=0, agreements=0, publishes=3).tasks.is_bad
    assert not health.saw_trouble("", NOON).tasked(failures=0, agreements=3, publishes=0).tasks.is_bad


def test_trouble_counts_when_it_lasts_without_a_break() -> None:
    health = looked("+").saw_trouble("away", NOON).saw_trouble("still away", NOON + MINUTE)
    assert health.is_troubled(NOON + MINUTE)
    again = health.saw_trouble("", NOON + MINUTE).saw_trouble("away", NOON + MINUTE)
    assert not again.is_troubled(NOON + MINUTE)
    assert state(health, StreamWishes(), is_idle=False, is_troubled=True) is StreamState.UNHEALTHY_TASKS


def test_what_replicas_left_out_is_counted_once() -> None:
    def says(group: str, slot: int, **counts: int) -> StreamTaskStatus:
        me = {"stream": "s", "node": NodeId("n"), "epoch": Revision(slot), "state": TaskState.DONE, "at": NOON}
        return StreamTaskStatus(group=group, slot=slot, dropped=counts, **me)  # type: ignore[arg-type]

    tasks = [says("a", 0, late=5, early=1), says("a", 1, late=7), says("b", 0, late=2), says("open", 0, late=99)]
    assert dropped(["a", "b"], tasks) == {"late": 9, "early": 1}


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
