"""Whoever waits to be asked to stop is, also by the handler of a signal that comes in between two of its steps."""

import threading

from rota.sdk.context import Stopping
from tests.kit.interrupting import at_every_line


def test_a_signal_at_any_moment_of_a_wait_ends_it() -> None:
    waited = list(at_every_line(Stopping, Stopping.wait, Stopping.set))
    assert waited
    assert all(waited)


def test_a_signal_at_any_moment_of_being_asked_changes_nothing() -> None:
    asked = list(at_every_line(Stopping, Stopping.set, Stopping.set))
    assert asked
    assert all(each.wait(0) for each in asked)


def test_all_who_wait_are_asked() -> None:
    stopping, answers = Stopping(), []
    waiting = [threading.Thread(target=lambda: answers.append(stopping.wait(60)), daemon=True) for _ in range(5)]
    for thread in waiting:
        thread.start()
    stopping.set()
    stopping.set()
    for thread in waiting:
        thread.join(60)
    assert answers == [True] * 5
    assert stopping.wait()


def test_a_wait_that_is_over_was_not_asked() -> None:
    stopping = Stopping()
    assert [stopping.wait(timeout) for timeout in (0, -1, 0.001, "1ms")] == [False] * 4
    assert not stopping
