"""Which topics a Kafka source reads, and how their partitions are numbered. Pure.

A source has numbered partitions. Where it is one topic, they are the topic's own. Where it is all topics that match a
pattern, topics come and go, so a number must identify the topic without a stored list: it is made of the
topic's name and id, and ends in the topic's own partition (five digits). A topic that is made anew has another id: its
partitions are new ones, and begin at their start.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

from rota.model.errors import Invalid

PATTERN = "^"
"""How a path begins that is a pattern, as librdkafka has it; no topic's name does."""

INTERNAL = "__"
"""How the names of the brokers' own topics begin; no pattern means those."""

MOST = 100_000
"""Partitions that a topic may have, to be read by a pattern."""


class SourcePartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


def is_pattern(topic: str) -> bool:
    """Is it a pattern of names, rather than a name?"""
    return topic.startswith(PATTERN)


def check(pattern: str) -> None:
    """ValueError says what is wrong with a pattern."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern} is no regular expression: {error}") from None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The topics that a pattern means: their whole name matches it."""
    is_meant = re.compile(pattern).fullmatch
    return sorted(name for name in names if not name.startswith(INTERNAL) and is_meant(name))


def numbered(topics: Mapping[str, tuple[str, Iterable[int]]]) -> dict[int, SourcePartition]:
    """Number → partition, of topics that were found by a pattern: name → id and partitions."""
    found: dict[int, SourcePartition] = {}
    for topic, (id, partitions) in topics.items():
        base = crc32(f"{topic}\n{id}".encode()) * MOST
        for partition in partitions:
            other = found.setdefault(base + partition, SourcePartition(topic, partition))
            if other.topic != topic or partition >= MOST:
                raise Invalid(
                    f"topics {other.topic} and {topic} cannot be read by one pattern; read one of them by name"
                )
    return found
