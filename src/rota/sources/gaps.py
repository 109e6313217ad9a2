"""Gaps: which offsets have no record, and which are gone. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rota.sources.port import Batch, Bounds, Gap, Record


class Missing(NamedTuple):
    """Offsets that are gone, and why."""

    gap: Gap
    why: str


def between(position: int, records: Sequence[Record], then: int) -> tuple[Gap, ...]:
    """The offsets from `position` up to `then` that none of the records, in order, has."""
    if len(records) == then - position:
        return ()  # nearly always, and then the records need not be checked one by one
    return tuple(_holes(position, records, then))


def _holes(position: int, records: Sequence[Record], then: int) -> Iterator[Gap]:
    for record in records:
        if record.offset > position:
            yield Gap(position, record.offset - 1)
        position = record.offset + 1
    if then > position:
        yield Gap(position, then - 1)


def outside(position: int, bounds: Bounds) -> Missing | None:
    """What is gone for a reader at `position`; None if it can go on."""
    if position < bounds.start:
        return Missing(Gap(position, bounds.start - 1), "the source has deleted them")
    if position > bounds.end:
        return Missing(Gap(bounds.end, position - 1), "the source is shorter than it was: it was cut, or made anew")
    return None


def split(batch: Batch, most: int) -> tuple[Batch, Batch]:
    """The first records of a batch, and the others."""
    head, tail = batch.records[:most], batch.records[most:]
    middle = head[-1].offset + 1 if head else tail[0].offset
    before = tuple(gap for gap in batch.gaps if gap.last < middle)
    return (
        Batch(batch.partition, head, middle, before, batch.topic),
        Batch(batch.partition, tail, batch.next, batch.gaps[len(before) :], batch.topic),
    )
