"""What a rule of placement is written with: `Rule`, and the demands and nodes it is asked about.

A rule is a class in a package of yours that offers it as an entry point of the group `rota.rules`; the setting
`supervisor.rules` names those that count. docs/howto/write-a-placement-rule.md has an example.
"""

from rota.placement.core import Demand, Place, Rule

__all__ = ["Demand", "Place", "Rule"]
