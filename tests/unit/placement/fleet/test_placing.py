"""What a leader places work by, and how a reload changes it."""

import pytest

from rota.model.config import SupervisorConfig
from rota.model.errors import Invalid
from rota.placement.core import Rule, Rules
from rota.placement.fleet.placing import Placing

RULES: Rules = {"picky": Rule()}


def test_settings_that_did_not_change_are_left_as_they_are() -> None:
    placing = Placing(SupervisorConfig(policy="random"))
    before = placing.current
    placing.change(SupervisorConfig(policy="random"))
    assert placing.current is before


def test_rules_are_kept_where_the_same_ones_are_named() -> None:
    placing = Placing(SupervisorConfig(rules="picky"), RULES)
    placing.change(SupervisorConfig(rules="picky", policy="random"))
    assert placing.current.config.policy == "random"
    assert placing.current.rules is RULES


def test_a_rule_that_cannot_be_loaded_changes_nothing() -> None:
    placing = Placing(SupervisorConfig())
    before = placing.current
    with pytest.raises(Invalid, match='there is no rule "nobody-has-it"'):
        placing.change(SupervisorConfig(rules="nobody-has-it", policy="random"))
    assert placing.current is before
