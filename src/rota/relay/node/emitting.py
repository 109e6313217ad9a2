"""How a worker emits: its outbox, and its present line to the relay.

The agent sends the line over the worker's channel, and a new one whenever the relay process is replaced; tasks do not
notice. `emit` returns when the messages are in the outbox, and waits while that is full. What was not acked on one line
is handed over again on the next. An ack says which messages were rejected: `emit` raises that if it waits for their
confirmation; else only the relay counts them.

Lives in one event loop. Workers of sync code have a thread with a loop for it (`EmitterThread`).
"""

import asyncio
import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from rota.kit.time.clock import SYSTEM, Clock
from rota.model.errors import Rejected
from rota.relay.core.held import Emission
from rota.relay.core.outbox import Outbox, Outgoing
from rota.relay.process.wire import (
    BATCH,
    BATCH_BYTES,
    UNSENT,
    AckFrame,
    Any_,
    BatchFrame,
    FrameConnection,
    OpeningFrame,
)
from rota.runtime.pipes.brief import Emitting

PING = 1.0
"""Seconds between batches at most: the relay must know the age of the messages that this worker holds."""


class Emitter:
    """Hands the messages of a worker's tasks over to the relay."""

    def __init__(self, terms: Emitting, lost: Callable[[], None], clock: Clock = SYSTEM) -> None:
        """`lost` is called when the line breaks, to ask the agent for another."""
        self._terms, self._line_lost, self._clock = terms, lost, clock
        self._outbox = Outbox(terms.messages, terms.bytes)
        self._wire: FrameConnection | None = None
        self._is_due = False
        self._told = clock.monotonic()
        self._waiting: deque[asyncio.Future[None]] = deque()
        """The callers of `emit` that wait for room."""

        self._confirming: deque[tuple[int, asyncio.Future[None]]] = deque()
        """The callers that wait for the ack of a message, by its number."""

        self._awaited: dict[int, tuple[int, dict[int, str]]] = {}
        """Numbers of messages whose outcome an `emit` waits for → their place in its list, and where to note a refusal.
        """

    @property
    def held(self) -> int:
        """Messages that have no ack."""
        return self._outbox.held

    async def emit(self, emissions: list[Emission], confirm: int) -> None:
        """Take the messages, waiting for room; the first `confirm` of them are safe when this returns.

        Raises Rejected if some of those can never be delivered; the others are safe then.
        """
        refusals: dict[int, str] = {}
        awaited: list[int] = []
        try:
            for place, emission in enumerate(emissions):
                await self._until_room()
                number = self._outbox.put(emission, self._clock.monotonic())
                if place < confirm:
                    self._awaited[number] = place, refusals
                    awaited.append(number)
            self._hand_over_soon()
            if awaited:
                await self._acked(awaited[-1])
        finally:
            for number in awaited:
                del self._awaited[number]
        if refusals:
            raise Rejected(refusals, len(emissions))

    def connect(self, sock: socket.socket) -> None:
        """Use this line from now on."""
        if self._wire is not None:
            self._wire.close()
        self._outbox.broke()
        wire = self._wire = FrameConnection(sock, self._heard, self._lost)
        wire.on_room = self._hand_over
        wire.send(OpeningFrame(self._outbox.age(self._clock.monotonic())))
        self._hand_over()

    async def run(self) -> None:
        """Report the age of the oldest message to the relay at least each second, until cancelled."""
        while True:
            await asyncio.sleep(PING)
            self._hand_over()
            now = self._clock.monotonic()
            if self._wire is not None and now - self._told >= PING * 0.9 and self._wire.unsent == 0:
                self._send(self._outbox.ping())

    async def flush(self) -> int:
        """Wait until everything is acked, not longer than the terms say; returns how many messages are not."""
        if self.held:
            self._hand_over()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._terms.flush):
                    await self._acked(self._outbox.put_count)
        return self.held

    def close(self) -> None:
        """Let go of the line."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    # Handing over

    def _hand_over_soon(self) -> None:
        """Hand over once all that is emitted in this turn of the loop; at once if it is a large batch already."""
        if self._outbox.unsent >= BATCH:
            self._hand_over()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._is_due = False
        while self._wire is not None and self._wire.unsent < UNSENT:
            batch = self._outbox.take(BATCH, BATCH_BYTES)
            if batch is None:
                return
            self._send(batch)

    def _send(self, batch: Outgoing) -> None:
        assert self._wire is not None
        self._told = self._clock.monotonic()
        self._wire.send(BatchFrame(batch.sequence, self._outbox.age(self._told), tuple(batch.emissions)))

    def _heard(self, record: Any_) -> None:
        if isinstance(record, AckFrame):
            for number, why in self._outbox.acked(record.sequence, record.refused).items():
                if number in self._awaited:
                    place, refusals = self._awaited[number]
                    refusals[place] = why
            self._wake()

    def _lost(self) -> None:
        """The relay is gone; the agent sends another line."""
        self._wire = None
        self._outbox.broke()
        self._line_lost()

    # Waiting

    async def _until_room(self) -> None:
        while not self._outbox.has_room:
            self._hand_over()
            if not self._outbox.has_room:
                room = asyncio.get_running_loop().create_future()
                self._waiting.append(room)
                await room

    async def _acked(self, number: int) -> None:
        """Return when the message of that number has its outcome."""
        acked = asyncio.get_running_loop().create_future()
        self._confirming.append((number, acked))
        await acked

    def _wake(self) -> None:
        acked = self._outbox.acked_count
        while self._confirming and self._confirming[0][0] <= acked:
            _settle(self._confirming.popleft()[1])
        if self._waiting and self._outbox.has_room:
            waiting, self._waiting = self._waiting, deque()
            for room in waiting:
                _settle(room)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():  # the waiting caller may have been cancelled
        future.set_result(None)


class EmitterThread:
    """An emitter in a thread with a loop of its own, for a worker whose main thread runs sync code."""

    def __init__(self, terms: Emitting, lost: Callable[[], None]) -> None:
        self.emitter = Emitter(terms, lost)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rota", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine returns that runs in the other thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def connect(self, sock: socket.socket) -> None:
        """Use this line from now on; closed at once if the thread has ended."""
        try:
            self._loop.call_soon_threadsafe(self.emitter.connect, sock)
        except RuntimeError:
            sock.close()

    def flush(self) -> int:
        """Wait until everything is acked, not longer than the terms say; returns how many messages are not."""
        return int(self.call(self.emitter.flush()))

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        running = self._loop.create_task(self.emitter.run())
        try:
            self._loop.run_forever()
        finally:
            running.cancel()
            self._loop.run_until_complete(asyncio.wait([running]))
            self.emitter.close()
            self._loop.close()
