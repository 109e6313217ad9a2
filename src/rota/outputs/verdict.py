"""Whether a range may be published now. Pure: judged by the committed offsets, the ranges, and the moves set by hand.

The committed offsets of a partition only move along a chain of ranges, each of which starts where the previous one
ends. A range that is next in the chain of every partition may be published. Otherwise the verdict tells the task to
wait for its predecessor, to fail because another range was published, or that a replica has published it already.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec

from rota.model.errors import Invalid
from rota.streams.core.manifest import Offsets, Range
from rota.streams.core.records import MoveRecord

Moves: TypeAlias = Mapping[int, frozenset[str]]
"""Partition → the ids of all moves that set its offset by hand."""


class Turn(StrEnum):
    """The verdict on a publish."""

    PUBLISHED = "published"
    AHEAD = "ahead"
    """What comes before it is not published yet: wait, and ask again."""

    BEHIND = "behind"
    """Others published another range from there: these rows can never be published."""

    THERE = "there"
    """Its records are in the output already: a replica was faster."""


class PublishVerdict(msgspec.Struct, frozen=True):
    """The verdict on a publish, and why."""

    turn: Turn
    why: str = ""


PUBLISHED = PublishVerdict(Turn.PUBLISHED)


def judge(committed: Offsets, ranges: Sequence[Range]) -> PublishVerdict:
    """The verdict on these ranges by the present offsets; Invalid if they are no ranges of these partitions."""
    check(ranges)
    moving = [each for each in ranges if each.end > each.start] or list(ranges)
    if unknown := sorted(each.partition for each in ranges if each.partition not in committed):
        raise Invalid(f"partition {unknown[0]} has no committed offset; begin it before you publish")
    if all(committed[each.partition] >= each.end for each in moving) and any(each.end > each.start for each in moving):
        return PublishVerdict(Turn.THERE, "these records are published already, by a replica or by who came after it")
    for each in ranges:
        at = committed[each.partition]
        if at > each.start:
            why = f"partition {each.partition} is committed up to {at}, and this began at {each.start}"
            return PublishVerdict(Turn.BEHIND, f"{why}: others published another range")
    for each in ranges:
        at = committed[each.partition]
        if at < each.start:
            why = f"partition {each.partition} is committed up to {at}, and this begins at {each.start}"
            return PublishVerdict(Turn.AHEAD, f"{why}: what is between is not published yet")
    return PUBLISHED


def fenced(ranges: Sequence[Range], seen: Moves | None, now: Moves) -> PublishVerdict:
    """The verdict on ranges whose turn it is: behind, if an offset was set by hand since `seen`; None: moves were not
    read.

    Offsets alone do not show it: set back, they may reach again the start of a range that was read before.
    """
    for each in ranges if seen is not None else ():
        if since := sorted(now.get(each.partition, frozenset()) - (seen or {}).get(each.partition, frozenset())):
            why = f"the offset of partition {each.partition} was set by hand ({since[-1]}) since its records were read"
            return PublishVerdict(Turn.BEHIND, f"{why}; they are read again")
    return PUBLISHED


def moves_of(records: Iterable[MoveRecord]) -> Moves:
    """All moves, by partition."""
    found: dict[int, frozenset[str]] = {}
    for move in records:
        for partition in move.after:
            found[partition] = found.get(partition, frozenset()) | {move.id}
    return found


def check(ranges: Sequence[Range]) -> None:
    """Invalid if a partition comes twice, or a range ends before it starts."""
    if not ranges:
        raise Invalid("a publish without ranges; name the partitions it read")
    if len({each.partition for each in ranges}) < len(ranges):
        raise Invalid("a publish names a partition twice; name each once")
    for each in ranges:
        if each.end < each.start or each.start < 0:
            raise Invalid(f"partition {each.partition}: a range from {each.start} to {each.end}; it must go forward")


def can_never_publish(committed: Offsets, starts: Offsets) -> bool:
    """Did others publish past where a draft starts, so that it stays behind whatever happens?"""
    return any(committed.get(partition, start) > start for partition, start in starts.items())
