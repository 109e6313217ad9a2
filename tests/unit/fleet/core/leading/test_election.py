from datetime import UTC, datetime

import pytest

from rota.fleet.core.leading.election import Follow, Lead, LeaderKeyState, Rest, Stance, Stand, stance
from rota.model.ids import NodeId, SessionId, TermNumber
from rota.model.node import Leader


def led_by(node: str, session: str, term: int) -> LeaderKeyState:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    return LeaderKeyState(Leader(node=NodeId(node), session=SessionId(session), since=since), TermNumber(term))


@pytest.mark.parametrize(
    ("seen", "may_act", "expected"),
    [
        pytest.param(None, True, Stand(), id="nobody leads: stand"),
        pytest.param(led_by("b", "s2", 7), True, Follow(NodeId("b"), TermNumber(7)), id="somebody leads: follow"),
        pytest.param(led_by("a", "s1", 8), True, Lead(TermNumber(8)), id="the key is mine: lead"),
        pytest.param(led_by("a", "s0", 8), True, Follow(NodeId("a"), TermNumber(8)), id="an earlier life is not me"),
    ],
)
def test_the_stance_follows_the_key(seen: LeaderKeyState | None, may_act: bool, expected: Stance) -> None:
    assert stance(seen, SessionId("s1"), may_act=may_act) == expected


@pytest.mark.parametrize("seen", [None, led_by("a", "s1", 8), led_by("b", "s2", 7)])
def test_without_a_lease_to_act_on_there_is_nothing_to_do(seen: LeaderKeyState | None) -> None:
    assert isinstance(stance(seen, SessionId("s1"), may_act=False), Rest)
