"""Calls that an event loop in one thread asks for and another thread makes: a user's sync function keeps the main
thread.

Its libraries may insist on the thread in which a worker's start hooks ran, and its loops leave the event loop free. One
call is made at a time. A cancelled caller gets no result; the call itself continues to its end.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

Outcome = tuple[Any, Exception | None]
"""What a call returned, or what it raised. As a value: a future refuses some exceptions."""


class Calls:
    """Carries calls from the one thread to the other."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Outcome]] | None] = SimpleQueue()

    async def make(self, function: Callable[[], Any]) -> Any:
        """The function's return value; it is called in the thread that runs `serve`."""
        answer: Future[Outcome] = Future()
        self._asked.put((function, answer))
        made, error = await asyncio.wrap_future(answer)
        if error is not None:
            raise error
        return made

    def serve(self) -> None:
        """Make calls until `end`."""
        while (asked := self._asked.get()) is not None:
            function, answer = asked
            if answer.set_running_or_notify_cancel():
                answer.set_result(_outcome(function))

    def end(self) -> None:
        """Let `serve` return once its call is over."""
        self._asked.put(None)


def _outcome(function: Callable[[], Any]) -> Outcome:
    try:
        return function(), None
    except Exception as error:  # whatever a user's function raises: the caller gets it
        return None, error
