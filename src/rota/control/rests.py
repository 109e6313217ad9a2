"""Rests: which nodes do not get a resource because it has just failed there.

Counted by this leader's own clock from when it saw the trouble: the node that wrote it down has another clock. What a
new leader finds when it begins has rested; so a change of leaders tries what fails once more, and not more often.

A rest is for what has failed: once the resource has another spec, or the node other code or a new start, it is over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rota.decide.trouble import rest
from rota.kit.instant import Instant
from rota.model.ids import NodeId
from rota.model.resource import Trouble

Troubles = Mapping[NodeId, Trouble]
Version = tuple[object, ...]
"""What a resource would run with on a node: compared only."""

LONG_AGO = Instant(float("-inf"))


@dataclass(frozen=True)
class _Rest:
    trouble: Trouble
    version: Version
    until: Instant


class Rests:
    """By resource and node: the last trouble that was seen, and until when the resource rests for it."""

    def __init__(self, found: Mapping[str, Troubles]) -> None:
        self._seen = {
            name: {node: _Rest(each, (), LONG_AGO) for node, each in of.items()} for name, of in found.items() if of
        }
        self._again: dict[str, Instant] = {}

    def resting(
        self, name: str, troubles: Troubles, now: Instant, version: Callable[[NodeId], Version] = lambda node: ()
    ) -> frozenset[NodeId]:
        """The nodes that a resource rests from; it is `due` when the first of them may have it again.

        `version` tells what it would run with on a node now.
        """
        if not troubles:
            self._seen.pop(name, None)
            self._again.pop(name, None)
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

    def due(self, now: Instant) -> list[str]:
        """Resources whose rest from some node is over; each is named once."""
        found = [name for name, at in self._again.items() if at <= now]
        for name in found:
            del self._again[name]
        return found


def _rest(before: _Rest | None, trouble: Trouble, version: Version, now: Instant) -> _Rest:
    if before is None or before.trouble != trouble:
        return _Rest(trouble, version, Instant(now + rest(trouble).total_seconds()))
    return before if before.version == version else _Rest(trouble, version, LONG_AGO)
