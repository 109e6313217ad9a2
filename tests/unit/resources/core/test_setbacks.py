"""Failures of a task count in a row for one version of it, and are forgotten in time."""

from datetime import timedelta

from rota.kit.time.instant import Instant
from rota.resources.core.setbacks import REMEMBER, Setbacks, Version
from rota.runtime.core.restart import Falls, RestartPolicy

OLD, NEW = Version(b"{}", 1), Version(b"{}", 2)
AT_ONCE = timedelta()


def at(seconds: float) -> Instant:
    return Instant(1000 + seconds)


def test_failures_count_for_the_version_that_failed() -> None:
    setbacks = Setbacks(RestartPolicy())
    for number in range(3):
        setbacks.add("t", OLD, at(number), AT_ONCE, "no camera")
    assert setbacks.of("t", OLD, at(3)) == Falls(3, at(2), "no camera")
    assert setbacks.of("t", NEW, at(3)) == setbacks.of("other", OLD, at(3)) == Falls()
    assert setbacks.add("t", NEW, at(3), AT_ONCE, "").count == 1


def test_a_task_that_ran_long_enough_begins_to_count_anew() -> None:
    setbacks = Setbacks(policy := RestartPolicy())
    setbacks.add("t", OLD, at(0), AT_ONCE, "")
    assert setbacks.add("t", OLD, at(60), policy.settled_after, "").count == 1


def test_what_is_old_counts_no_more_and_takes_no_memory() -> None:
    setbacks = Setbacks(RestartPolicy())
    for task in ("gone", "ordered"):
        setbacks.add(task, OLD, at(0), AT_ONCE, "")
    later = at(REMEMBER.total_seconds())
    assert setbacks.of("ordered", OLD, later) == Falls()
    setbacks.forget(at(1), but=())
    assert "gone" in setbacks
    setbacks.forget(later, but=["ordered"])
    assert ("gone" in setbacks, "ordered" in setbacks) == (False, True)
