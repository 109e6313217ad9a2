"""Waiting in tests: for a condition, with a deadline, never for a while."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from inspect import isawaitable
from typing import Self, TypeVar, overload

from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.store import Commit, Lease, Store

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds that something may take where the machine is busy with something else; elsewhere nobody waits for them."""


def pause_after(waited: float) -> float:
    """Seconds until the next look: a twentieth of the wait so far, from 10 to 100 ms.

    A look may cost a request or a scan of all processes, and the processor it takes is the one that is waited for.
    """
    return min(max(waited / 20, 0.01), 0.1)


@overload
async def eventually(
    condition: Callable[[], Awaitable[T | None]], *, within: float = ..., despite: tuple[type[Exception], ...] = ...
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T | None], *, within: float = ..., despite: tuple[type[Exception], ...] = ...
) -> T: ...


async def eventually(
    condition: Callable[[], object], *, within: float = PATIENCE, despite: tuple[type[Exception], ...] = ()
) -> object:
    """What `condition` returns once that is true; the errors named in `despite` mean not yet."""
    began = time.monotonic()
    end = began + within
    last: object = None
    is_last_look = False
    while not is_last_look:
        is_last_look = time.monotonic() >= end  # this process may have stood still since it looked before
        try:
            last = condition()
            if isawaitable(last):
                last = await last
            if last:
                return last
        except despite as error:
            last = error
        await asyncio.sleep(pause_after(time.monotonic() - began))
    raise AssertionError(f"not within {within} s; the last answer was {last!r}")


class Recorder:
    """A watch that writes down what it yields; a context manager."""

    def __init__(self, store: Store, prefix: Key, after: Revision) -> None:
        self.commits: list[Commit] = []
        self._store, self._prefix, self._after = store, prefix, after

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"record {self._prefix}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def revisions(self) -> list[Revision]:
        """The revisions seen, in the order they came."""
        return [commit.revision for commit in self.commits]

    @property
    def changes(self) -> list[dict[Key, bytes | None]]:
        """Each commit as keys and values."""
        return [
            {change.key: change.entry.value if change.entry else None for change in commit.changes}
            for commit in self.commits
        ]

    async def until(self, condition: Callable[[], object], *, within: float = PATIENCE) -> None:
        """Go on watching until `condition` holds; the watch's own error is raised here."""
        try:
            await eventually(lambda: self._check(condition), within=within)
        except AssertionError as error:
            error.add_note(f"the watch saw {len(self.commits)} commits, at last {self.revisions[-3:]}")
            error.add_note(f"and stands at {' > '.join(_stands_at(self._watch))}")
            raise

    async def reach(self, revision: Revision, *, within: float = PATIENCE) -> None:
        """Go on watching until the commit of `revision` has come."""
        await self.until(lambda: self.commits and self.commits[-1].revision >= revision, within=within)

    def _check(self, condition: Callable[[], object]) -> bool:
        if condition():
            return True
        if self._task.done():
            self._task.result()
            raise AssertionError("the watch ended by itself")
        return False

    async def _run(self) -> None:
        self._watch = self._store.watch(self._prefix, self._after)
        async with aclosing(self._watch) as commits:
            async for commit in commits:
                self.commits.append(commit)


def _stands_at(waiting: object) -> Iterator[str]:
    """Where a coroutine waits, from the outermost to the innermost."""
    while waiting is not None:
        kind = next((kind for kind in ("cr", "ag", "gi") if hasattr(waiting, f"{kind}_frame")), None)
        if kind is None:
            yield repr(waiting)
            return
        frame = getattr(waiting, f"{kind}_frame")
        yield f"{getattr(waiting, '__qualname__', waiting)}:{frame.f_lineno if frame else 'over'}"
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


@asynccontextmanager
async def renewed(store: Store, lease: Lease) -> AsyncIterator[None]:
    """Inside, the lease is renewed again and again; outages are sat out, a lost lease is an error."""

    async def renew() -> None:
        while True:
            with suppress(Unavailable, Unknown):
                await store.renew(lease)
            await asyncio.sleep(lease.ttl.total_seconds() / 8)

    async with asyncio.TaskGroup() as tasks:
        renewal = tasks.create_task(renew())
        yield
        renewal.cancel()
