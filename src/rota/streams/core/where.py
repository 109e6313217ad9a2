"""Where a stream is to go on, as users write it: an offset, a time, or an end of the source. Pure."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from rota.model.errors import Invalid
from rota.streams.core.records import Reset


class Edge(StrEnum):
    """An end of what a source has."""

    EARLIEST = "earliest"
    LATEST = "latest"


Where: TypeAlias = int | datetime | Edge


def where(text: str) -> Where:
    """The place that a text means; Invalid says how to write one."""
    if text in set(Edge):
        return Edge(text)
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(f'"{text}" is no place in a source; write an offset, earliest, latest or 2026-01-31T12:00Z')
    if moment.timestamp() < 0:
        raise Invalid(f'"{text}" is before 1970, when no source had records; write a later time, or earliest')
    return moment


def targets(reset: Reset, partitions: Iterable[int]) -> dict[int, Where]:
    """Which of these partitions are to go on elsewhere, and where."""
    places = {each: reset.partitions.get(each, reset.to) for each in partitions}
    return {each: where(text) for each, text in places.items() if text}
