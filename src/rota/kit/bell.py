"""A bell: who waits hears that it rang since they last looked, also if they were busy when it did."""

import asyncio


class Bell:
    """Rings, counted."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake everybody who waits."""
        self.count += 1
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        self._waiting = None

    async def wait(self, seen: int, timeout: float | None = None) -> int:
        """Return when it has rung more than `seen` times, or when the time is over; how often it has."""
        if self.count == seen:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_future()
            # Shielded by `wait`: one that gives up leaves the others theirs.
            await asyncio.wait([self._waiting], timeout=timeout)
        return self.count
