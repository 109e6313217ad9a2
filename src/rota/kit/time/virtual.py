"""An event loop in virtual time: when nothing is ready, the clock jumps to the next timer.

An hour of sleeping takes milliseconds, and a run is the same each time: callbacks keep asyncio's own order, and nothing
waits for the outside world. If there is nothing left to wait for, it raises Deadlock.

The loop can hold groups of callbacks back, which is how the simulator stops a process dead in its tracks: everything
started under `CallbackGroup.enter` belongs to that group, and so does what that starts in turn. A frozen group runs
nothing, not even its time-outs, until it thaws; a crashed one never runs again, and its `finally` blocks do not either.
"""

import asyncio
import contextvars
import reprlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar, TypeVar

import msgspec

T = TypeVar("T")

_group: contextvars.ContextVar["CallbackGroup | None"] = contextvars.ContextVar("group", default=None)


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: this would wait without end."""


class CallbackGroup:
    """Callbacks that are held back together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self._held: list[Callable[[], None]] = []

    @contextmanager
    def enter(self) -> Iterator[None]:
        """What is scheduled inside belongs to this group."""
        token = _group.set(self)
        try:
            yield
        finally:
            _group.reset(token)

    def freeze(self) -> None:
        """Stop running anything, until `thaw`."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Run on, beginning with what came due meanwhile."""
        self.is_frozen = False
        held, self._held = self._held, []
        for schedule in held:
            schedule()

    def hold(self, schedule: Callable[[], None]) -> None:
        """Keep a callback back until `thaw`."""
        self._held.append(schedule)


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a clock that jumps.

    Simulations make millions of timers, so they are kept as lean as they can be: a handle knows its group itself, and
    the heap compares numbers. Sockets are never looked at: in virtual time there is no outside world to wait for.
    """

    _ready: deque["VirtualHandle"]  # asyncio's own
    _stopping: bool

    get_debug = staticmethod(bool)  # False: each future asks, and this needs no frame

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        """The same as `time`, as an attribute, because simulations read it often."""

        self._timers: list[tuple[float, int, VirtualHandle]] = []
        self._numbers = count()
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]  # a frame less

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]  # typeshed types the arguments by TypeVarTuple; they only pass through
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> "VirtualHandle":
        if context is None:
            context = contextvars.copy_context()
        handle = VirtualHandle(self.now, callback, args, context, context.get(_group))
        self._ready.append(handle)
        return handle

    def _call_soon(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> "VirtualHandle":
        """How asyncio takes what comes from other threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> "VirtualHandle":
        if context is None:
            context = contextvars.copy_context()
        when = self.now + delay
        handle = VirtualHandle(when, callback, args, context, context.get(_group))
        heappush(self._timers, (when, next(self._numbers), handle))  # as `call_at`, but this is called for every sleep
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> "VirtualHandle":
        if context is None:
            context = contextvars.copy_context()
        handle = VirtualHandle(when, callback, args, context, context.get(_group))
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def _run_once(self) -> None:
        """Turn until it is to stop. A turn jumps if nothing is ready, and runs what is; what that makes ready waits."""
        ready, timers = self._ready, self._timers
        while True:
            if not ready and not self._stopping:  # go to the time of the next timer that is for something
                while timers and timers[0][2].is_cancelled:
                    heappop(timers)
                if not timers:
                    raise Deadlock("nothing is ready and no timer is set")
                self.now = max(self.now, timers[0][0])
            now = self.now
            while timers and timers[0][0] <= now:
                ready.append(heappop(timers)[2])
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle.is_cancelled:
                    continue
                group = handle.group
                if group is not None and group.is_frozen:
                    group.hold(partial(ready.append, handle))
                    continue
                try:
                    handle.context.run(handle.callback, *handle.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self._report(handle, error)
            if self._stopping:
                return

    def _report(self, handle: "VirtualHandle", error: BaseException) -> None:
        """Report an exception that no callback caught to the loop's handler."""
        name = getattr(handle.callback, "__qualname__", None) or repr(handle.callback)
        message = f"Exception in callback {name}({', '.join(map(reprlib.repr, handle.args))})"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})


class VirtualHandle(msgspec.Struct, eq=False):
    """A callback, now or at a time. That of a frozen group waits for the thaw; cancelling it counts meanwhile too.

    It can what asyncio's own handles can; a struct is made in a quarter of the time.
    """

    at: float
    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: contextvars.Context
    group: CallbackGroup | None
    is_cancelled: bool = False
    _source_traceback: ClassVar[None] = None  # asyncio looks for where it was made

    def when(self) -> float:
        """The time it is for."""
        return self.at

    def cancelled(self) -> bool:
        """Was it cancelled?"""
        return self.is_cancelled

    def cancel(self) -> None:
        """Cancel it; its entry in the heap is dropped when its time comes."""
        self.is_cancelled = True


def virtual_loop() -> VirtualLoop:
    """The loop that runs, where that is known to be a virtual one."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main`, run in virtual time from 0."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


_left: list[VirtualLoop] = []


def run_and_leave(main: Coroutine[Any, Any, T]) -> T:
    """As `run`, but everything that still waits is abandoned: for a process that ends soon."""
    loop = VirtualLoop()
    _left.append(loop)  # otherwise objects in no cycle would be freed now, one by one
    return loop.run_until_complete(main)
