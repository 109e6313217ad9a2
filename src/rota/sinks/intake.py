"""The intake: the way into a sink, the same for every adapter.

It counts what is under way, makes `publish` wait for room and `flush` for the end, first come, first served, and
reports outcomes. An adapter calls `admit` before it takes a batch, and `remain` when messages have left its windows.
"""

import asyncio
import logging
from collections.abc import Sequence

from rota.model.errors import Denied, Invalid, RotaError
from rota.sinks.port import Message, Outcomes

log = logging.getLogger(__name__)


class Intake:
    """The messages under way, and the callers that wait."""

    def __init__(self, name: str, window: int, outcomes: Outcomes) -> None:
        self.window = window
        self.under_way = 0
        self.trouble: str | None = None
        """Why nothing can be delivered at the moment."""
        self._name, self._outcomes = name, outcomes
        self._refusal: RotaError | None = None
        self._is_closed = False
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    async def admit(self, count: int) -> None:
        """Return once `count` more may be under way, and count them in; Invalid if they never may."""
        if count > self.window:
            raise Invalid(f"sink {self._name}: a batch of {count} messages; at most window={self.window} go at a time")
        async with self._turn:
            await self._until(self.window - count)
            self.under_way += count

    async def emptied(self) -> None:
        """Return once nothing is under way; no message is admitted meanwhile."""
        async with self._turn:
            await self._until(0)

    def confirmed(self, messages: Sequence[Message]) -> None:
        """The server has these."""
        if messages and not self._is_closed:
            self._outcomes.confirmed(messages)

    def rejected(self, message: Message, why: str) -> None:
        """This one can never be delivered."""
        if not self._is_closed:
            self._outcomes.rejected(message, why)

    def remain(self, count: int) -> None:
        """Set how many are still in the adapter's windows."""
        self.under_way = count
        self._changed.set()

    def troubled(self, error: RotaError | None) -> None:
        """Note why nothing can be delivered, or None once it can. Waiting callers get an error that will not pass by
        itself."""
        before, self.trouble = self.trouble, str(error) if error else None
        self._refusal = error if isinstance(error, Denied | Invalid) else None
        self._changed.set()
        if self.trouble and self.trouble != before:
            log.warning("sink in trouble", extra={"sink": self._name, "why": self.trouble, "under_way": self.under_way})
        elif before and not self.trouble:
            log.info("sink works again", extra={"sink": self._name, "under_way": self.under_way})

    def close(self) -> None:
        """Report nothing more; waiting callers get an error."""
        self._is_closed = True
        self._changed.set()

    async def _until(self, most: int) -> None:
        """Return once at most `most` are under way."""
        while True:
            self._check()
            if self.under_way <= most:
                return
            self._changed.clear()
            await self._changed.wait()

    def _check(self) -> None:
        if self._is_closed:
            raise Invalid(f"sink {self._name} is closed; open it again")
        if self._refusal is not None:
            raise type(self._refusal)(*self._refusal.args) from self._refusal
