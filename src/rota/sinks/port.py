"""The publishing port: what Rota asks of RabbitMQ, Kafka or a file, and the laws it relies on.

`publish` hands messages over and returns; their outcomes are reported later, many at a time, to the `Outcomes` that the
sink was opened with. So thousands can be under way, and a message costs no future and no task.

Adapters are opened by URL (`sinks.open`) and translate their driver's errors at the edge; no caller imports one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from rota.model.ids import NodeId

# Structs rather than dataclasses: there is one per message, and these are built ten times as fast.


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One message as it leaves the fleet."""

    id: bytes
    """16 bytes by which consumers recognise a repeat; on the wire 32 hexadecimal digits."""

    kind: str
    """The kind of the resource that emitted it."""

    resource: str
    """The resource's id."""

    payload: bytes
    node: NodeId
    """Where it was emitted."""

    time: datetime
    """When, by that node's clock."""

    key: str = ""
    """The key that its emitter gave it, if any."""

    to: str = ""
    """Where in the sink: a routing key or topic; empty: as the sink's URL says."""

    headers: Mapping[str, str] = {}
    """What else is to stand beside the payload."""


class Outcomes(Protocol):
    """The callbacks for the outcomes of messages. Both must return quickly and must not raise: no caller would catch
    it."""

    def confirmed(self, messages: Sequence[Message]) -> None:
        """The server has these messages."""

    def rejected(self, message: Message, why: str) -> None:
        """This message can never be delivered; it is not retried."""


class Sink(Protocol):
    """Where messages go. Every adapter keeps these laws (`tests/contract/test_sink.py`):

    1. Messages of one resource reach the server in the order they were published; others may overtake them. Over a
       break this is true of their first copies. Where a server refused one in between, and it was sent again, it is
       true of their last copies.
    2. A message is confirmed only when the server has it, as durably as that server can.
    3. After a break, or a refusal that may pass, everything unconfirmed of a shard is sent again, in order and with
       equal ids, and so is what was confirmed behind an unconfirmed message of the same resource. Consumers see at
       most `window` repeats for each break. A shard is what an adapter keeps in order together; a resource is in one.
    4. At most `window` messages are under way. `publish` waits beyond that, first come, first served. It takes a whole
       batch or, when it raises or is cancelled, nothing of it. A batch longer than the window is Invalid.
    5. Each message that was taken has one outcome: confirmed, or rejected with the reason. None is reported twice, and
       none is dropped silently. A message without an outcome when the sink is closed may have been delivered or not.
    6. An outage only delays, and `trouble` says why. What the server refuses until an operator fixes it (login, rights,
       a missing place) is raised as Denied or Invalid when the sink is opened, and by `publish` and `flush` if it
       comes up later; the sink goes on trying, and keeps what it has taken.
    7. `flush` returns when all that was taken before has its outcome.
    """

    @property
    def trouble(self) -> str | None:
        """Why nothing can be delivered at the moment, or None."""

    async def publish(self, messages: Sequence[Message]) -> None:
        """Take the messages; wait while too many are under way."""

    async def flush(self) -> None:
        """Wait until everything taken so far has its outcome; `publish` waits meanwhile."""

    async def close(self) -> None:
        """Close connections, threads and files; no more outcomes are reported. Flush first, if it matters."""
