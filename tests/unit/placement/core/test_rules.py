"""Users' rules refuse and score; their mistakes stop nothing."""

import math
from collections.abc import Hashable

from rota.placement.core import Demand, Place, Rule, place
from tests.unit.placement.core.builders import demand, demands, node, per_node


class SameRegion(Rule):
    """Only where the resource's region is."""

    def about(self, demand: Demand) -> Hashable:
        return demand.spec.get("region")

    def refuse(self, about: object, node: Place) -> str:
        return "" if about in (None, node.labels.get("region")) else f"it is not in {about}"


class Cheap(Rule):
    """Rather where it costs less."""

    def score(self, about: object, node: Place) -> float:
        return 1.0 - float(node.labels.get("price", "1"))


NODES = [node("a", 50, labels={"region": "eu", "price": "0.9"}), node("b", 5, labels={"region": "us", "price": "0.1"})]


def test_a_rule_refuses_by_what_the_resource_says() -> None:
    wanted = [demand("r1", spec={"region": "us"}), demand("r2", spec={"region": "eu"}), demand("r3")]
    binds = place(wanted, NODES, rules={"same-region": SameRegion()}).binds
    assert {bind.key: bind.node for bind in binds} == {"r1": "b", "r2": "a", "r3": "a"}


def test_what_a_rule_refuses_everywhere_waits_and_says_so() -> None:
    (pending,) = place([demand("r", spec={"region": "cn"})], NODES, rules={"same-region": SameRegion()}).pending
    assert pending.why == (
        "a rule refuses each of the 2 nodes that could take it (rule same-region: it is not in cn); "
        "add another node, or change the rule"
    )
    assert pending.refusals == {"a": "rule same-region: it is not in cn", "b": "rule same-region: it is not in cn"}


def test_the_better_node_is_filled_first() -> None:
    placement = place(demands(7), NODES, rules={"cheap": Cheap()})
    assert per_node(placement.binds) == {"a": 2, "b": 5}
    assert not placement.failed


def test_scores_of_several_rules_and_preferred_labels_add_up() -> None:
    class Dear(Rule):
        def score(self, about: object, node: Place) -> float:
            return float(node.labels.get("price", "0"))

    both = place(demands(4), [node("a", 2, labels={"price": "0.5"}), node("b", 2)], rules={"c": Cheap(), "d": Dear()})
    assert per_node(both.binds) == {"a": 2, "b": 2}


def test_equal_questions_are_asked_once() -> None:
    class Counting(Rule):
        asked = 0

        def refuse(self, about: object, node: Place) -> str:
            Counting.asked += 1
            return ""

    place(demands(1000), NODES, rules={"counting": Counting()})
    assert Counting.asked == len(NODES)


def test_a_rule_that_raises_is_left_out_and_named() -> None:
    class Wrong(Rule):
        def refuse(self, about: object, node: Place) -> str:
            raise KeyError("disk")

        def score(self, about: object, node: Place) -> float:
            return "much"  # type: ignore[return-value]

    class Unhashable(Rule):
        def about(self, demand: Demand) -> Hashable:
            return []  # type: ignore[return-value]

    placement = place(demands(3), NODES, rules={"wrong": Wrong(), "unhashable": Unhashable()})
    assert len(placement.binds) == 3
    assert placement.failed.keys() == {"wrong", "unhashable"}
    assert "unhashable type" in placement.failed["unhashable"]


def test_a_rule_that_calls_exit_or_cannot_say_what_it_raised_is_left_out_and_named() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Quits(Rule):
        def refuse(self, about: object, node: Place) -> str:
            raise SystemExit(3)

    class Mutters(Rule):
        def refuse(self, about: object, node: Place) -> str:
            raise Mute

    placement = place(demands(3), NODES, rules={"quits": Quits(), "mutters": Mutters()})
    assert len(placement.binds) == 3
    assert placement.failed == {"quits": "SystemExit: 3", "mutters": "Mute"}


def test_a_score_that_is_no_number_is_left_out_and_named() -> None:
    class Odd(Rule):
        def score(self, about: object, node: Place) -> float:
            return math.nan

    placement = place(demands(3), NODES, rules={"odd": Odd()})
    assert len(placement.binds) == 3
    assert placement.failed == {"odd": "ValueError: its score is nan; it must be a number from 0.0 to 1.0"}
