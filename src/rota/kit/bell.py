"""A bell: a waiter learns that it rang since its last look, even if it was busy at the time."""

import asyncio


class Bell:
    """Rings, counted."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Wake all waiters."""
        self.count += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            _wake(each)

    async def wait(self, seen: int, timeout: float | None = None) -> int:
        """Return when it has rung more than `seen` times, or after the time-out; returns how often it has rung."""
        if self.count != seen:
            return self.count
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.append(waiter)
        # A future and a timer of one's own: `asyncio.wait` takes far longer, and this is waited for often.
        over = None if timeout is None else loop.call_later(timeout, _wake, waiter)
        try:
            await waiter
        finally:
            if over is not None:
                over.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        return self.count


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
