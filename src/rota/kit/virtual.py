"""An event loop in virtual time: when nothing is ready, the clock jumps to the next timer.

An hour of sleeping takes milliseconds, and a run is the same each time: callbacks keep asyncio's own order, and
nothing waits for the outside world. If there is nothing left to wait for, that is a deadlock and said so.

The loop can hold groups of callbacks back, which is how the simulator stops a process dead in its tracks: everything
started under `Group.enter` belongs to that group, and so does what that starts in turn. A frozen group runs nothing,
not even its time-outs, until it thaws; a crashed one never runs again, and its `finally` blocks do not either.
"""

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_group: contextvars.ContextVar["Group | None"] = contextvars.ContextVar("group", default=None)


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: this would wait for ever."""


class Group:
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
        """Keep something back for `thaw`."""
        self._held.append(schedule)


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a clock that jumps."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumping(self._jump))

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # typeshed types the arguments by TypeVarTuple; they only pass through
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        group = _group_of(context)
        if group is None:
            return super().call_soon(callback, *args, context=context)
        gate = _Gate(self, group, callback, args, context)
        gate.handle = super().call_soon(gate, context=context)
        return gate.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        group = _group_of(context)
        if group is None:
            return super().call_at(when, callback, *args, context=context)
        gate = _Gate(self, group, callback, args, context)
        gate.handle = timer = super().call_at(when, gate, context=context)
        return timer

    def _jump(self, seconds: float) -> None:
        self._now += seconds


class _Gate:
    """A callback of a group: runs, or waits for the thaw. Cancelling its handle counts in both cases."""

    __slots__ = ("_args", "_callback", "_context", "_group", "_loop", "handle")

    handle: asyncio.Handle

    def __init__(
        self,
        loop: VirtualLoop,
        group: Group,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self._loop, self._group, self._callback, self._args, self._context = loop, group, callback, args, context

    def __call__(self) -> None:
        if self._group.is_frozen:
            self._group.hold(self._again)
        elif not self.handle.cancelled():
            self._callback(*self._args)

    def _again(self) -> None:
        asyncio.SelectorEventLoop.call_soon(self._loop, self, context=self._context)


class _Jumping(selectors.DefaultSelector):
    """Never sleeps: tells the loop how far to jump instead."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Deadlock("nothing is ready and no timer is set")
            if timeout > 0:
                self._jump(timeout)
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main`, run in virtual time from 0."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def _group_of(context: contextvars.Context | None) -> Group | None:
    return _group.get() if context is None else context.get(_group)
