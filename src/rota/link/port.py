"""The node link port: the calls between nodes, and the laws both ends rely on.

A `NodeLink` calls another node; a `NodeHandler` answers at the other end. Instructions do not use the link: they are in
the store. The link carries requests to one node alone (checks, starts) and what is too much for the store (logs).

Adapters are opened by address (`link.open`) and translate their transport's errors at the edge; no caller imports one.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

from rota.fleet.core.access.gate import TurnedAway
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt, Whom
from rota.model.errors import Conflict
from rota.model.ids import NodeId, SessionId

Admit: TypeAlias = Callable[[str, str | None], TurnedAway | None]
"""Judges a call by its method, in the adapter's own terms, and by its `authorization`; None admits it."""

TakeNote: TypeAlias = Callable[[TurnedAway, str, str], TurnedAway]
"""Called for each refused call: why, which method, from which address; returns the refusal for the caller."""

Shown: TypeAlias = str | Callable[[], str] | None
"""The token that is sent with each call, or a function that returns it: it may change while a link is open."""

IsRevoked: TypeAlias = Callable[[str], bool]
"""Was the certificate with this serial, in hex, revoked?"""


class NotMe(Conflict):
    """Another node answers at this address; look the node up again."""

    def __init__(self, meant: Whom, node: NodeId, session: SessionId) -> None:
        super().__init__(f"{meant} was meant, but node {node}, session {session} is here; look its address up again")
        self.meant, self.node, self.session = meant, node, session


class NodeLink(Protocol):
    """The way to one node. Every adapter keeps these laws (`tests/contract/test_link.py`):

    1. A link may say whom it means. Where another node or session answers, everything is refused with NotMe, naming
       who is there, and nothing happens.
    2. A start reaches the handler once per run, attempt and epoch: asked again, meanwhile or later, it gets the same
       answer. Under an older epoch than one seen it is refused. It is not given up because its caller gave up. Each
       start has its own answer; what is wrong with one alone is its refusal.
    3. A piece of a log begins at the offset asked for and has at most 64 KiB. It is empty where the log has nothing,
       and says whether the log ends with it.
    4. Every call ends within its time-out. What certainly did not happen is Unavailable; what may have happened is
       Unknown. The link never sends a thing twice by itself.
    5. A peer that is unreachable, frozen or half cut off costs no more than law 4 says, and the link works again by
       itself when the peer does.
    6. A record beyond the limits is Invalid, naming the limit, before anything is sent; the same on every adapter.
    7. A slow handler holds up nothing but itself.
    8. What the door does not admit is Denied, with the door's sentence, and nothing reaches the handler.
    """

    async def check(self, *, timeout: timedelta | None = None) -> Presence:
        """Who answers."""

    async def dispatch_many(
        self, starts: Sequence[StartAttempt], *, timeout: timedelta | None = None
    ) -> list[Accepted | AttemptRefused]:
        """Start attempts that are sent together; returns an answer for each."""

    async def read_log(self, attempt: AttemptId, offset: int = 0, *, timeout: timedelta | None = None) -> LogPiece:
        """A piece of the log that the node has of an attempt, from `offset`."""

    async def close(self) -> None:
        """Close the connection; calls under way end."""


class NodeHandler(Protocol):
    """The answering side of a node. Rota's errors that it raises reach the caller as the same errors."""

    def presence(self) -> Presence:
        """The node's present id and session."""

    async def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        """Accept an attempt and start it; called once for each epoch of it."""

    async def read_log(self, attempt: AttemptId, offset: int) -> LogPiece:
        """A piece of the log of an attempt, in memory or kept here; an empty one if there is none."""


class LinkServer(Protocol):
    """A node's open door."""

    @property
    def address(self) -> str:
        """Its address, with the port it got."""

    async def close(self, grace: timedelta) -> None:
        """Take nothing new, give calls under way `grace`, then end them too."""
