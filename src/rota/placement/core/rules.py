"""Users' rules: what else counts when a node is chosen.

A rule may refuse nodes, and score those it does not refuse. It is asked once for each class of demands and each node,
not for each task: `about` says what of a demand the rule looks at, and demands for which it says the same are in one
class. So the cost of a rule grows with the number of distinct answers.

A rule that raises an error is left out there, and the placement says so: a mistake in a rule must not stop the fleet.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

from rota.model.ids import NodeId
from rota.placement.core.demand import Demand, Place

T = TypeVar("T")

Rules = Mapping[str, "Rule"]
"""By name."""


class Rule:
    """Base of users' rules; each method may be left as it is. They must be pure: equal questions, equal answers."""

    def about(self, demand: Demand) -> Hashable:
        """What counts of a demand: its kind, a field of its spec… Nothing: the rule is about nodes alone."""
        return None

    def refuse(self, about: Any, node: Place) -> str:
        """Why the node must not have it; empty: it may."""
        return ""

    def score(self, about: Any, node: Place) -> float:
        """How well the node suits it, 0.0 worst to 1.0 best; the scores of all rules are added up."""
        return 0.0


NO_RULES: Rules = {}


class Rulings:
    """What some rules say, each asked once."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._refusals: dict[tuple[tuple[Hashable, ...], NodeId], str] = {}
        self.failed: dict[str, str] = {}

    def about(self, demand: Demand) -> tuple[Hashable, ...]:
        """What the rules look at, in their order."""
        return tuple(self._asked(name, None, _hashed, rule, demand) for name, rule in self._rules.items())

    def refusal(self, about: tuple[Hashable, ...], place: Place) -> str:
        """Why a rule refuses a node, with the rule's name; empty if none does."""
        if (about, place.id) not in self._refusals:
            said = ((name, self._asked(name, "", rule.refuse, key, place)) for name, rule, key in self._each(about))
            self._refusals[about, place.id] = next((f"rule {name}: {why}" for name, why in said if why), "")
        return self._refusals[about, place.id]

    def score(self, about: tuple[Hashable, ...], place: Place) -> float:
        """All scores together."""
        return sum(self._asked(name, 0.0, _scored, rule, key, place) for name, rule, key in self._each(about))

    def _each(self, about: tuple[Hashable, ...]) -> Iterator[tuple[str, Rule, Hashable]]:
        for (name, rule), key in zip(self._rules.items(), about, strict=True):
            yield name, rule, key

    def _asked(self, name: str, default: T, ask: Callable[..., T], *arguments: object) -> T:
        try:
            return ask(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a user's code raises; sys.exit() must not end the leader
            self.failed[name] = _text(error)
            return default


def _hashed(rule: Rule, demand: Demand) -> Hashable:
    key = rule.about(demand)
    hash(key)
    return key


def _scored(rule: Rule, about: Hashable, place: Place) -> float:
    score = float(rule.score(about, place))
    if not math.isfinite(score):
        raise ValueError(f"its score is {score}; it must be a number from 0.0 to 1.0")
    return score


def _text(error: BaseException) -> str:
    """An error with its type; an error that cannot say what it is has only that."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # the user's own __str__
        return name
