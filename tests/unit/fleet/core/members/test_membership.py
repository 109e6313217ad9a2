from datetime import UTC, datetime, timedelta

from rota.fleet.core.members.membership import Join, MembershipChanges, TakeOver, WaitFor, admission, moves
from rota.model.ids import LeaseId, NodeId, SessionId
from rota.model.node import Node, Role

ANN = Node(
    id=NodeId("ann"),
    session=SessionId("s1"),
    lease=LeaseId("l1"),
    role=Role.BOTH,
    home="h1",
    host="here",
    pid=1,
    since=datetime(2026, 1, 1, tzinfo=UTC),
    lease_ttl=timedelta(seconds=10),
)


def test_a_free_name_is_joined_under() -> None:
    assert admission(None, "h1", "here") == Join()


def test_an_earlier_life_of_the_same_folder_is_replaced_at_once() -> None:
    assert admission(ANN, "h1", "here") == TakeOver(LeaseId("l1"))


def test_a_stranger_under_our_name_is_waited_for() -> None:
    assert admission(ANN, "h9", "here") == WaitFor(ANN)


def test_a_copy_of_the_folder_on_another_host_is_a_stranger() -> None:
    assert admission(ANN, "h1", "elsewhere") == WaitFor(ANN)


def test_moves_tell_who_came_went_and_restarted() -> None:
    ann, bob, first, second = NodeId("ann"), NodeId("bob"), SessionId("s1"), SessionId("s2")
    assert moves({}, {ann: first}) == MembershipChanges(joined=(ann,))
    assert moves({ann: first, bob: first}, {ann: second}) == MembershipChanges(left=(bob,), restarted=(ann,))
    assert moves({ann: first}, {ann: first}) == MembershipChanges()
