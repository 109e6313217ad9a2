from dataclasses import replace
from datetime import UTC, datetime

from rota.decide.membership import Join, Moves, TakeOver, WaitFor, admission, moves
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
)
BOB = replace(ANN, id=NodeId("bob"), session=SessionId("s2"), home="h2")


def test_a_free_name_is_joined_under() -> None:
    assert admission(None, "h1") == Join()


def test_an_earlier_life_of_the_same_folder_is_replaced_at_once() -> None:
    assert admission(ANN, "h1") == TakeOver(LeaseId("l1"))


def test_a_stranger_under_our_name_is_waited_for() -> None:
    assert admission(ANN, "h9") == WaitFor(ANN)


def test_moves_tell_who_came_went_and_restarted() -> None:
    again = replace(ANN, session=SessionId("s3"))
    assert moves({}, {ANN.id: ANN}) == Moves(joined=(ANN.id,))
    assert moves({ANN.id: ANN, BOB.id: BOB}, {ANN.id: again}) == Moves(left=(BOB.id,), restarted=(ANN.id,))
    assert moves({ANN.id: ANN}, {ANN.id: ANN}) == Moves()
