"""The window: numbers, outcomes told once, and what goes again after a break."""

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.sinks import Message
from rota.sinks.window import ShardWindow
from tests.kit.sinks import is_in_order, last_copies, message, numbers, without_repeats

ALL = 1 << 40


def filled(count: int, resources: int = 1) -> ShardWindow:
    """A window with messages 1, 2, 3 … all sent."""
    window = ShardWindow()
    for number in range(1, count + 1):
        window.add(message(number, f"r{number % resources}"))
    window.send(ALL)
    return window


def resent(window: ShardWindow) -> list[int]:
    """What goes again after a break."""
    window.restart()
    return numbers(window.send(ALL))


def test_a_confirmation_of_several_takes_all_up_to_it() -> None:
    window = filled(5)
    assert numbers(window.confirm(3, is_multiple=True)) == [1, 2, 3]
    assert numbers(window.confirm(5, is_multiple=True)) == [4, 5]
    assert len(window) == 0


def test_an_early_confirmation_is_told_once_and_its_message_waits() -> None:
    window = filled(3)
    assert numbers(window.confirm(2, is_multiple=False)) == [2]
    assert window.confirm(2, is_multiple=False) == []
    assert len(window) == 3
    assert numbers(window.confirm(1, is_multiple=False)) == [1]
    assert len(window) == 1


def test_a_confirmation_of_several_leaves_out_what_was_told() -> None:
    window = filled(4)
    window.confirm(2, is_multiple=False)
    assert numbers(window.confirm(3, is_multiple=True)) == [1, 3]


def test_a_late_copy_of_a_confirmation_is_nothing() -> None:
    window = filled(3)
    window.confirm(2, is_multiple=True)
    assert window.confirm(1, is_multiple=False) == []
    assert window.confirm(2, is_multiple=True) == []
    assert len(window) == 1


def test_a_confirmation_of_what_was_not_sent_is_an_error() -> None:
    with pytest.raises(ValueError, match="message 4 was confirmed, but 3 was the last"):
        filled(3).confirm(4, is_multiple=True)


def test_after_a_break_the_unconfirmed_go_again_under_new_numbers() -> None:
    window = filled(5)
    window.confirm(2, is_multiple=True)
    window.add(message(6))
    assert resent(window) == [3, 4, 5, 6]
    assert numbers(window.confirm(2, is_multiple=True)) == [3, 4]


def test_what_was_confirmed_behind_its_own_resource_goes_again_and_is_not_told_again() -> None:
    window = filled(3)
    window.confirm(2, is_multiple=False)
    assert resent(window) == [1, 2, 3]
    assert numbers(window.confirm(3, is_multiple=True)) == [1, 3]


def test_what_was_confirmed_behind_other_resources_only_does_not_go_again() -> None:
    window = filled(4, resources=2)
    window.confirm(2, is_multiple=False)
    assert resent(window) == [1, 3, 4]


def test_a_rejected_message_is_told_apart_and_does_not_go_again() -> None:
    window = filled(3)
    number = window.find((2).to_bytes(16))
    assert number == 2
    rejected = window.reject(number)
    assert rejected is not None
    assert numbers([rejected]) == [2]
    assert window.find((2).to_bytes(16)) is None
    assert resent(window) == [1, 3]


def test_a_rejected_message_leaves_with_its_confirmation() -> None:
    window = filled(2)
    window.reject(1)
    assert window.confirm(1, is_multiple=False) == []
    assert len(window) == 1


def test_a_copy_of_what_was_told_is_not_rejected_too() -> None:
    window = filled(2)
    window.confirm(2, is_multiple=False)
    assert resent(window) == [1, 2]
    assert window.reject(2) is None


def test_the_hopeless_are_returned_and_do_not_go_again() -> None:
    window = filled(3)
    assert numbers(window.restart(lambda one: one.id == (2).to_bytes(16))) == [2]
    assert numbers(window.send(ALL)) == [1, 3]


def test_everything_is_answered_when_the_rest_was_refused() -> None:
    window = filled(4)
    window.refuse(2, is_multiple=True)
    window.confirm(4, is_multiple=False)
    assert not window.is_answered
    window.refuse(3, is_multiple=False)
    assert window.is_answered
    assert resent(window) == [1, 2, 3, 4]


def test_a_nacked_message_is_not_confirmed_by_a_later_multiple_ack() -> None:
    window = filled(10)
    assert numbers(window.confirm(4, is_multiple=True)) == [1, 2, 3, 4]
    window.refuse(5, is_multiple=False)
    assert numbers(window.confirm(10, is_multiple=True)) == [6, 7, 8, 9, 10]
    assert window.is_answered
    assert resent(window) == [5, 6, 7, 8, 9, 10]
    assert numbers(window.confirm(6, is_multiple=True)) == [5]
    assert len(window) == 0


def test_the_first_answer_to_a_message_counts() -> None:
    window = filled(3)
    window.refuse(1, is_multiple=False)
    assert window.confirm(1, is_multiple=False) == []
    window.confirm(2, is_multiple=False)
    window.refuse(3, is_multiple=True)
    assert resent(window) == [1, 2, 3]
    assert numbers(window.confirm(3, is_multiple=True)) == [1, 3]


def test_a_refusal_of_what_was_not_sent_is_an_error() -> None:
    with pytest.raises(ValueError, match="message 4 was refused, but 3 was the last"):
        filled(3).refuse(4, is_multiple=False)


def test_a_refusal_of_what_has_left_is_nothing() -> None:
    window = filled(3)
    window.confirm(2, is_multiple=True)
    window.refuse(1, is_multiple=False)
    assert not window.is_answered


def test_copies_that_are_not_sent_yet_do_not_count_as_answered() -> None:
    window = filled(5)
    window.confirm(3, is_multiple=False)
    window.confirm(4, is_multiple=False)
    window.confirm(5, is_multiple=False)
    window.restart()
    window.send(2)
    window.refuse(2, is_multiple=False)
    assert not window.is_answered


def test_a_copy_that_was_refused_goes_again_and_is_not_told_again() -> None:
    window = filled(2)
    window.refuse(1, is_multiple=False)
    window.confirm(2, is_multiple=False)
    assert resent(window) == [1, 2]
    assert numbers(window.confirm(1, is_multiple=False)) == [1]
    window.refuse(2, is_multiple=False)
    assert resent(window) == [2]
    assert window.confirm(1, is_multiple=False) == []
    assert len(window) == 0


def test_sending_stops_at_about_so_many_bytes() -> None:
    window = ShardWindow()
    for number in range(4):
        window.add(message(number, payload=bytes(10)))
    assert numbers(window.send(15)) == [0, 1]
    assert numbers(window.send(15)) == [2, 3]
    assert not window.has_unsent


class Server(RuleBasedStateMachine):
    """A server that takes, confirms, rejects and breaks as it likes; the window must keep the laws."""

    def __init__(self) -> None:
        super().__init__()
        self.window = ShardWindow()
        self.published: list[Message] = []
        self.arrived: list[Message] = []
        self.on_the_way: deque[tuple[int, Message]] = deque()
        self.taken: dict[int, Message] = {}
        self.told: list[Message] = []
        self.has_refused = False
        self.sent = 0

    @rule(resource=st.sampled_from(["r0", "r1"]), count=st.integers(1, 3))
    def publish(self, resource: str, count: int) -> None:
        for _ in range(count):
            one = message(len(self.published), resource)
            self.published.append(one)
            self.window.add(one)

    @rule(most=st.integers(1, 5))
    def send(self, most: int) -> None:
        for one in self.window.send(most):
            self.sent += 1
            self.on_the_way.append((self.sent, one))

    @precondition(lambda self: self.on_the_way)
    @rule()
    def take(self) -> None:
        number, one = self.on_the_way.popleft()
        self.taken[number] = one
        self.arrived.append(one)

    @precondition(lambda self: self.on_the_way)
    @rule()
    def refuse(self) -> None:
        number, _ = self.on_the_way.popleft()
        self.window.refuse(number, is_multiple=False)
        self.has_refused = True

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), is_multiple=st.booleans())
    def confirm(self, data: st.DataObject, is_multiple: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.taken)))
        self.told += self.window.confirm(number, is_multiple=is_multiple)

    @rule()
    def break_off(self) -> None:
        self.window.restart()
        self.on_the_way.clear()
        self.taken.clear()
        self.sent = 0

    @invariant()
    def nothing_is_told_twice_or_before_it_arrived(self) -> None:
        assert len({one.id for one in self.told}) == len(self.told)
        assert {one.id for one in self.told} <= {one.id for one in self.arrived}

    @invariant()
    def first_copies_are_in_order(self) -> None:
        assert self.has_refused or is_in_order(without_repeats(self.arrived))

    def teardown(self) -> None:
        self.break_off()
        self.send(ALL)
        while self.on_the_way:
            self.take()
        self.told += self.window.confirm_all()
        assert sorted(numbers(self.told)) == numbers(self.published)
        assert is_in_order(last_copies(self.arrived))
        assert len(self.window) == 0


TestServer = Server.TestCase
