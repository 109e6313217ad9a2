"""Rests: which nodes do not get a resource because it has just failed there.

Counted by this leader's own clock from when it saw the trouble: the node that wrote it down has another clock. What a
new leader finds when it begins has rested; so a change of leaders tries what fails once more, and not more often.

A rest is for what has failed: once the resource has another spec, or the node other code or a new start, it is over.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from rota.kit.time.instant import Instant
from rota.model.ids import NodeId, Revision
from rota.placement.fleet.view import FleetView
from rota.resources.core.records import Trouble
from rota.resources.core.trouble import RECENT, is_recent, rest, resting

Troubles = Mapping[NodeId, Trouble]
Version = tuple[object, ...]
"""What a resource would run with on a node: compared only."""

LONG_AGO = Instant(float("-inf"))
NEVER = Instant(float("inf"))
UNKNOWN: Version = ()
"""Of what a leader finds when it begins."""


class _Rest(msgspec.Struct, frozen=True):
    trouble: Trouble
    version: Version
    until: Instant
    is_over: bool = False
    """Has the resource another spec since, or the node other code or a new start?"""


class Rests:
    """By resource and node: the last trouble that was seen, and until when the resource rests for it."""

    def __init__(self, found: Mapping[str, Troubles]) -> None:
        self._seen = {
            name: {node: _Rest(each, UNKNOWN, LONG_AGO) for node, each in of.items()}
            for name, of in found.items()
            if of
        }
        self._again: dict[str, Instant] = {}
        self._well: dict[str, Instant] = {}

    def resting(
        self, name: str, troubles: Troubles, now: Instant, version: Callable[[NodeId], Version] = lambda node: ()
    ) -> frozenset[NodeId]:
        """The nodes that a resource rests from; it is `due` when the first of them may have it again.

        `version` returns what it would run with on a node now.
        """
        if not troubles:
            self._seen.pop(name, None)
            self._again.pop(name, None)
            self._well.pop(name, None)
            return frozenset()
        before = self._seen.get(name, {})
        seen = self._seen[name] = {
            node: _rest(before.get(node), each, version(node), now) for node, each in troubles.items()
        }
        waits = {node: each.until for node, each in seen.items() if each.until > now}
        if waits:
            self._again[name] = min(waits.values())
        else:
            self._again.pop(name, None)
        return frozenset(waits)

    def unwell(self, name: str, wall: datetime, now: Instant) -> dict[NodeId, Trouble]:
        """The recent troubles of a resource with what it still runs with; call `resting` first.

        `wall` is the store's clock, by which nodes write troubles down. It is `due` when the first is long ago.
        """
        lately = {
            node: each.trouble
            for node, each in self._seen.get(name, {}).items()
            if not each.is_over and is_recent(each.trouble, wall)
        }
        if lately:
            first = min(each.at for each in lately.values())
            self._well[name] = Instant(now + min(RECENT, RECENT - (wall - first)).total_seconds())
        else:
            self._well.pop(name, None)
        return lately

    def due(self, now: Instant) -> list[str]:
        """Resources whose rest from some node is over, or whose trouble is long ago; each is named once."""
        found = dict.fromkeys(name for waits in (self._again, self._well) for name, at in waits.items() if at <= now)
        for name in found:
            for waits in (self._again, self._well):
                if waits.get(name, NEVER) <= now:
                    del waits[name]
        return list(found)


def suppose_rests(view: FleetView, now: datetime) -> None:
    """Fill in which nodes resources rest from, for a plan that is made beside the leader; `now` is the store's time."""
    for name, troubles in view.trouble.items():
        written = view.versions.get(name, Revision(0))
        if nodes := frozenset(node for node, each in troubles.items() if resting(each, now, written)):
            view.resting[name] = nodes


def _rest(before: _Rest | None, trouble: Trouble, version: Version, now: Instant) -> _Rest:
    if before is None or before.trouble != trouble:
        return _Rest(trouble, version, Instant(now + rest(trouble).total_seconds()))
    if before.version == version:
        return before
    return _Rest(trouble, version, LONG_AGO, before.is_over or before.version != UNKNOWN)
