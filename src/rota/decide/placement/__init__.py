"""Placement: which node gets what, how it is shared out, and why something waits."""

from rota.decide.placement.assign import Held, Instructions, assign
from rota.decide.placement.demand import Bind, Demand, Pending, Place, Placement, Tag
from rota.decide.placement.place import place
from rota.decide.placement.rules import Rule, Rules
from rota.decide.placement.shares import POLICIES, WEIGHTED, Policy

__all__ = [
    "POLICIES",
    "WEIGHTED",
    "Bind",
    "Demand",
    "Held",
    "Instructions",
    "Pending",
    "Place",
    "Placement",
    "Policy",
    "Rule",
    "Rules",
    "Tag",
    "assign",
    "place",
]
