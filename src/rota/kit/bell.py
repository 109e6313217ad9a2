"""A bell: who waits hears that it rang since they last looked, also if they were busy when it did."""

import asyncio


class Bell:
    """Rings, counted."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Wake everybody who waits."""
        self.count += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            _wake(each)

    async def wait(self, seen: int, timeout: float | None = None) -> int:
        """Return when it has rung more than `seen` times, or when the time is over; how often it has."""
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
