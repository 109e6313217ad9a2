"""Who may do what, given what a caller shows and what the gate knows."""

import pytest

from rota.decide.access import Access, Gate, TurnedAway, known, refusal

GATE = Gate((known("rota_looker", Access.VIEW), known("rota_boss", Access.NODE)), "see: cat data/token")


@pytest.mark.parametrize(
    ("authorization", "needed", "held"),
    [
        ("Bearer rota_looker", Access.VIEW, Access.VIEW),
        ("Bearer rota_boss", Access.VIEW, Access.NODE),
        ("Bearer rota_boss", Access.NODE, Access.NODE),
        ("bearer   rota_boss ", Access.OPERATE, Access.NODE),
    ],
)
def test_a_known_token_is_let_in_with_all_that_it_opens(authorization: str, needed: Access, held: Access) -> None:
    assert GATE.judge(authorization, needed) is held


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "rota_boss", "Basic rota_boss"])
def test_who_shows_nothing_is_told_what_to_show_and_where_to_find_it(authorization: str | None) -> None:
    judged = GATE.judge(authorization, Access.VIEW)
    assert judged == TurnedAway(
        "this needs a token; send the header authorization: Bearer TOKEN, see: cat data/token", is_stranger=True
    )


@pytest.mark.parametrize("token", ["rota_bos", "rota_boss!", "ROTA_BOSS", "rota_boss rota_boss", "\udcff", "ä"])
def test_another_token_is_not_known_and_not_repeated(token: str) -> None:
    judged = GATE.judge(f"Bearer {token}", Access.VIEW)
    assert isinstance(judged, TurnedAway)
    assert judged.is_stranger
    assert "not known here" in judged.why
    assert token not in judged.why


def test_who_is_known_and_may_not_is_no_stranger() -> None:
    judged = GATE.judge("Bearer rota_looker", Access.OPERATE)
    assert judged == TurnedAway("this needs a token for operate, and yours is for view; come with another", False)


def test_each_access_includes_those_before_it() -> None:
    order = [Access.VIEW, Access.OPERATE, Access.ADMIN, Access.NODE]
    assert list(Access) == order
    for place, held in enumerate(order):
        covered = [needed for needed in order if refusal(held, needed) is None]
        assert covered == order[: place + 1]


def test_a_gate_does_not_show_its_tokens() -> None:
    assert "rota_" not in repr(GATE)


def test_a_gate_that_knows_nobody_lets_nobody_in() -> None:
    judged = Gate((), "").judge("Bearer rota_boss", Access.VIEW)
    assert isinstance(judged, TurnedAway)
