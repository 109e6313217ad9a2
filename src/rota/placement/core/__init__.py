"""Placement: which node gets what, how it is shared out, and why something waits."""

from rota.placement.core.assign import Holdings, Instructions, assign
from rota.placement.core.demand import BindReplica, Demand, Pending, Place, Placement, Tag
from rota.placement.core.place import place
from rota.placement.core.rebalance import Better, Movable, rebalance
from rota.placement.core.remedies import remedies
from rota.placement.core.rules import NO_RULES, Rule, Rules
from rota.placement.core.shares import POLICIES, WEIGHTED, Policy

__all__ = [
    "NO_RULES",
    "POLICIES",
    "WEIGHTED",
    "Better",
    "BindReplica",
    "Demand",
    "Holdings",
    "Instructions",
    "Movable",
    "Pending",
    "Place",
    "Placement",
    "Policy",
    "Rule",
    "Rules",
    "Tag",
    "assign",
    "place",
    "rebalance",
    "remedies",
]
