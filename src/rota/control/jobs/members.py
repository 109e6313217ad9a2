"""Who takes part in jobs: the nodes, what they can run and who gets nothing at the moment."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from rota.decide.jobs.dispatch import Member
from rota.model import keys
from rota.model.ids import Key, NodeId, SessionId
from rota.model.node import Node, NodeStatus
from rota.store.follow import News
from rota.store.port import Entry
from rota.store.records import understood

log = logging.getLogger(__name__)

PREFIXES = (keys.NODES, keys.STATUS, keys.CORDONS)
"""What it is made of."""


class Members:
    """The nodes, as the store has them."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, Node] = {}
        self._jobs: dict[NodeId, frozenset[str]] = {}
        self._cordoned: dict[NodeId, bool] = {}
        self._read: set[Key] = set()

    @property
    def is_known(self) -> bool:
        """Was everything read?"""
        return len(self._read) == len(PREFIXES)

    @property
    def sessions(self) -> Mapping[SessionId, NodeId]:
        """The sessions that live."""
        return {node.session: node.id for node in self.nodes.values()}

    def fold(self, prefix: Key, news: News) -> None:
        """Take in what is new below one of the prefixes."""
        places: dict[Key, dict[NodeId, Any]] = {
            keys.NODES: self.nodes,
            keys.STATUS: self._jobs,
            keys.CORDONS: self._cordoned,
        }
        into = places[prefix]
        if news.is_whole:
            into.clear()
            self._read.add(prefix)
        for change in news.changes:
            name = NodeId(change.key.removeprefix(prefix))
            value = _value(prefix, change.entry)
            if value is None:
                into.pop(name, None)
            else:
                into[name] = value

    def members(self, taken: Callable[[SessionId], int], barred: Callable[[NodeId], str]) -> list[Member]:
        """The nodes that run jobs; `taken` counts the runs of a session, `barred` knows more reasons against one."""
        found = []
        for node in self.nodes.values():
            if node.executors > 0 and node.role.may_work:
                found.append(
                    Member(
                        node=node.id,
                        session=node.session,
                        free=node.executors - taken(node.session),
                        labels=node.labels,
                        jobs=self._jobs.get(node.id, frozenset()),
                        barred="it is cordoned" if node.id in self._cordoned else barred(node.id),
                    )
                )
        return found


def _value(prefix: Key, entry: Entry | None) -> Node | frozenset[str] | bool | None:
    if prefix == keys.NODES:
        return understood(Node, entry, log)
    if prefix == keys.STATUS:
        status = understood(NodeStatus, entry, log)
        return frozenset(status.jobs) if status else None
    return True if entry is not None else None
