"""Names for the numbers and strings that identify things.

They are plain `str` and `int` at run time; the type checker keeps a node id from being passed as a key.
"""

from typing import NewType

from rota.kit.time.instant import Instant

__all__ = ["BACKFILL", "Instant", "Key", "LeaseId", "NodeId", "Revision", "SessionId", "TermNumber", "origin"]

Key = str
"""A key of the store, like `/nodes/a`: see `model.keys`."""

Revision = NewType("Revision", int)
"""The number of a commit; a later commit has a greater one."""

LeaseId = NewType("LeaseId", str)
NodeId = NewType("NodeId", str)
"""A member's lasting name; it survives restarts."""

SessionId = NewType("SessionId", str)
"""One life of a node: a fresh one for each start, and after each lost lease."""

TermNumber = NewType("TermNumber", int)
"""One leadership, named by the revision at which its leader key was created."""

BACKFILL = "~"
"""Stands in the name of a stream that fills a gap of another, behind that one's; no app can declare such a name."""


def origin(stream: str) -> str:
    """The stream whose function and output this one has: itself, unless it fills a gap of another."""
    return stream.partition(BACKFILL)[0]
