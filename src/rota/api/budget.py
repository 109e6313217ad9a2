"""The budget of a node's doors: what one caller may take of the event loop, and how many heavy views run at a time.

The loop that answers callers also runs the node. `admit` holds back a caller that has used up its share, but only while
the loop is crowded: a caller that is alone may use all of it. `timed` measures what a call costs in processor time of
the loop. A heavy view (`operations.HEAVY`) computes in a thread; `heavy` lets few of them run, one for each caller.

What is refused is `Busy`: 429 with Retry-After over HTTP, RESOURCE_EXHAUSTED over gRPC. Leases are renewed elsewhere
(`store.renewal`), and do not depend on any of this.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from rota.decide.budget import Accounts
from rota.kit.clock import SYSTEM, Clock
from rota.model.errors import RotaError

T = TypeVar("T")

CROWDED = 0.05
"""Seconds that one turn of the event loop takes when callers are held back."""

LONGEST_WAIT = 1.0
"""Seconds that a caller is held back before it is refused."""

MOST_AT_ONCE = 100
"""Calls of one caller that are answered or held back at a time."""

HEAVY_AT_ONCE = 2
"""Heavy views that run at a time on one node, each of another caller."""

HEAVY_WAITING = 4
"""Heavy views of one caller that wait for its first one."""

HEAVY_WAIT = 10.0
"""Seconds that a heavy view waits for its turn."""


class Busy(RotaError):
    """The caller asks for more than its share; wait `after` seconds and ask again."""

    exit_code = 7

    def __init__(self, sentence: str, after: float) -> None:
        super().__init__(sentence)
        self.after = max(1, math.ceil(after))


class Budget:
    """What callers have taken of one node. For one event loop."""

    def __init__(self, clock: Clock = SYSTEM, accounts: Accounts | None = None) -> None:
        self._clock, self._accounts = clock, accounts or Accounts()
        self._under_way: Counter[str] = Counter()
        self._heavy: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}
        self._places = asyncio.Semaphore(HEAVY_AT_ONCE)

    @asynccontextmanager
    async def admit(self, who: str) -> AsyncIterator[None]:
        """One call of a caller; Busy if it has too many under way, or has used up its share of a crowded loop."""
        if self._under_way[who] >= MOST_AT_ONCE:
            raise Busy(f"{MOST_AT_ONCE} calls with your token are under way at this node; wait for them", 1)
        self._under_way[who] += 1
        try:
            if wait := await self._held_back(who):
                raise Busy(
                    f"this node is busy, and your token has used up its share; wait {wait:.0f} s, or ask for less", wait
                )
            yield
        finally:
            _release(self._under_way, who)

    async def _held_back(self, who: str) -> float:
        """Wait while that is short; otherwise the seconds after which to ask again."""
        if not self._accounts.wait(who, self._clock.monotonic()):
            return 0.0
        began = time.perf_counter()
        await asyncio.sleep(0)
        if time.perf_counter() - began < CROWDED:
            return 0.0
        wait = self._accounts.wait(who, self._clock.monotonic())
        if wait > LONGEST_WAIT:
            return wait
        await asyncio.sleep(wait)
        return 0.0

    def timed(self, who: str, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """The same work; what it takes of the event loop is charged to the caller."""
        return _Timed(work, lambda cost: self._accounts.charge(who, cost, self._clock.monotonic()))

    @asynccontextmanager
    async def heavy(self, who: str) -> AsyncIterator[None]:
        """One heavy view of a caller, when it is its turn; Busy if too many wait."""
        if self._heavy[who] > HEAVY_WAITING:
            raise Busy(
                f"{HEAVY_WAITING + 1} requests with your token that take much computing are under way at this node, "
                "and it answers one at a time; wait for them",
                1,
            )
        self._heavy[who] += 1
        turn = self._turns.setdefault(who, asyncio.Lock())
        try:
            async with _within(HEAVY_WAIT, turn), _within(HEAVY_WAIT, self._places):
                yield
        finally:
            _release(self._heavy, who)
            if who not in self._heavy:
                self._turns.pop(who, None)


@asynccontextmanager
async def _within(seconds: float, place: asyncio.Lock | asyncio.Semaphore) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            await place.acquire()
    except TimeoutError:
        raise Busy(
            f"requests that take much computing wait for longer than {seconds:.0f} s here; ask later", 5
        ) from None
    try:
        yield
    finally:
        place.release()


def _release(counted: "Counter[str]", who: str) -> None:
    counted[who] -= 1
    if not counted[who]:
        del counted[who]


class _Timed(Generic[T]):
    """A coroutine that reports the processor time of each of its steps on the event loop."""

    def __init__(self, work: Coroutine[Any, Any, T], charge: Callable[[float], None]) -> None:
        self._work, self._charge = work, charge

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            began = time.thread_time()
            try:
                waits_for = step()
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._charge(time.thread_time() - began)
            try:
                step = partial(self._work.send, (yield waits_for))
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # thrown in by the task, as when it is cancelled
                step = partial(self._work.throw, error)
