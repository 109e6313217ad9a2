"""Reception: what every adapter does on the answering side, between its transport and the node's handler.

It refuses what is meant for another node, calls the handler once for each start, and limits the size of a piece of a
log. The handler's calls run in tasks of the reception, in the context it was made in: a caller that gives up does not
stop a start half-way, and in the simulator a frozen node does not answer.

The latest `REMEMBERED` starts are remembered; older ones have long been answered.
"""

import asyncio
import contextvars
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Hashable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from rota.link import rules
from rota.link.port import NodeHandler, NotMe
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Presence, StartAttempt, Whom
from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.ids import Revision

log = logging.getLogger(__name__)

REMEMBERED = 2_000
"""How many starts are remembered."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class Latest(Generic[K, V]):
    """The values of the keys that were set last; older ones are forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

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
    """A start that was passed to the handler, with its epoch."""

    def __init__(self, epoch: Revision, answer: "asyncio.Task[Accepted | AttemptRefused]") -> None:
        self.epoch, self.answer = epoch, answer


class Reception:
    """The door of one node."""

    def __init__(self, handler: NodeHandler) -> None:
        self._handler = handler
        self._context = contextvars.copy_context()
        self._starts: Latest[AttemptId, _Begun] = Latest(REMEMBERED)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    def check(self, meant: Whom | None) -> Presence:
        """The node's presence; NotMe if the call was meant for another node or session."""
        if self._is_closing:
            raise self._stopping()
        presence = self._handler.presence()
        if meant is not None and not meant.is_met_by(presence):
            raise NotMe(meant, presence.node, presence.session)
        return presence

    async def dispatch_many(
        self, meant: Whom | None, starts: Sequence[StartAttempt]
    ) -> list[Accepted | AttemptRefused]:
        """The answers to starts, now or those they got before."""
        self.check(meant)
        rules.check_starts(starts)
        return await asyncio.gather(*map(self._dispatch, starts))

    async def read_log(self, meant: Whom | None, attempt: AttemptId, offset: int) -> LogPiece:
        """Read a piece of a log of this node."""
        self.check(meant)
        rules.check_attempt(attempt, offset)
        reading = self._begin(self._handler.read_log(attempt, offset), "read log")
        await asyncio.wait({reading})
        if reading.cancelled():
            raise self._stopping()
        piece = reading.result()
        data = piece.data[: rules.MOST_CHUNK]
        return LogPiece(data, piece.is_last and len(data) == len(piece.data))

    async def close(self, grace: timedelta) -> None:
        """Take nothing new, give what is under way `grace`, then end it too."""
        self._is_closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace.total_seconds())
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _dispatch(self, start: StartAttempt) -> Accepted | AttemptRefused:
        begun = self._starts.get(start.attempt)
        if begun is None or begun.epoch < start.epoch:
            begun = _Begun(start.epoch, self._begin(self._handler.dispatch(start), "dispatch"))
            self._starts.put(start.attempt, begun)
            begun.answer.add_done_callback(partial(self._forget_failed, start.attempt, begun))
        elif start.epoch < begun.epoch:
            why = f"epoch {start.epoch} is over, the present one is {begun.epoch}; read its assignment again"
            return AttemptRefused(why=f"{start.attempt}: {why}")
        await asyncio.wait({begun.answer})  # it continues even if its caller stops waiting
        if begun.answer.cancelled():
            raise Unknown(f"node {self._handler.presence().node} stopped before it was done; read before you repeat it")
        try:
            return begun.answer.result()
        except Unknown:
            raise
        except RotaError as error:
            return AttemptRefused(why=str(error))

    def _begin(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """Start a task that belongs to the reception, not to the caller."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name=name, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _stopping(self) -> Unavailable:
        return Unavailable(f"node {self._handler.presence().node} is stopping; ask another, or again later")

    def _forget_failed(self, attempt: AttemptId, begun: _Begun, answer: "asyncio.Task[Any]") -> None:
        """Forget a failed start: the next request tries again."""
        if answer.cancelled() or answer.exception() is not None:
            self._starts.drop(attempt, begun)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, RotaError):
            log.error("a handler of the node link failed", exc_info=error, extra={"work": task.get_name()})
