"""Partners: in which order needs are met that name each other.

Needs that are to be near a tag come after all that have the tag, so a chain of such needs is placed in one pass
whatever the order of their names. Where needs wait for each other in a circle, the first of them goes first.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from rota.placement.core.demand import Tag
from rota.placement.core.fleet import Needs


def partners_first(needs: Sequence[Needs]) -> list[int]:
    """The indices of the needs in the order to meet them: as given, but needs with a tag before those to be near it."""
    if not any(each.near for each in needs):
        return list(range(len(needs)))
    return _Order(needs).run()


class _Order:
    """One sorting: which needs are ready, and which wait for which tags."""

    def __init__(self, needs: Sequence[Needs]) -> None:
        self._needs = needs
        self._to_come = Counter(tag for each in needs for tag in each.tags)
        """By tag: those that have it and are not in the order yet."""

        self._waits = [self._partners(each) for each in needs]
        self._seekers: defaultdict[Tag, list[int]] = defaultdict(list)
        for number, tags in enumerate(self._waits):
            for tag in tags:
                self._seekers[tag].append(number)
        self._ready = [number for number, tags in enumerate(self._waits) if not tags]
        heapify(self._ready)
        self._found: dict[int, None] = {}

    def run(self) -> list[int]:
        for number in range(len(self._needs)):
            self._meet_all_ready()
            if number not in self._found:  # it waits in a circle, and one of that has to begin
                heappush(self._ready, number)
        self._meet_all_ready()
        return list(self._found)

    def _partners(self, each: Needs) -> set[Tag]:
        """The tags that it has to wait for: those that others have, and it does not have itself."""
        return {tag for tag in each.near if self._to_come[tag] and tag not in each.tags}

    def _meet_all_ready(self) -> None:
        while self._ready:
            number = heappop(self._ready)
            if number not in self._found:
                self._found[number] = None
                for tag in self._needs[number].tags:
                    self._met(tag)

    def _met(self, tag: Tag) -> None:
        self._to_come[tag] -= 1
        for seeker in self._seekers[tag] if not self._to_come[tag] else ():
            self._waits[seeker].discard(tag)
            if not self._waits[seeker]:
                heappush(self._ready, seeker)
