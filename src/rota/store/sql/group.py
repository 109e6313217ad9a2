"""Group commit: commits that are wanted at the same time share one transaction.

A transaction costs a few round trips and a sync of the disk, whatever its size. While one is under way the next commits
are collected, and then sent together, each under its own revision and with its own outcome. A single commit is sent at
once; none is ever delayed to wait for others.

A cancelled caller withdraws only its own request. A request that was sent already may still be carried out.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.ids import Revision
from rota.store.sql.transactions import CommitRequest, Outcome

MOST = 64
"""Requests in one transaction."""

MOST_BYTES = 2 * 1024 * 1024
"""Roughly how many bytes they may have together: databases refuse very large statements."""

Write = Callable[[Sequence[CommitRequest]], Awaitable[list[Outcome]]]


class QueuedRequest:
    """A request that waits for its turn, and for its outcome."""

    def __init__(self, request: CommitRequest) -> None:
        self.request = request
        self.future: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Outcome | Exception) -> None:
        """Give the outcome to the caller, if it still waits."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class GroupCommitter:
    """Sends requests in groups, one group at a time."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: deque[QueuedRequest] = deque()
        self._is_busy = False
        self._sending: asyncio.Task[None] | None = None

    async def commit(self, request: CommitRequest) -> Revision:
        """The revision the request got; its own error if it was refused."""
        if self._is_busy:
            waiting = QueuedRequest(request)
            self._waiting.append(waiting)
            return await waiting.future
        self._is_busy = True
        try:
            (outcome,) = await self._write([request])
        except RotaError as error:
            self._refuse_waiting(error)
            raise
        finally:
            self._go_on()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Stop sending."""
        self._refuse_waiting(Unavailable("store: closed; open it again"))
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])

    def _refuse_waiting(self, error: RotaError) -> None:
        """Fail the waiting requests: the store is away, and each would only wait as long again. None of them was
        sent."""
        told = Unavailable(str(error)) if isinstance(error, Unknown) else error
        while self._waiting:
            self._waiting.popleft().settle(told)

    def _go_on(self) -> None:
        """Send what was collected meanwhile, in a task of its own: the caller that sent the first group is done."""
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._sending = asyncio.create_task(self._send(), name="group commit")

    async def _send(self) -> None:
        group = self._take()
        outcomes: Sequence[Outcome | Exception] = []
        try:
            if group:
                outcomes = await self._write([waiting.request for waiting in group])
        except asyncio.CancelledError:
            outcomes = [Unknown("store: closed while this commit was under way; read again")] * len(group)
        except RotaError as error:
            outcomes = [error] * len(group)
            self._refuse_waiting(error)
        except Exception as bug:  # the waiting callers must get the error
            outcomes = [bug] * len(group)
        finally:
            self._go_on()
        for waiting, outcome in zip(group, outcomes, strict=True):
            waiting.settle(outcome)

    def _take(self) -> list[QueuedRequest]:
        """The next group: requests whose callers still wait, in order of arrival."""
        group: list[QueuedRequest] = []
        size = 0
        while self._waiting and len(group) < MOST and size < MOST_BYTES:
            waiting = self._waiting.popleft()
            if not waiting.future.done():
                group.append(waiting)
                size += sum(len(getattr(write, "value", b"")) for write in waiting.request.writes)
        return group
