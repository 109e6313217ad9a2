"""What a node answers to the other nodes."""

import socket
from collections.abc import AsyncGenerator, Callable

from rota.kit.clock import Clock
from rota.model.errors import Invalid, Unavailable
from rota.model.ids import NodeId, SessionId
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Control,
    Load,
    NotLeader,
    Presence,
    Refused,
    Report,
    Start,
    Verb,
)
from rota.node.load import LoadMeter
from rota.node.runtime import Runtime


class LinkHandler:
    """The node's end of the link."""

    def __init__(
        self,
        node: NodeId,
        session: Callable[[], SessionId | None],
        runtime: Runtime | None,
        take: Callable[[Start], Accepted | Refused],
        slots: int,
        meter: LoadMeter,
        clock: Clock,
    ) -> None:
        self._node, self._session, self._runtime, self._take = node, session, runtime, take
        self._slots, self._meter, self._clock = slots, meter, clock

    def presence(self) -> Presence:
        """Who we are, and how busy."""
        session = self._session()
        if session is None:
            raise Unavailable(f"node {self._node} on {socket.gethostname()} has not joined the fleet; ask again")
        return Presence(node=self._node, session=session, wall=self._clock.wall(), load=self._load())

    def report(self, report: Report) -> NotLeader | None:
        """Nobody collects reports yet, so nobody here is their leader."""
        return NotLeader()

    async def dispatch(self, start: Start) -> Accepted | Refused:
        """Take an attempt that is bound to this node."""
        if self._runtime is None:
            return Refused(why=f"node {self._node} runs no app")
        if self._runtime.is_draining:
            return Refused(why=f"node {self._node} is stopping")
        return self._take(start)

    async def control(self, control: Control) -> bool:
        """Interrupt an attempt; tasks are steered through the store."""
        if self._runtime is None or not isinstance(control.what, AttemptId):
            return False
        if control.verb == Verb.RESTART:
            raise Invalid("an attempt cannot be restarted; start the next one")
        why = control.why or f"{control.verb} was asked for"
        return self._runtime.attempts.interrupt(control.what.run, control.what.number, why)

    async def hand_over(self, source: NodeId, batch: Batch) -> None:
        """Relays have lines of their own, and take nothing here."""
        raise Unavailable(f"node {self._node} takes messages on its relay's door; nothing was kept")

    def follow_log(self, attempt: AttemptId, offset: int) -> AsyncGenerator[bytes, None]:
        """The log of an attempt that runs here, as it grows; of another, what is kept where this node keeps logs."""
        if self._runtime is None:
            raise Invalid(f"node {self._node} runs no app, and keeps no log of {attempt}")
        return self._runtime.logs.follow(attempt.run, attempt.number, offset)

    def _load(self) -> Load:
        load = self._meter.load
        return Load(
            score=load.score,
            slots=self._slots,
            slots_used=len(self._runtime.tasks.orders) if self._runtime else 0,
            executors=load.executors,
            executors_used=load.executors_used,
        )
