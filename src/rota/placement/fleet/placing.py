"""What a leader places work by: the settings of `[supervisor]` and the users' rules that they name.

A reload changes both in the middle of a term. The supervisor reads `Placing.current` once a tick and uses it from then
on; a node that does not lead has it ready for its next term.
"""

import msgspec

from rota.model.config import SupervisorConfig
from rota.placement.core import NO_RULES, Rules
from rota.placement.fleet.rules import load_rules


class Current(msgspec.Struct, frozen=True):
    """One state of the settings, with the rules that belong to them."""

    config: SupervisorConfig
    rules: Rules


class Placing:
    """The settings in force, and the way to replace them."""

    def __init__(self, config: SupervisorConfig, rules: Rules = NO_RULES) -> None:
        self.current = Current(config, rules)

    def change(self, config: SupervisorConfig) -> None:
        """Use these settings from now on; Invalid if a rule cannot be loaded, and then nothing changes."""
        before = self.current
        if config == before.config:
            return
        has_same_rules = config.rule_names == before.config.rule_names
        self.current = Current(config, before.rules if has_same_rules else load_rules(config.rule_names))
