"""What a node answers to the other nodes: who it is, whether it takes an attempt, a piece of a log."""

import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt
from rota.model.errors import Unavailable
from rota.model.ids import NodeId, SessionId


class DrainableRuntime(Protocol):
    """What runs the app of a node."""

    is_draining: bool


class StartTaker(Protocol):
    """What takes the attempts that are bound to this node."""

    def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        """Take an attempt, or say why not."""


class LinkHandler:
    """The node's end of the link."""

    def __init__(
        self,
        node: NodeId,
        session: Callable[[], SessionId | None],
        runtime: DrainableRuntime | None,
        jobs: Callable[[], StartTaker | None],
        read_log: Callable[[AttemptId, int], Awaitable[LogPiece]],
    ) -> None:
        """`jobs` answers None while the node has no session."""
        self._node, self._session, self._runtime = node, session, runtime
        self._jobs, self._read_log = jobs, read_log

    def presence(self) -> Presence:
        """This node's identity."""
        session = self._session()
        if session is None:
            raise Unavailable(f"node {self._node} on {socket.gethostname()} has not joined the fleet; ask again")
        return Presence(node=self._node, session=session)

    async def dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        """Take an attempt that is bound to this node."""
        if self._runtime is None:
            return AttemptRefused(why=f"node {self._node} runs no app")
        if self._runtime.is_draining:
            return AttemptRefused(why=f"node {self._node} is stopping")
        jobs = self._jobs()
        return jobs.dispatch(start) if jobs else AttemptRefused(why=f"node {self._node} is not in the fleet now")

    async def read_log(self, attempt: AttemptId, offset: int) -> LogPiece:
        """A piece of the log of an attempt, in memory or kept where this node keeps logs."""
        return await self._read_log(attempt, offset)
