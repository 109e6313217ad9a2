"""The records that nodes send each other over the node link.

Plain records: an adapter of the link turns them into its own messages at the edge.
"""

import msgspec

from rota.model.ids import NodeId, Revision, SessionId


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers a peer check."""

    node: NodeId
    session: SessionId


class Whom(msgspec.Struct, frozen=True, kw_only=True):
    """The node that a call is meant for; without a session, any session of that node."""

    node: NodeId
    session: SessionId | None = None

    def is_met_by(self, presence: Presence) -> bool:
        """Is this the node that is meant?"""
        return self.node == presence.node and self.session in (None, presence.session)

    def __str__(self) -> str:
        return f"node {self.node}" + (f", session {self.session}" if self.session else "")


class AttemptId(msgspec.Struct, frozen=True):
    """One try of a run."""

    run: str
    number: int

    def __str__(self) -> str:
        return f"run {self.run}, attempt {self.number}"


class StartAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Start an attempt under its epoch."""

    attempt: AttemptId
    epoch: Revision
    payload: bytes = b""
    """What to run, encoded by the jobs of sender and receiver; opaque to the link."""


class Accepted(msgspec.Struct, frozen=True):
    """The node takes the attempt."""


class AttemptRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The node does not take the attempt, and why."""

    why: str


class LogPiece(msgspec.Struct, frozen=True):
    """A piece of a log, from the offset that was asked for."""

    data: bytes
    """Empty if the log is shorter than the offset, or does not exist."""

    is_last: bool
    """Does the log end with it?"""
