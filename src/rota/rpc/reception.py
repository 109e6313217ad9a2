"""Reception: what every adapter does on the answering side, between its transport and the node's handler.

It refuses what is meant for another node, drops reports that come late, asks the handler once for each start, and cuts
logs into chunks. What the handler is asked runs in tasks of the reception, in the context it was made in: a caller that
gives up does not stop a start half-way, and in the simulator a frozen node answers nobody.

Starts are remembered up to `REMEMBERED` of them, the latest; older ones have long been answered. The sequences of as
many sessions are.
"""

import asyncio
import contextvars
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Coroutine, Hashable, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, Revision, SessionId
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Chunk,
    Control,
    NotLeader,
    Presence,
    Refused,
    Report,
    Start,
    Whom,
)
from rota.rpc import handover, rules
from rota.rpc.handover import Duplex
from rota.rpc.port import Handler, NotMe, OtherMap, StaleEpoch
from rota.rpc.settings import LinkSettings

log = logging.getLogger(__name__)

REMEMBERED = 2_000
"""How many starts, and how many sessions' sequences, are kept in mind."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class Latest(Generic[K, V]):
    """The values of the keys that were set last; older ones are forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def get(self, key: K) -> V | None:
        """The value, or None."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Set a value, and forget the one that was set longest ago if there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def drop(self, key: K, value: V) -> None:
        """Forget a value, unless there is another by now."""
        if self._values.get(key) is value:
            del self._values[key]


class _Begun:
    """A start that was handed on, under its epoch."""

    def __init__(self, epoch: Revision, answer: "asyncio.Task[Accepted | Refused]") -> None:
        self.epoch, self.answer = epoch, answer


class Reception:
    """The door of one node."""

    def __init__(self, handler: Handler, settings: LinkSettings) -> None:
        self._handler, self._settings = handler, settings
        self._context = contextvars.copy_context()
        self._sequences: Latest[tuple[NodeId, SessionId], int] = Latest(REMEMBERED)
        self._starts: Latest[AttemptId, _Begun] = Latest(REMEMBERED)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._streams: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def check(self, meant: Whom | None) -> Presence:
        """Who we are; NotMe if that is not who was meant."""
        self._check_open()
        presence = self._handler.presence()
        if meant is not None and not meant.is_met_by(presence):
            raise NotMe(meant, presence.node, presence.session)
        return presence

    def report(self, meant: Whom | None, report: Report) -> NotLeader | None:
        """Hand a report on, unless a later one was there before."""
        self.check(meant)
        rules.check_report(report)
        session = (report.node, report.session)
        if report.sequence <= (self._sequences.get(session) or 0):
            log.debug("late report dropped", extra={"node": report.node, "sequence": report.sequence})
            return None
        self._sequences.put(session, report.sequence)
        return self._handler.report(report)

    async def dispatch(self, meant: Whom | None, start: Start) -> Accepted | Refused:
        """The answer to a start, now or the one it got before."""
        self.check(meant)
        rules.check_start(start)
        begun = self._starts.get(start.attempt)
        if begun is None or begun.epoch < start.epoch:
            begun = _Begun(start.epoch, self.begin(self._handler.dispatch(start), "dispatch"))
            self._starts.put(start.attempt, begun)
            begun.answer.add_done_callback(partial(self._forget_failed, start.attempt, begun))
        elif start.epoch < begun.epoch:
            raise StaleEpoch(str(start.attempt), start.epoch, begun.epoch)
        return await self._answer(begun.answer)

    async def dispatch_many(self, meant: Whom | None, starts: Sequence[Start]) -> list[Accepted | Refused]:
        """The answers to starts that came together."""
        self.check(meant)
        rules.check_starts(starts)
        return await asyncio.gather(*(self._dispatch_one(meant, start) for start in starts))

    async def _dispatch_one(self, meant: Whom | None, start: Start) -> Accepted | Refused:
        try:
            return await self.dispatch(meant, start)
        except Unknown:
            raise
        except RotaError as error:
            return Refused(why=str(error))

    async def control(self, meant: Whom | None, control: Control) -> bool:
        """Whether the handler knows what is to be controlled."""
        self.check(meant)
        rules.check_control(control)
        return await self._answer(self.begin(self._handler.control(control), "control"))

    async def hand_over(self, meant: Whom | None, source: NodeId, relay_map: int, stream: Duplex[int, Batch]) -> None:
        """Take batches from a stream and ack them, until it ends."""
        rules.check_hand_over(source, relay_map)
        self._check_map(meant, relay_map)

        def take(batch: Batch) -> asyncio.Task[None]:
            self._check_map(meant, relay_map)  # the map may change in mid-stream, and so may our session
            return self.begin(self._handler.hand_over(source, batch), "hand over")

        await self._stream(handover.receive(stream, take, self._settings.window))

    async def follow_log(self, meant: Whom | None, attempt: AttemptId, offset: int, stream: Duplex[Chunk, Any]) -> None:
        """Send a log down a stream, until it ends."""
        self.check(meant)
        rules.check_attempt(attempt, offset)
        await self._stream(self._send_log(attempt, offset, stream))

    def begin(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """Start work that is ours, whoever asked for it."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name=name, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self, grace: timedelta) -> None:
        """Take nothing new, end the streams, give what is under way `grace`, then end it too."""
        self._is_closing = True
        for stream in self._streams:
            stream.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace.total_seconds())
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _answer(self, task: "asyncio.Task[T]") -> T:
        """What a task returns; it goes on if its caller does not wait for it."""
        await asyncio.wait({task})
        if task.cancelled():
            raise Unknown(f"node {self._handler.presence().node} stopped before it was done; read before you repeat it")
        return task.result()

    async def _stream(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a stream's work until it ends, its caller goes, or we close."""
        stream = self.begin(work, "stream")
        self._streams.add(stream)
        try:
            await asyncio.wait({stream})
        finally:
            self._streams.discard(stream)
            stream.cancel()
        if stream.cancelled():
            raise self._stopping()
        stream.result()

    async def _send_log(self, attempt: AttemptId, offset: int, stream: Duplex[Chunk, Any]) -> None:
        async with aclosing(self._cut(attempt, offset)) as chunks:
            async for chunk in chunks:
                await stream.send(chunk)

    async def _cut(self, attempt: AttemptId, offset: int) -> AsyncGenerator[Chunk, None]:
        async with aclosing(self._handler.follow_log(attempt, offset)) as pieces:
            async for piece in pieces:
                for start in range(0, len(piece), rules.MOST_CHUNK):
                    chunk = Chunk(offset, piece[start : start + rules.MOST_CHUNK])
                    offset += len(chunk.data)
                    yield chunk

    def _check_map(self, meant: Whom | None, relay_map: int) -> None:
        current = self.check(meant).relay_map
        if relay_map != current:
            raise OtherMap(relay_map, current)

    def _check_open(self) -> None:
        if self._is_closing:
            raise self._stopping()

    def _stopping(self) -> Unavailable:
        return Unavailable(f"node {self._handler.presence().node} is stopping; ask another, or again later")

    def _forget_failed(self, attempt: AttemptId, begun: _Begun, answer: "asyncio.Task[Any]") -> None:
        """An error is no answer: the next who asks makes a new try."""
        if answer.cancelled() or answer.exception() is not None:
            self._starts.drop(attempt, begun)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, RotaError):
            log.error("a handler of the node link failed", exc_info=error, extra={"work": task.get_name()})
