"""The wheel beside a model that looks at every key each time: a tick late at most, never early."""

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rota.kit.instant import Instant
from rota.kit.wheel import Wheel

TICK = 0.1
START = 1_000.0
ROUNDING = 1e-9

KEYS = st.sampled_from("abcdef")
WAITS = st.floats(-1.0, 5.0)


def at(seconds: float) -> Instant:
    return Instant(START + seconds)


@pytest.fixture
def wheel() -> Wheel[str]:
    return Wheel(at(0), tick=TICK)


def test_a_key_falls_due_once(wheel):
    wheel.arm("a", at(1.0))
    assert wheel.advance(at(0.99)) == []
    assert wheel.advance(at(1.11)) == ["a"]
    assert wheel.advance(at(9.0)) == []


def test_arming_again_moves_a_key(wheel):
    wheel.arm("a", at(1.0))
    wheel.arm("a", at(3.0))
    assert wheel.advance(at(2.0)) == []
    wheel.arm("a", at(2.0))
    assert wheel.advance(at(2.5)) == ["a"]
    assert len(wheel) == 0


def test_a_forgotten_key_does_not_fall_due(wheel):
    wheel.arm("a", at(1.0))
    wheel.every("b", 1.0, at(1.0))
    for key in ("a", "b", "unknown"):
        wheel.disarm(key)
    assert "a" not in wheel
    assert wheel.advance(at(9.0)) == []


def test_a_key_armed_for_the_past_falls_due_within_a_tick(wheel):
    wheel.advance(at(5.0))
    wheel.arm("a", at(1.0))
    assert wheel.advance(at(5.0 + TICK)) == ["a"]


def test_a_period_counts_from_the_call_that_returned_the_key(wheel):
    wheel.every("a", 1.0, at(1.0))
    assert wheel.advance(at(5.05)) == ["a"], "once, however many periods were missed"
    assert wheel.advance(at(6.0)) == []
    assert wheel.advance(at(6.2)) == ["a"]


def test_keys_come_earliest_first_and_within_a_tick_in_the_order_they_were_armed(wheel):
    for key, due in {"late": 3.01, "b": 1.04, "a": 1.02, "early": 0.5}.items():
        wheel.arm(key, at(due))
    assert wheel.advance(at(4.0)) == ["early", "b", "a", "late"]


def test_a_far_deadline_costs_no_walk_through_the_ticks_before_it(wheel):
    wheel.arm("a", at(1e9))
    assert wheel.advance(at(1e9 - 1)) == []
    assert wheel.advance(at(1e9 + 1)) == ["a"]


def test_time_that_steps_back_makes_nothing_due(wheel):
    wheel.advance(at(5.0))
    wheel.arm("a", at(6.0))
    assert wheel.advance(at(2.0)) == []
    assert wheel.advance(at(6.2)) == ["a"]


@pytest.mark.parametrize("bad", [0, -1])
def test_a_tick_and_a_period_are_above_zero(wheel, bad):
    with pytest.raises(ValueError, match="above zero"):
        Wheel(at(0), tick=bad)
    with pytest.raises(ValueError, match="above zero"):
        wheel.every("a", bad, at(1.0))


class WheelBesideModel(RuleBasedStateMachine):
    """Keys are armed, moved, forgotten and fall due, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.wheel: Wheel[str] = Wheel(Instant(self.now), tick=TICK)
        self.due: dict[str, float] = {}
        self.periods: dict[str, float] = {}

    @rule(key=KEYS, wait=WAITS)
    def arm(self, key: str, wait: float) -> None:
        self.wheel.arm(key, Instant(self.now + wait))
        self.due[key] = self.now + max(wait, 0.0)  # what is due already is due now

    @rule(key=KEYS, period=st.floats(0.01, 2.0), wait=WAITS)
    def every(self, key: str, period: float, wait: float) -> None:
        self.wheel.every(key, period, Instant(self.now + wait))
        self.periods[key], self.due[key] = period, self.now + max(wait, 0.0)

    @rule(key=KEYS)
    def disarm(self, key: str) -> None:
        self.wheel.disarm(key)
        self.periods.pop(key, None)
        self.due.pop(key, None)

    @rule(passed=st.floats(0.0, 3.0))
    def advance(self, passed: float) -> None:
        self.now += passed
        fallen = {key: self.due.pop(key) for key in self.wheel.advance(Instant(self.now))}
        assert all(due <= self.now for due in fallen.values()), "early"
        assert all(due > self.now - TICK - ROUNDING for due in self.due.values()), "more than a tick late"
        assert all(one < next + TICK + ROUNDING for one, next in pairwise(fallen.values())), "out of order"
        self.due.update({key: self.now + self.periods[key] for key in fallen if key in self.periods})

    @invariant()
    def holds_the_same_keys(self) -> None:
        assert len(self.wheel) == len(self.due)
        assert all(key in self.wheel for key in self.due)


TestWheelBesideModel = WheelBesideModel.TestCase
TestWheelBesideModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
