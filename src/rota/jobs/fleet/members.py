"""The nodes that take part in jobs: what they can run, how busy they are, and which ones get nothing at the moment."""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from rota.jobs.core.dispatch import EligibleNode
from rota.model import keys
from rota.model.ids import Key, NodeId, SessionId
from rota.model.node import Node, NodeLoad, NodeStatus
from rota.model.peers import DutyHeld
from rota.resources.core.records import LabelsSet, labelled
from rota.store.follow import PrefixChanges
from rota.store.port import Entry
from rota.store.records import understood

log = logging.getLogger(__name__)

PREFIXES = (keys.NODES, keys.STATUS, keys.CORDONS, keys.LABELS, keys.NODE_LOADS, keys.DUTIES)
"""The key prefixes that it reads."""

FEED = "feed"
"""The duty of the node that acts first."""


class Members:
    """The nodes, as the store has them."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, Node] = {}
        self._jobs: dict[NodeId, frozenset[str]] = {}
        self._cordoned: dict[NodeId, bool] = {}
        self._labels: dict[NodeId, LabelsSet] = {}
        self._loads: dict[NodeId, float] = {}
        self._duties: dict[str, DutyHeld] = {}
        self._read: set[Key] = set()

    @property
    def is_known(self) -> bool:
        """Has everything been read?"""
        return len(self._read) == len(PREFIXES)

    @property
    def sessions(self) -> Mapping[SessionId, NodeId]:
        """The sessions that live."""
        return {node.session: node.id for node in self.nodes.values()}

    @property
    def scores(self) -> dict[NodeId, float]:
        """The load of every node; 0 for a node that has not reported it."""
        return {node: self._loads.get(node, 0.0) for node in self.nodes}

    @property
    def feeder(self) -> NodeId | None:
        """The node that holds the duty to act first, if its session still exists."""
        held = self._duties.get(FEED)
        return held.node if held is not None and held.session in self.sessions else None

    def fold(self, prefix: Key, news: PrefixChanges) -> bool:
        """Apply a change below one of the prefixes; returns whether it may change a decision.

        Nodes write status often, and most of it changes no decision: their load, for example, is only used when there
        is a run to bind.
        """
        places: dict[Key, dict[Any, Any]] = {
            keys.NODES: self.nodes,
            keys.STATUS: self._jobs,
            keys.CORDONS: self._cordoned,
            keys.LABELS: self._labels,
            keys.NODE_LOADS: self._loads,
            keys.DUTIES: self._duties,
        }
        into, feeder = places[prefix], self.feeder
        is_another = news.is_whole
        if news.is_whole:
            into.clear()
            self._read.add(prefix)
        for change in news.changes:
            name = change.key.removeprefix(prefix)
            value = _value(prefix, change.entry)
            is_another = is_another or value != into.get(name)
            if value is None:
                into.pop(name, None)
            else:
                into[name] = value
        if prefix in (keys.NODE_LOADS, keys.DUTIES):
            return news.is_whole or self.feeder != feeder
        return is_another

    def members(
        self, taken: Callable[[SessionId], int], barred: Callable[[NodeId], str], share: Callable[[NodeId], float]
    ) -> list[EligibleNode]:
        """The nodes that run jobs.

        `taken` counts the runs of a session, `barred` gives further reasons against a node, and `share` which part of
        its executors it may be given; the others are a reserve.
        """
        found = []
        for node in self.nodes.values():
            if node.executors > 0 and node.role.may_work:
                bound, given = taken(node.session), math.ceil(node.executors * share(node.id))
                found.append(
                    EligibleNode(
                        node=node.id,
                        session=node.session,
                        free=given - bound,
                        reserve=node.executors - max(bound, given),
                        score=self._loads.get(node.id, 0.0),
                        labels=labelled(node.labels, self._labels.get(node.id)),
                        jobs=self._jobs.get(node.id, frozenset()),
                        barred="it is cordoned" if node.id in self._cordoned else barred(node.id),
                    )
                )
        return found


def _value(prefix: Key, entry: Entry | None) -> Node | LabelsSet | frozenset[str] | float | DutyHeld | bool | None:
    """The part of a record that is kept."""
    if prefix == keys.NODES:
        return understood(Node, entry, log)
    if prefix == keys.STATUS:
        status = understood(NodeStatus, entry, log)
        return frozenset(status.jobs) if status else None
    if prefix == keys.NODE_LOADS:
        load = understood(NodeLoad, entry, log)
        return load.score if load else None
    if prefix == keys.LABELS:
        return understood(LabelsSet, entry, log)
    if prefix == keys.DUTIES:
        return understood(DutyHeld, entry, log)
    return True if entry is not None else None
