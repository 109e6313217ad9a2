"""Placement: which node gets what, how it is shared out, and why something waits."""

from rota.decide.placement.assign import Holdings, Instructions, assign
from rota.decide.placement.demand import BindReplica, Demand, Pending, Place, Placement, Tag
from rota.decide.placement.place import place
from rota.decide.placement.rebalance import Better, Movable, rebalance
from rota.decide.placement.remedies import remedies
from rota.decide.placement.rules import NO_RULES, Rule, Rules
from rota.decide.placement.shares import POLICIES, WEIGHTED, Policy

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
