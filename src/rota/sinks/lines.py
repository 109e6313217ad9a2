"""Messages as lines of JSON, and the sink that has such lines written by a thread.

Everything that was published while the thread was writing is its next batch: one write and one sync for many messages.
A payload that is UTF-8 stands there as `text`, any other as `base64`.
"""

import asyncio
from base64 import b64encode
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from rota.model.errors import RotaError, Unavailable
from rota.sinks.intake import Intake
from rota.sinks.patience import RetryBackoff
from rota.sinks.port import Message

MOST = 1024
"""How many messages are written in one go."""


class MessageLine(msgspec.Struct, omit_defaults=True):
    """One message as it is written."""

    id: str
    kind: str
    resource: str
    node: str
    time: datetime
    key: str = ""
    to: str = ""
    headers: Mapping[str, str] = {}
    text: str | None = None
    base64: str | None = None


_encoder = msgspec.json.Encoder()


def encode(message: Message) -> bytes:
    """The message as a line; ValueError if it cannot be written."""
    line = MessageLine(
        id=message.id.hex(),
        kind=message.kind,
        resource=message.resource,
        node=message.node,
        time=message.time,
        key=message.key,
        to=message.to,
        headers=message.headers,
    )
    try:
        line.text = message.payload.decode()
    except UnicodeDecodeError:
        line.base64 = b64encode(message.payload).decode()
    return _encoder.encode(line) + b"\n"


class LineWriter(Protocol):
    """Where lines go; called in a thread, one call after the other."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Return when the lines are as safe as they can be; a RotaError, or OSError, if none of them counts."""

    def close(self) -> None:
        """Close the writer."""


class LinesSink:
    """Lines to a writer; one shard."""

    def __init__(self, intake: Intake, writer: LineWriter, shown: str) -> None:
        self._intake, self._writer, self._shown = intake, writer, shown
        self._waiting: deque[tuple[Message, bytes]] = deque()
        self._writing = 0
        self._has_more = asyncio.Event()
        self._loop = asyncio.create_task(self._run(), name=f"sink {shown}")

    @property
    def trouble(self) -> str | None:
        return self._intake.trouble

    async def publish(self, messages: Sequence[Message]) -> None:
        await self._intake.admit(len(messages))
        for message in messages:
            try:
                self._waiting.append((message, encode(message)))
            except ValueError as error:
                self._intake.rejected(message, str(error))
        self._recount()
        self._has_more.set()

    async def flush(self) -> None:
        await self._intake.emptied()

    async def close(self) -> None:
        self._intake.close()
        self._loop.cancel()
        await asyncio.wait([self._loop])
        await asyncio.to_thread(self._writer.close)

    async def _run(self) -> None:
        patience = RetryBackoff()
        while True:
            await self._has_more.wait()
            self._has_more.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
                self._writing = len(batch)
                while error := await self._write([line for _, line in batch]):
                    self._intake.troubled(error)
                    await asyncio.sleep(patience.next())
                patience.has_worked()
                self._writing = 0
                self._intake.troubled(None)
                self._intake.confirmed([message for message, _ in batch])
                self._recount()

    async def _write(self, lines: list[bytes]) -> RotaError | None:
        """Why the lines could not be written, or None. A thread cannot be cancelled, so it is waited for."""
        write = asyncio.create_task(asyncio.to_thread(self._writer.write, lines))
        try:
            await asyncio.shield(write)
        except OSError as error:
            return Unavailable(f"sink {self._shown}: cannot write: {error.strerror}")
        except RotaError as error:
            return error
        except asyncio.CancelledError:
            await asyncio.wait([write])
            write.exception()  # the caller is gone
            raise
        return None

    def _recount(self) -> None:
        self._intake.remain(len(self._waiting) + self._writing)
