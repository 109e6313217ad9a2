"""Group commit: commits that are wanted at the same time share one transaction.

A transaction costs a few round trips and a sync of the disk, whatever is in it. While one is under way the next
commits gather, and then go together, each under its own revision and with its own outcome. A commit that comes alone
goes at once; nothing ever waits for company.

A caller that is cancelled takes only its own request back. What was sent already may still happen, as ever.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Revision
from rota.store.sql.transactions import Outcome, Request

MOST = 64
"""Requests in one transaction."""

MOST_BYTES = 2 * 1024 * 1024
"""Roughly how much they may hold together: databases refuse very large statements."""

Write = Callable[[Sequence[Request]], Awaitable[list[Outcome]]]


class Committer:
    """Sends requests in groups, one group at a time."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: deque[tuple[Request, asyncio.Future[Revision]]] = deque()
        self._is_busy = False
        self._sending: asyncio.Task[None] | None = None

    async def commit(self, request: Request) -> Revision:
        """The revision the request got; its own error if it was refused."""
        if self._is_busy:
            future: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()
            self._waiting.append((request, future))
            return await future
        self._is_busy = True
        try:
            (outcome,) = await self._write([request])
        finally:
            self._go_on()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Stop sending; what still waits was never sent."""
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(Unavailable("store: closed; open it again"))
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])

    def _go_on(self) -> None:
        """Send what gathered meanwhile, in a task of its own: whoever was first is done."""
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._sending = asyncio.create_task(self._send(), name="group commit")

    async def _send(self) -> None:
        try:
            group = self._take()
            if group:
                await self._send_group(group)
        finally:
            self._go_on()

    async def _send_group(self, group: Sequence[tuple[Request, asyncio.Future[Revision]]]) -> None:
        outcomes: Sequence[Outcome | Exception]
        try:
            outcomes = await self._write([request for request, _ in group])
        except asyncio.CancelledError:
            outcomes = [Unknown("store: closed while this commit was under way; read again")] * len(group)
        except Exception as error:  # whatever it is, those who wait must hear of it
            outcomes = [error] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _take(self) -> list[tuple[Request, asyncio.Future[Revision]]]:
        """The next group: requests that are still wanted, in the order they came."""
        group: list[tuple[Request, asyncio.Future[Revision]]] = []
        size = 0
        while self._waiting and len(group) < MOST and size < MOST_BYTES:
            request, future = self._waiting.popleft()
            if not future.done():
                group.append((request, future))
                size += sum(len(getattr(write, "value", b"")) for write in request.writes)
        return group
