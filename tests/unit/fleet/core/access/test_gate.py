"""Who may do what, given what a caller shows and what the gate knows."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.fleet.core.access.gate import Access, AdmittedCaller, Gate, TurnedAway, by_digest, digest, known, refusal
from rota.fleet.core.access.token import TokenRecord

NOW = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
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
    judged = GATE.judge(authorization, needed, NOW)
    assert isinstance(judged, AdmittedCaller)
    assert judged.access is held


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "rota_boss", "Basic rota_boss"])
def test_who_shows_nothing_is_told_what_to_show_and_where_to_find_it(authorization: str | None) -> None:
    judged = GATE.judge(authorization, Access.VIEW, NOW)
    assert judged == TurnedAway(
        "this needs a token; send the header authorization: Bearer TOKEN, see: cat data/token", is_stranger=True
    )


@pytest.mark.parametrize("token", ["rota_bos", "rota_boss!", "ROTA_BOSS", "rota_boss rota_boss", "\udcff", "ä"])
def test_another_token_is_not_known_and_not_repeated(token: str) -> None:
    judged = GATE.judge(f"Bearer {token}", Access.VIEW, NOW)
    assert isinstance(judged, TurnedAway)
    assert judged.is_stranger
    assert "not known here" in judged.why
    assert token not in judged.why


def test_who_is_known_and_may_not_is_no_stranger() -> None:
    judged = GATE.judge("Bearer rota_looker", Access.OPERATE, NOW)
    assert judged == TurnedAway(
        "this needs a token for operate, and yours is for view; come with another", False, "operator"
    )


def test_each_access_includes_those_before_it() -> None:
    order = [Access.VIEW, Access.OPERATE, Access.ADMIN, Access.NODE]
    assert list(Access) == order
    for place, held in enumerate(order):
        covered = [needed for needed in order if refusal(held, needed) is None]
        assert covered == order[: place + 1]


def test_a_gate_does_not_show_its_tokens() -> None:
    assert "rota_" not in repr(GATE)


def test_a_gate_that_knows_nobody_lets_nobody_in() -> None:
    judged = Gate((), "").judge("Bearer rota_boss", Access.VIEW, NOW)
    assert isinstance(judged, TurnedAway)


def record(token: str, access: Access = Access.VIEW, **more: object) -> TokenRecord:
    fields: dict[str, Any] = {"name": "grafana", "made": NOW, "by": "ada", **more}
    return TokenRecord(access=access, digest=digest(token).hex(), **fields)


def judged(gate: Gate, token: str, needed: Access = Access.VIEW, now: datetime = NOW) -> AdmittedCaller | TurnedAway:
    return gate.judge(f"Bearer {token}", needed, now)


def test_a_token_of_the_store_opens_what_its_record_says() -> None:
    gate = GATE.with_records(by_digest([record("rota_graph")]))
    assert judged(gate, "rota_graph") == AdmittedCaller("grafana", Access.VIEW)
    refused = judged(gate, "rota_graph", Access.ADMIN)
    assert isinstance(refused, TurnedAway)
    assert (refused.is_stranger, refused.name) == (False, "grafana")
    assert judged(gate, "rota_boss") == AdmittedCaller("operator", Access.NODE)


def test_an_expired_token_opens_nothing_from_that_moment_on() -> None:
    gate = GATE.with_records(by_digest([record("rota_graph", expires=NOW + HOUR)]))
    assert isinstance(judged(gate, "rota_graph", now=NOW + HOUR - SECOND), AdmittedCaller)
    refused = judged(gate, "rota_graph", now=NOW + HOUR)
    assert isinstance(refused, TurnedAway)
    assert refused.is_stranger
    assert refused.why == "token grafana expired at 2026-11-16 09:00:00 UTC; ask an admin of the fleet for another"


def test_a_revoked_token_opens_nothing_even_where_the_node_has_it_in_its_folder() -> None:
    gate = GATE.with_records(by_digest([record("rota_boss", Access.NODE, revoked=NOW)]))
    refused = judged(gate, "rota_boss")
    assert isinstance(refused, TurnedAway)
    assert refused.is_stranger
    assert "was revoked" in refused.why


def test_the_token_before_a_rotation_is_taken_for_a_while() -> None:
    older = digest("rota_old").hex()
    gate = GATE.with_records(by_digest([record("rota_new", older=older, older_until=NOW + HOUR)]))
    assert isinstance(judged(gate, "rota_new"), AdmittedCaller)
    assert isinstance(judged(gate, "rota_old"), AdmittedCaller)
    assert isinstance(judged(gate, "rota_old", now=NOW + HOUR), TurnedAway)
    short = GATE.with_records(
        by_digest([record("rota_new", older=older, older_until=NOW + HOUR, expires=NOW + SECOND)])
    )
    assert isinstance(judged(short, "rota_old", now=NOW + SECOND), TurnedAway)


def test_who_comes_costs_no_more_where_there_are_thousands_of_tokens() -> None:
    """Strangers are judged, too: each of their calls would take a part of the event loop that grows with the fleet."""

    def calls(many: int) -> int:
        records = (record(f"rota_{number}", name=f"t{number}") for number in range(many))
        gate, count = GATE.with_records(by_digest(records)), 0

        def note(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(note)
        try:
            for token in ("rota_stranger", "rota_1", "rota_looker"):
                judged(gate, token)
        finally:
            sys.setprofile(None)
        return count

    assert calls(5000) == calls(5)
