"""Vanished records: where a stream goes on when its source has lost what comes next. Pure.

`halt` waits for an operator to decide. `earliest` loses as little as possible: it goes on at the first record that is
left and was not read before. `latest` goes on at the end. Both leave a gap, and `Skip` is the record of it.

A source that is shorter than it was is one of two things. If it was made anew, all it has is new, and `earliest` begins
at its start. If its end was cut off, what it still has was read already, and reading it again would double it.
"""

from datetime import datetime
from typing import TypeAlias

import msgspec

from rota.sources.port import Gap, Vanished


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """A stream went on at `offset`, and left these records of a partition out."""

    partition: int
    gap: Gap
    offset: int
    policy: str
    why: str
    at: datetime


class StreamHalt(msgspec.Struct, frozen=True, kw_only=True):
    """A stream waits until an operator restores the records or sets the offsets."""

    partition: int
    gap: Gap
    why: str


Verdict: TypeAlias = Skip | StreamHalt


def decide(lost: Vanished, policy: str, now: datetime, *, is_anew: bool) -> Verdict:
    """What to do about vanished records; `is_anew`: the source's identity is not the one that was read before."""
    if policy == "halt":
        return StreamHalt(partition=lost.partition, gap=lost.gap, why=str(lost))
    offset = lost.bounds.end if policy == "latest" else _earliest(lost, is_anew=is_anew)
    gap = Gap(lost.gap.first, offset - 1) if offset > lost.gap.last else lost.gap
    return Skip(partition=lost.partition, gap=gap, offset=offset, policy=policy, why=lost.why, at=now)


def _earliest(lost: Vanished, *, is_anew: bool) -> int:
    if is_anew:
        return lost.bounds.start
    return min(lost.gap.last + 1, lost.bounds.end)
