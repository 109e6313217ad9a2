"""Circles: a job must not come after itself, directly or through other jobs."""

from collections.abc import Mapping, Sequence


def circle(start: str, after: Mapping[str, Sequence[str]]) -> list[str]:
    """The way from `start` back to itself; empty if there is none."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for other in after.get(way[-1], ()):
            if other == start:
                return [*way, other]
            if other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return []
