"""Names for the numbers and strings that identify things.

They are plain `str` and `int` at run time; the type checker keeps a node id from being passed as a key.
"""

from typing import NewType

from rota.kit.time.instant import Instant

__all__ = ["Instant", "Key", "LeaseId", "NodeId", "Revision", "SessionId", "TermNumber"]

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
