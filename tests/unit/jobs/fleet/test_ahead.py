"""The attempts that a node takes on ahead of its executors."""

import pytest

from rota.jobs.core.attempt_phases import AttemptEvent, AttemptPhase, OwnedAttempt
from rota.jobs.core.records import RunOrder
from rota.jobs.fleet.ahead import MOST_AHEAD, STUCK, Ahead
from rota.kit.transitions import IllegalTransition
from rota.model.ids import Instant

NOW = Instant(100.0)


def attempt(number: int, since: Instant = NOW) -> OwnedAttempt:
    return OwnedAttempt(RunOrder(run=f"a/{number}", attempt=1, epoch=number, job="a"), since)


def ahead(executors: int = 4, seconds: float = 0.01) -> Ahead:
    """As after many attempts that took so long."""
    found = Ahead(lambda: executors)
    for _ in range(200):
        found.note(seconds)
    return found


def test_nothing_is_taken_on_before_it_is_known_that_attempts_are_short() -> None:
    assert Ahead(lambda: 4).spare == 0
    assert not Ahead(lambda: 4).put(attempt(1))


def test_it_takes_on_what_its_executors_do_in_a_fifth_of_a_second_a_portion_at_a_time() -> None:
    some = ahead()
    most = some.spare
    assert 70 <= most <= 80
    for number in range(2 * most):
        assert some.spare in (0, most - number)
        assert some.put(attempt(number))
    assert not some.put(attempt(0))
    assert ahead(executors=1000).spare == MOST_AHEAD


def test_what_waits_begins_in_order_as_long_as_there_are_executors() -> None:
    some, began = ahead(), list[str]()
    waiting = [attempt(number) for number in range(3)]
    for each in waiting:
        some.put(each)

    def start(order: RunOrder) -> bool:
        began.append(order.run)
        return len(began) < 3

    some.begin(start, lambda: Instant(NOW + 1))
    assert began == ["a/0", "a/1", "a/2"]
    assert [each.phase for each in waiting] == [AttemptPhase.BEGUN] * 2 + [AttemptPhase.AHEAD]
    assert waiting[0].since == NOW + 1


def test_what_waits_behind_something_slow_leaves_and_nothing_more_is_taken_on() -> None:
    some, old, new = ahead(), attempt(1), attempt(2, Instant(NOW + 0.5))
    some.put(old)
    some.put(new)
    assert some.leaving(Instant(NOW + STUCK), "slow") == [(old, "slow")]
    assert (old.phase, new.phase, some.spare) == (AttemptPhase.GIVEN_BACK, AttemptPhase.AHEAD, 0)


def test_what_is_taken_out_leaves_with_its_reason_once() -> None:
    some, one = ahead(), attempt(1)
    some.put(one)
    one.step(AttemptEvent.STOP_ASKED)
    some.take_out(one, "enough")
    assert some.leaving(NOW, "slow") == [(one, "enough")]
    assert some.leaving(NOW, "slow") == []


def test_an_attempt_that_has_begun_is_not_given_back() -> None:
    one = attempt(1)
    one.begin(NOW)
    with pytest.raises(IllegalTransition):
        one.step(AttemptEvent.HELD_UP)
    one.step(AttemptEvent.STOP_ASKED)
    assert one.phase is AttemptPhase.STOPPING
    assert not one.may(AttemptEvent.STOP_ASKED)
