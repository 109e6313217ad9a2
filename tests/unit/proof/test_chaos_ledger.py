"""The ledger of a chaos run: each sort of loss and doubling is found, and what is allowed is not held against us."""

from collections import Counter
from pathlib import Path

import pytest

from tests.kit.chaos.clients import Break, Death, Requests, settle
from tests.kit.chaos.coverage import Coverage
from tests.kit.chaos.fleet import NAMES, RATE, ROOMS, TTL, WINDOW
from tests.kit.chaos.ledger import allowed_repeats, late_acts
from tests.kit.chaos.plan import Fault, Harm
from tests.kit.chaos.vitals import Look, growth


def fault(harm: Harm, victim: str = "b", seconds: float = TTL) -> Fault:
    return Fault(harm, victim, seconds, 0.0, 0.0)


def asked(**fields: object) -> Requests:
    return Requests(sent=1, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("death", "is_lost"),
    [
        pytest.param(Death("b", 11.0), False, id="its proxy was killed meanwhile"),
        pytest.param(Death("a", 11.0), True, id="another node's proxy was killed"),
        pytest.param(Death("b", 100.0), True, id="it was killed much later"),
    ],
)
def test_a_lost_request_is_excused_by_the_death_of_its_proxy(death: Death, is_lost: bool) -> None:
    found = settle(asked(breaks=[Break("b", "b0-1", 10.0, 12.0)]), Counter(), [death])
    assert found.lost == (("b0-1",) if is_lost else ())
    assert found.excused == (not is_lost)


def test_a_request_that_is_never_answered_is_lost() -> None:
    assert settle(asked(unanswered=["b0-1"]), Counter(), [Death("b", 1.0)]).lost == ("b0-1",)


def test_a_request_that_ran_twice_is_doubled() -> None:
    found = settle(asked(rets=Counter({0: 1}), done={"b0-1"}), Counter({"b0-1": 2}), [])
    assert found.doubled == ("b0-1",)
    assert found.wrong == ()


def test_an_answer_without_a_run_is_wrong() -> None:
    found = settle(asked(rets=Counter({0: 1}), done={"b0-1"}), Counter(), [])
    assert found.wrong == ("b0-1 was answered, and did not run",)


def test_a_refusal_is_an_answer() -> None:
    found = settle(asked(rets=Counter({-10002: 1})), Counter({"b0-1": 1}), [])
    assert (found.refused, found.lost, found.doubled, found.wrong) == (1, (), (), ())


@pytest.mark.parametrize(
    ("harm", "victim", "most"),
    [
        pytest.param(Harm.KILL_SERVER, "rabbitmq", len(NAMES) * WINDOW, id="the sink breaks for every relay"),
        pytest.param(Harm.KILL_SERVER, "kafka", 0, id="another server has nothing to do with messages"),
        pytest.param(Harm.KILL_RELAY, "b", WINDOW, id="what was under way"),
        pytest.param(Harm.KILL_WORKER, "b", 0, id="a worker's copies are known by their ids"),
        pytest.param(Harm.DROP_CALLS, "b", 0, id="relays that do not reach each other wait"),
        pytest.param(Harm.FREEZE_NODE, "b", WINDOW + RATE * ROOMS / len(NAMES) * (TTL + TTL), id="until it is back"),
    ],
)
def test_how_many_messages_may_come_twice(harm: Harm, victim: str, most: float) -> None:
    assert allowed_repeats([fault(harm, victim)]) == most


def test_a_lease_that_outlives_the_fault_allows_for_no_repeats() -> None:
    assert allowed_repeats([fault(Harm.SILENCE, seconds=TTL / 4)]) == 0


def test_an_act_after_a_later_epoch_began_is_late() -> None:
    lines = ["s0 5 10.0", "s0 5 10.1", "s0 9 12.0", "s0 5 12.5", "s1 4 12.6"]
    assert late_acts(lines) == ["s0 acted under 5 at 12.500, after 9 had begun"]


def test_acts_of_one_epoch_after_the_other_are_none() -> None:
    assert late_acts(["s0 9 12.0", "s0 5 10.0", "s0 5 11.9"]) == []


def looks(*memory: int, files: int = 30) -> list[Look]:
    return [Look(60.0 * number, each * 2**20, files) for number, each in enumerate(memory)]


def test_an_agent_that_warms_up_and_then_stays_is_flat() -> None:
    found = growth("a", looks(50, 70, 80, 80, 81, 80, 80, 81, 80))
    assert found.is_flat
    assert found.is_judged


def test_an_agent_that_grows_all_the_time_is_not() -> None:
    found = growth("a", looks(50, 60, 70, 80, 90, 100, 110, 120, 130))
    assert not found.is_flat
    assert found.memory_slope == pytest.approx(30 * 1024 / (8 / 3))


def test_an_agent_that_keeps_files_open_is_not_either() -> None:
    found = growth("a", [*looks(80, 80, 80, 80, 80, 80), *looks(80, 80, 80, files=40)])
    assert not found.is_flat


def test_an_agent_that_leads_late_is_judged_from_then_on() -> None:
    stays, grows = [130] * 10, [130 + 10 * minute for minute in range(10)]
    assert growth("a", looks(70, 71, 72, 72, 73, *stays)).is_flat
    assert not growth("a", looks(70, 71, 72, 72, 73, *grows)).is_flat
    assert not growth("a", looks(70, 71, 72, 72, 73, 74, 74, 75, 130, 131, 132)).is_judged


def test_a_short_life_is_not_judged() -> None:
    assert not growth("a", looks(50, 90, 130)).is_judged


def test_coverage_counts_rooms_by_their_last_message_since_then(tmp_path: Path) -> None:
    log = tmp_path / "sent.jsonl"
    log.write_text('["sent", 1.0, "room-0", 1, [1, 2]]\n')
    coverage = Coverage(log)
    assert coverage.heard(2) == 1
    coverage.forget()
    assert coverage.heard(2) == 0
    with log.open("a") as file:
        file.write('["sent", 2.0, "room-0", 2, [1, 2]]\n["ended", 2.5, 1]\n["sent", 3.0, "room-0", 3, [2]]\n["sent", 3')
    assert (coverage.heard(1), coverage.heard(2)) == (1, 0)
    with log.open("a") as file:
        file.write('.5, "room-1", 1, [3, 4]]\n')
    assert coverage.heard(2) == 1
