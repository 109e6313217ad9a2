"""A task's messages on their way into the worker's outbox: each gets its id, its sink and the epoch of its task."""

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from rota.kit.time.clock import Clock
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.relay.core.dedup import Ids
from rota.relay.core.held import Emission
from rota.sdk.context import Message
from rota.sinks.port import Message as Sent

LARGEST_PAYLOAD = 16 * 2**20
"""Bytes of one message."""


class EmittingTask(Protocol):
    """The task that emits."""

    @property
    def kind(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def slot(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def is_exclusive(self) -> bool: ...


class WayOut(Protocol):
    """Where the messages of a worker's tasks go."""

    async def emit(self, emissions: list[Emission], confirm: int) -> None:
        """Keep them all; return when the first `confirm` of them are in the sink or on disk, or raise Rejected."""


class EmissionDoor:
    """The part of a task's door that takes its messages."""

    def __init__(
        self,
        task: EmittingTask,
        sink: str,
        way_out: WayOut,
        waiting: AbstractContextManager[None, None],
        node: NodeId,
        clock: Clock,
    ) -> None:
        """`waiting` is entered while `emit` waits for room or a confirmation; an empty `sink` refuses all messages."""
        self._task, self._sink, self._way_out, self._waiting = task, sink, way_out, waiting
        self._node, self._clock = node, clock
        self._ids = Ids(task.kind, task.resource)

    async def emit(self, messages: list[Message]) -> None:
        """Hand the messages to the worker's outbox, waiting for room."""
        if not self._sink:
            raise Invalid(
                f'resource {self._task.kind}: it emits, and has no sink; declare one (sink="amqp://…"), '
                "or set sink in [relay]"
            )
        confirm = max([number for number, message in enumerate(messages, 1) if message.confirm], default=0)
        now = self._clock.wall()
        emissions = [self._emission(message, now) for message in messages]
        with self._waiting:
            await self._way_out.emit(emissions, confirm)

    def _emission(self, message: Message, now: datetime) -> Emission:
        task, payload = self._task, message.payload
        if len(payload) > LARGEST_PAYLOAD:
            raise Invalid(f"a message has {len(payload)} bytes; at most {LARGEST_PAYLOAD} are sent: split it")
        sent = Sent(
            id=self._ids.of(message.key, payload),
            kind=task.kind,
            resource=task.resource,
            payload=payload,
            node=self._node,
            time=now,
            key=message.key or "",
            to=message.to or "",
        )
        return Emission(sent, self._sink, task.slot, task.epoch, task.is_exclusive)
