"""The requests of other nodes that a node answers."""

import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt
from rota.model.errors import Unavailable
from rota.model.ids import NodeId, SessionId


class Works(Protocol):
    """Runs the app of a node."""

    is_draining: bool


class LinkHandler:
    """The node's end of the link."""

    def __init__(
        self,
        node: NodeId,
        session: Callable[[], SessionId | None],
        works: Works | None,
        take: Callable[[StartAttempt], Accepted | AttemptRefused],
        read_log: Callable[[AttemptId, int], Awaitable[LogPiece]],
    ) -> None:
        self._node, self._session, self._works = node, session, works
        self._take, self._read_log = take, read_log

    def presence(self) -> Presence:
        """This node's identity."""
        session = self._session()
        if session is None:
            raise Unavailable(f"node {self._node} on {socket.gethostname()} has not joined the fleet; ask again")
        return Presence(node=self._node, session=session)

    async def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        """Accept an attempt that is bound to this node."""
        if self._works is None:
            return AttemptRefused(why=f"node {self._node} runs no app")
        if self._works.is_draining:
            return AttemptRefused(why=f"node {self._node} is stopping")
        return self._take(start)

    async def read_log(self, attempt: AttemptId, offset: int) -> LogPiece:
        """A piece of the log of an attempt, in memory or kept where this node keeps logs."""
        return await self._read_log(attempt, offset)
