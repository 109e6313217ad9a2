"""Rests: which nodes do not get a resource because it has just failed there.

Counted by this leader's own clock from when it saw the trouble: the node that wrote it down has another clock. What a
new leader finds when it begins has rested; so a change of leaders tries what fails once more, and not more often.
"""

from collections.abc import Mapping

from rota.decide.trouble import rest
from rota.kit.instant import Instant
from rota.model.ids import NodeId
from rota.model.resource import Trouble

Troubles = Mapping[NodeId, Trouble]


class Rests:
    """By resource and node: the last trouble that was seen, and until when the resource rests for it."""

    def __init__(self, found: Mapping[str, Troubles]) -> None:
        long_ago = Instant(float("-inf"))
        self._seen = {name: {node: (each, long_ago) for node, each in of.items()} for name, of in found.items() if of}
        self._again: dict[str, Instant] = {}

    def resting(self, name: str, troubles: Troubles, now: Instant) -> frozenset[NodeId]:
        """The nodes that a resource rests from; it is `due` when the first of them may have it again."""
        if not troubles:
            self._seen.pop(name, None)
            self._again.pop(name, None)
            return frozenset()
        before = self._seen.get(name, {})
        seen = self._seen[name] = {node: self._until(before.get(node), each, now) for node, each in troubles.items()}
        waits = {node: until for node, (_, until) in seen.items() if until > now}
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

    def _until(self, before: tuple[Trouble, Instant] | None, trouble: Trouble, now: Instant) -> tuple[Trouble, Instant]:
        if before is not None and before[0] == trouble:
            return before
        return trouble, Instant(now + rest(trouble).total_seconds())
