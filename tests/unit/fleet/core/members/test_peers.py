"""Who is online, from what the nodes' checks of each other say."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.fleet.core.members.peers import (
    ENOUGH,
    Heard,
    PeerVerdict,
    StrikeLedger,
    Withheld,
    calm,
    health,
    heard,
    is_forgotten,
    moments,
    verdicts,
    weight,
)
from rota.model.ids import NodeId, SessionId
from rota.model.peers import NodeHealth, Standing, Strikes

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVERY = timedelta(seconds=10)
ONCE = timedelta()
A, B, C, D = map(NodeId, "abcd")


def members(names: str) -> dict[NodeId, SessionId]:
    return {NodeId(name): SessionId(f"{name}1") for name in names}


def strikes(node: str, observer: str, *seconds: float, session: str = "") -> Strikes:
    at = [NOW + timedelta(seconds=each) for each in seconds]
    life = SessionId(session or f"{node}1")
    return Strikes(node=NodeId(node), session=life, observer=NodeId(observer), at=at, why="no answer")


def standing(names: str, held: Sequence[Strikes], node: NodeId) -> Standing:
    return verdicts(members(names), held, EVERY)[node].standing


# One observer


def test_a_round_strikes_who_did_not_answer() -> None:
    assert heard({A: None, B: "no answer"}, ONCE) == Heard({B: "no answer"}, frozenset({A}))


def test_who_was_late_itself_strikes_nobody() -> None:
    said = heard({A: None, B: "no answer"}, timedelta(seconds=1.5))
    assert said == Withheld("this node's own loop was 1.5 s late")


def test_who_reaches_nobody_takes_itself_for_cut_off() -> None:
    said = heard({A: "no answer", B: "no answer"}, ONCE)
    assert isinstance(said, Withheld)
    assert said.is_cut_off


def test_with_one_other_it_is_struck() -> None:
    assert heard({A: "no answer"}, ONCE) == Heard({A: "no answer"}, frozenset())
    assert heard({}, ONCE) == Heard({}, frozenset())


def test_a_ledger_keeps_three_strikes_and_an_answer_wipes_them_out() -> None:
    ledger, present = StrikeLedger(A), members("bc")
    for number in range(5):
        ledger.take(Heard({B: f"try {number}"}, frozenset({C})), present, NOW + number * EVERY)
    assert ledger.strikes[B].at == [NOW + number * EVERY for number in range(ENOUGH)]
    assert ledger.strikes[B].why == "try 2"
    ledger.take(Heard({}, frozenset({B, C})), present, NOW)
    assert ledger.strikes == {}


def test_a_new_life_begins_without_strikes() -> None:
    ledger = StrikeLedger(A)
    ledger.take(Heard({B: "no"}, frozenset()), members("b"), NOW)
    ledger.take(Heard({B: "no"}, frozenset()), {B: SessionId("b2")}, NOW + EVERY)
    assert ledger.strikes[B].at == [NOW + EVERY]
    ledger.forget_all_but({})
    assert ledger.strikes == {}


# The fleet


@pytest.mark.parametrize(
    ("names", "held", "expected"),
    [
        pytest.param("abc", [], Standing.ONLINE, id="nobody complains"),
        pytest.param("abc", [strikes("b", "a", 0, 10)], Standing.SUSPECT, id="two strikes are not three"),
        pytest.param("ab", [strikes("b", "a", 0, 10, 20)], Standing.OFFLINE, id="three by the only observer"),
        pytest.param(
            "abc", [strikes("b", "a", 0, 10, 20), strikes("b", "c", 3, 13)], Standing.SUSPECT, id="most saw it twice"
        ),
        pytest.param(
            "abc",
            [strikes("b", "a", 0, 10, 20), strikes("b", "c", 103, 113, 123)],
            Standing.OFFLINE,
            id="most saw it three times",
        ),
        pytest.param(
            "abcd",
            [strikes("b", "a", 0, 10, 20), strikes("b", "c", 500), strikes("b", "d", 501)],
            Standing.SUSPECT,
            id="an old quarrel adds nothing to a blip",
        ),
        pytest.param(
            "abc", [strikes("b", "a", 0, 10, 20)], Standing.SUSPECT, id="one link is cut, and others reach it"
        ),
        pytest.param(
            "abcd",
            [strikes("b", "a", 0), strikes("b", "c", 0.1), strikes("b", "d", 0.2)],
            Standing.SUSPECT,
            id="one blip before many observers is one strike",
        ),
        pytest.param(
            "abcd",
            [strikes("b", "a", 0, 10), strikes("b", "c", 5, 15), strikes("b", "d", 9)],
            Standing.SUSPECT,
            id="observers out of step see no more than one would",
        ),
        pytest.param(
            "abcd",
            [strikes("b", "a", 0), strikes("b", "c", 1, 11), strikes("b", "d", 21)],
            Standing.OFFLINE,
            id="three moments, seen by several together",
        ),
        pytest.param("ab", [strikes("b", "a", 0, 10, 20, session="b0")], Standing.ONLINE, id="of an earlier life"),
        pytest.param("ab", [strikes("b", "z", 0, 10, 20)], Standing.ONLINE, id="of one who left"),
    ],
)
def test_how_b_stands(names: str, held: Sequence[Strikes], expected: Standing) -> None:
    assert standing(names, held, B) is expected


def test_two_that_accuse_each_other_both_stay() -> None:
    held = [strikes("b", "a", 0, 10, 20), strikes("a", "b", 0, 10, 20)]
    assert {verdict.standing for verdict in verdicts(members("ab"), held, EVERY).values()} == {Standing.SUSPECT}


def test_who_is_struck_by_all_others_is_not_heard() -> None:
    all_against_a = [strikes("a", each, 0, 10, 20) for each in "bcd"]
    held = [*all_against_a, strikes("b", "a", 0, 10, 20)]
    judged = verdicts(members("abcd"), held, EVERY)
    assert judged[A].standing is Standing.OFFLINE
    assert judged[B].standing is Standing.SUSPECT
    assert judged[C].standing is Standing.ONLINE


def test_a_verdict_says_who_and_why() -> None:
    judged = verdicts(members("abc"), [strikes("b", "a", 0), strikes("b", "c", 1)], EVERY)
    assert judged[B].why == "a, c did not reach it: no answer"


@given(
    st.lists(st.floats(0, 9.9), min_size=1, max_size=50),
    st.integers(2, 30),
)
def test_one_blip_makes_nobody_offline(times: list[float], observers: int) -> None:
    """Whatever the number of observers, an outage shorter than the time between checks is at most two moments."""
    held = [strikes("0", str(1 + number % observers), at) for number, at in enumerate(times)]
    fleet = {NodeId(str(number)): SessionId(f"{number}1") for number in range(observers + 1)}
    assert verdicts(fleet, held, EVERY)[NodeId("0")].standing is Standing.SUSPECT


def test_moments_count_as_one_observer_would() -> None:
    assert moments([], EVERY) == 0
    assert moments([NOW, NOW, NOW + EVERY / 2], EVERY) == 1
    assert moments([NOW + 2 * EVERY, NOW, NOW + EVERY], EVERY) == 3
    assert moments([NOW, NOW + 0.9 * EVERY, NOW + 1.8 * EVERY], EVERY) == 3, "checks come a little early or late"


# Transitions

ONLINE, SUSPECT, OFFLINE = (PeerVerdict(standing, "why") for standing in Standing)


def known(is_online: bool, falls: int = 0, ago: float = 0) -> NodeHealth:
    since = NOW - timedelta(seconds=ago)
    return NodeHealth(node=B, is_online=is_online, since=since, why="why", falls=[since] * falls)


def test_a_node_that_comes_is_online() -> None:
    assert health(None, B, ONLINE, NOW, EVERY) == NodeHealth(node=B, is_online=True, since=NOW, why="why")
    assert health(None, B, None, NOW, EVERY) is None


@pytest.mark.parametrize("verdict", [OFFLINE, None], ids=["not reached", "gone"])
def test_going_offline_is_a_fall(verdict: PeerVerdict | None) -> None:
    after = health(known(True), B, verdict, NOW, EVERY)
    assert after is not None
    assert not after.is_online
    assert after.falls == [NOW]


@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        pytest.param(known(True), ONLINE, id="it was online"),
        pytest.param(known(True), SUSPECT, id="suspicion is no transition"),
        pytest.param(known(False, 1), OFFLINE, id="it was offline"),
        pytest.param(known(False, 1), SUSPECT, id="who is suspect does not come back"),
        pytest.param(known(False, 1), None, id="it is still gone"),
        pytest.param(known(False, 2, ago=19), ONLINE, id="who fell twice waits two checks"),
    ],
)
def test_nothing_changes(before: NodeHealth, verdict: PeerVerdict | None) -> None:
    assert health(before, B, verdict, NOW, EVERY) is None


@pytest.mark.parametrize("before", [known(False, 1), known(False, 2, ago=20)], ids=["at once", "after a while"])
def test_it_comes_back(before: NodeHealth) -> None:
    after = health(before, B, ONLINE, NOW, EVERY)
    assert after is not None
    assert after.is_online
    assert after.since == NOW
    assert after.falls == before.falls


def test_falls_are_forgotten_after_an_hour() -> None:
    after = health(known(False, 4, ago=3601), B, ONLINE, NOW, EVERY)
    assert after is not None
    assert after.falls == []


def test_calm_grows_and_ends() -> None:
    seconds = [calm(falls, EVERY).total_seconds() for falls in (0, 1, 2, 3, 4, 50)]
    assert seconds == [0, 0, 20, 40, 80, 600]


def test_a_node_long_gone_is_forgotten() -> None:
    assert is_forgotten(known(False, ago=86_400), False, NOW)
    assert not is_forgotten(known(False, ago=86_399), False, NOW)
    assert not is_forgotten(known(False, ago=90_000), True, NOW)
    assert not is_forgotten(known(True, ago=90_000), False, NOW)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(None, 1.0, id="nothing is known against it"),
        pytest.param(known(True), 1.0, id="it never fell"),
        pytest.param(known(False, 1), 0.0, id="offline"),
        pytest.param(known(True, 1), 0.1, id="just back"),
        pytest.param(known(True, 1, ago=150), 0.5, id="half way"),
        pytest.param(known(True, 1, ago=400), 1.0, id="all of it"),
        pytest.param(known(True, 2, ago=300), 0.5, id="a second fall costs twice the time"),
        pytest.param(known(True, 2, ago=3600), 1.0, id="the falls are forgotten"),
    ],
)
def test_the_share_of_work(before: NodeHealth | None, expected: float) -> None:
    assert weight(before, NOW, timedelta(minutes=5)) == pytest.approx(expected)


def test_without_a_ramp_who_is_back_gets_all() -> None:
    assert weight(known(True, 3), NOW, timedelta()) == 1.0


def test_a_clock_that_was_set_back_holds_nobody_up() -> None:
    ahead = known(False, 4, ago=-86_400)
    after = health(ahead, B, ONLINE, NOW, EVERY)
    assert after is not None
    assert after.is_online
    assert weight(known(True, 4, ago=-86_400), NOW, timedelta(minutes=5)) == 1.0
