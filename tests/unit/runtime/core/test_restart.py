"""Restarts wait longer and longer, and a crash loop is a state."""

from datetime import timedelta

from rota.kit.time.instant import Instant
from rota.runtime.core.restart import Falls, RestartPolicy

POLICY = RestartPolicy()
SHORT = timedelta(seconds=1)


def fallen(times: int, at: float = 100.0) -> Falls:
    falls = Falls()
    for _ in range(times):
        falls = falls.add(Instant(at), SHORT, "exit code 1", POLICY)
    return falls


def test_what_never_fell_may_start_at_once() -> None:
    assert Falls().start_at(POLICY) == 0.0
    assert not Falls().is_crash_loop(POLICY)


def test_each_fall_doubles_the_wait_up_to_the_most() -> None:
    waits = [round(fallen(n).start_at(POLICY) - 100.0, 3) for n in range(1, 13)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0]


def test_a_thousand_falls_do_not_overflow() -> None:
    assert fallen(1000).start_at(POLICY) == 130.0


def test_the_fifth_fall_in_a_row_is_a_crash_loop() -> None:
    assert [fallen(n).is_crash_loop(POLICY) for n in (4, 5, 6)] == [False, True, True]


def test_who_stood_long_enough_leaves_its_falls_behind() -> None:
    again = fallen(6).add(Instant(200.0), POLICY.settled_after, "exit code 1", POLICY)
    assert again == Falls(1, Instant(200.0), "exit code 1")
