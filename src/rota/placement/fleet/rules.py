"""Users' rules of placement: found by name among the packages that are installed here.

A package offers rules as entry points of the group `rota.rules`. Only those that the settings name are used; they run
in the agent of the node that leads, and in every process that previews what it would do.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points

from rota.model.errors import Invalid
from rota.placement.core import Rule, Rules

GROUP = "rota.rules"


def load_rules(names: Sequence[str]) -> Rules:
    """The rules of these names; Invalid names a rule that cannot be loaded, and those that are installed."""
    offered = {point.name: point for point in entry_points(group=GROUP)} if names else {}
    found: dict[str, Rule] = {}
    for name in names:
        if name not in offered:
            there = f"there are {', '.join(sorted(offered))}" if offered else "no package here offers any"
            raise Invalid(f'supervisor.rules: there is no rule "{name}"; {there}: install the package that has it')
        try:
            thing = offered[name].load()
            rule = thing() if isinstance(thing, type) else thing
        except (Exception, SystemExit) as error:  # whatever a user's module raises
            raise Invalid(
                f'supervisor.rules: rule "{name}" cannot be loaded: {type(error).__name__}: {error}'
            ) from None
        if not isinstance(rule, Rule):
            raise Invalid(f'supervisor.rules: rule "{name}" is {thing!r}; it must be a rota.rules.Rule')
        found[name] = rule
    return found
