"""Errors, sorted by what the caller can do about them.

A message names what is wrong and what to do. `exit_code` is the exit code of the command line; `code` is what programs
read at the doors (`model.problems`): that of the error's class, unless the code that raises it gives another.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar

from rota.model.ids import Key, LeaseId, Revision

SHOWN = 3
"""Reasons that an error names, the most frequent ones."""


class RotaError(Exception):
    """Root of everything Rota raises."""

    exit_code: ClassVar[int] = 1
    code: str = "internal"

    def __init__(self, *args: object, code: str = "") -> None:
        super().__init__(*args)
        if code:
            self.code = code


class Invalid(RotaError):
    """The request is wrong; asking again will not help."""

    exit_code = 2
    code = "invalid"


class Rewound(Invalid):
    """The store is an older copy of itself, with commits missing that were seen; start this process anew."""

    def __init__(self, at: Revision, seen: Revision) -> None:
        super().__init__(
            f"the store is at revision {at}, but this process has seen {seen}: an older copy took its place; "
            "make sure that it is the right one, and restart this node"
        )
        self.at, self.seen = at, seen


class Rejected(Invalid):
    """Messages that can never be delivered as they are; fix the cause before emitting them again."""

    def __init__(self, reasons: Mapping[int, str], count: int) -> None:
        """`reasons`: why each was rejected, by its place among the `count` messages of the call, from 0."""
        said = "; ".join(f"{why} ({times})" for why, times in Counter(reasons.values()).most_common(SHOWN))
        super().__init__(
            f"{len(reasons)} of {count} messages were rejected, and will not be delivered: {said}; "
            "emit them again once the cause is fixed"
        )
        self.reasons = dict(reasons)


class NotFound(RotaError):
    """There is no such thing; look at what there is."""

    exit_code = 3
    code = "not_found"


class Denied(RotaError):
    """These credentials may not do that; come back with others."""

    exit_code = 4
    code = "denied"


class Conflict(RotaError):
    """Someone was faster; read again and decide again."""

    exit_code = 5
    code = "conflict"

    def __init__(self, message: str, keys: Iterable[Key] = (), *, code: str = "") -> None:
        super().__init__(message, code=code)
        self.keys = frozenset(keys)


class Unavailable(RotaError):
    """Out of reach for now; nothing happened; back off and retry."""

    exit_code = 7
    code = "unavailable"


class BrokenOff(Unavailable):
    """It was reached, and went away or asked us to wait; it will be back: wait for it."""


class Unknown(RotaError):
    """It may or may not have happened; read again before doing anything."""

    exit_code = 6
    code = "unknown_outcome"


class Compacted(RotaError):
    """The history asked for is gone; scan, and watch from the scan's revision."""

    def __init__(self, asked: Revision, oldest: Revision) -> None:
        super().__init__(f"revision {asked} was compacted away; history starts at {oldest}: scan again")
        self.asked, self.oldest = asked, oldest


class LeaseLost(RotaError):
    """The lease ended, and with it every key under it; start a new session."""

    def __init__(self, lease: LeaseId) -> None:
        super().__init__(f"lease {lease} has ended; take a new one")
        self.lease = lease


class TermOver(RotaError):
    """This node does not lead any more; nothing was written."""
