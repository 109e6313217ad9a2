"""The budget of a node's doors: what one caller may take of the event loop, and how many heavy views run at a time.

The loop that answers callers also runs the node. `admit` holds back a caller that has used up its share, but only while
the loop is crowded: a caller that is alone may use all of it. `timed` measures what a call costs in processor time of
the loop, and paces it: in one turn of the loop all calls together get `TURN`, and those that come later go on in the
next turn, so that probes and the node's own work get their turn however many calls there are. A heavy view
(`verbs.HEAVY`) computes in a thread; `heavy` lets few of them run, one for each caller.

What is refused is `Busy`: 429 with Retry-After over HTTP, RESOURCE_EXHAUSTED over gRPC. Leases are renewed elsewhere
(`store.leases.renewal`), and do not depend on any of this.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from rota.doors.guard.account import Accounts
from rota.kit import collector
from rota.kit.time.clock import SYSTEM, Clock
from rota.model.errors import RotaError

T = TypeVar("T")

TURN = 0.02
"""Seconds that all calls together get in one turn of the event loop."""

CROWDED = 0.02
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
    code = "too_many_requests"

    def __init__(self, sentence: str, after: float) -> None:
        super().__init__(sentence)
        self.after = max(1, math.ceil(after))


class CallerBudget:
    """What callers have taken of one node. For one event loop."""

    def __init__(self, clock: Clock = SYSTEM, accounts: Accounts | None = None) -> None:
        self._clock, self._accounts = clock, accounts or Accounts()
        self._under_way: Counter[str] = Counter()
        self._heavy: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}
        self._places = asyncio.Semaphore(HEAVY_AT_ONCE)
        self._spent = 0.0
        """Seconds used in the present turn of the loop."""

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
        """The same work, paced; what it takes of the event loop is charged to the caller.

        Tasks that it starts are paced with it if they are `paced`.
        """
        return _Timed(work, _Payer(self, who))

    @property
    def is_turn_over(self) -> bool:
        """Have the calls had their part of this turn of the event loop?"""
        return self._spent >= TURN

    def charge(self, who: str, cost: float) -> None:
        """Charge a step of a caller's work."""
        self._accounts.charge(who, cost, self._clock.monotonic())
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._spent += max(cost, 1e-9)

    def _begin_turn(self) -> None:
        self._spent = 0.0

    @asynccontextmanager
    async def heavy(self, who: str) -> AsyncIterator[None]:
        """Run one heavy view of a caller when it is its turn; Busy if too many wait."""
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


class _Payer(msgspec.Struct, frozen=True):
    """Whose work runs, and where that is counted."""

    budget: CallerBudget
    who: str

    def charge(self, cost: float) -> None:
        self.budget.charge(self.who, cost)


_PAYER: ContextVar[_Payer | None] = ContextVar("payer", default=None)


def payer() -> str:
    """Whose call runs; empty outside of any."""
    found = _PAYER.get()
    return found.who if found else ""


def paced(work: Awaitable[T]) -> Awaitable[T]:
    """Work for a task of its own, paced and charged as the call that starts it; as it is outside of any."""
    found = _PAYER.get()
    return work if found is None else _Timed(work, found)


class Steps(Protocol):
    """What coroutines and the next items of asynchronous generators can do."""

    def send(self, value: Any, /) -> Any: ...

    def throw(self, error: BaseException, /) -> Any: ...

    def close(self) -> None: ...


class _Timed(Generic[T]):
    """A coroutine that waits for its turn, and reports the processor time of each of its steps on the event loop."""

    def __init__(self, work: Awaitable[T], payer: _Payer) -> None:
        self._work, self._payer = cast(Steps, work), payer

    def __del__(self) -> None:
        self._work.close()  # it was cancelled before its first step; otherwise it has ended, and nothing is closed

    def __await__(self) -> Generator[Any, Any, T]:
        _PAYER.set(self._payer)  # for the tasks that it starts; this one's context ends with the call
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            try:
                while self._payer.budget.is_turn_over:
                    yield  # until the next turn of the loop
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # thrown in by the task, for example when it is cancelled
                step = partial(self._work.throw, error)
            began = time.thread_time()
            try:
                with collector.paused():  # a large body that is read and refused within a step is never looked at
                    waits_for = step()
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._payer.charge(time.thread_time() - began)
            try:
                step = partial(self._work.send, (yield waits_for))
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:
                step = partial(self._work.throw, error)
