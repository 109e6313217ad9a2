"""Renewals in a thread of their own: one event loop and one connection to the store, for leases alone.

The agent's event loop answers callers, plans, and talks to workers. Anything that holds it for seconds would cost the
node its lease, and with it everything that the node runs. So leases are renewed here, where nothing else runs. A
computation in another thread shares the interpreter with this one, which takes turns every 5 ms.

A thread that renewed for a hanging loop would keep a node in the fleet that does nothing. `store.leases.keeper`
therefore renews only while the loop has shown a sign of life within `keeper.LONGEST_STILL` of a ttl.

`memory://` lives on the event loop of its process and has no other end: its leases are renewed on that loop.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import random
from typing import Protocol, runtime_checkable

from rota.kit.time.backoff import delays
from rota.kit.time.clock import Clock
from rota.model.errors import Unavailable, Unknown
from rota.store import url as urls
from rota.store.follow import RETRY
from rota.store.open import open_store
from rota.store.port import Store

log = logging.getLogger(__name__)

STOP = 5.0
"""Seconds to wait for the thread to close its store; it ends with the process in any case."""

ENDED = "the thread that renews the lease has ended"


@asynccontextmanager
async def renewal_thread(text: str, clock: Clock) -> AsyncIterator["RenewalThread | None"]:
    """A thread that has opened the store at a URL; None where a store cannot be opened twice."""
    if urls.parse(text).scheme == "memory":
        yield None
        return
    thread = RenewalThread(text, clock)
    try:
        await thread.start()
        yield thread
    finally:
        await thread.stop()


@runtime_checkable
class HasChores(Protocol):
    """A store that has background tasks beside its operations."""

    async def stop_chores(self) -> None:
        """Stop the background tasks: another store of this process runs them."""


class RenewalThread:
    """Runs coroutines in its own thread, with its own store."""

    def __init__(self, text: str, clock: Clock) -> None:
        self._text, self._clock = text, clock
        self._thread = threading.Thread(target=self._run, name="rota lease", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._store: Store | None = None
        self._stopping = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._home = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._home.create_future()

    async def start(self) -> None:
        """Wait until its store is open; raises what opening it raised, unless that passes."""
        self._thread.start()
        await asyncio.shield(self._opened)

    async def run(self, work: Callable[[Store], Coroutine[None, None, None]]) -> None:
        """Do `work` in the thread, to its end; cancelled there if it is cancelled here.

        RuntimeError if the thread ends meanwhile: at this very moment it still takes work, and never begins it.
        """
        assert self._loop is not None
        assert self._store is not None
        doing = work(self._store)
        try:
            running = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(doing, self._loop))
        except RuntimeError:  # its loop is closed already
            doing.close()
            raise RuntimeError(ENDED) from None
        try:
            await asyncio.wait([running, self._ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.cancel()
            if self._ended.done():
                doing.close()
        if running.cancelled():
            raise RuntimeError(ENDED)
        running.result()

    async def stop(self) -> None:
        """Close the store and end the thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the thread has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, STOP)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # the caller of `start` gets the error; later, the callers of `run` do
            self._call_home(partial(_fail, self._opened, error))
        finally:
            self._call_home(partial(_succeed, self._ended))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        opening = asyncio.ensure_future(self._open_and_wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (opening, stopping):
            task.cancel()
        await asyncio.wait([opening, stopping])
        if not opening.cancelled():
            opening.result()

    async def _open_and_wait(self) -> None:
        waits = delays(*RETRY, random)
        while True:
            try:
                async with open_store(self._text, clock=self._clock, waits=True) as store:
                    if isinstance(store, HasChores):
                        await store.stop_chores()
                    self._store = store
                    self._call_home(partial(_succeed, self._opened))
                    await asyncio.Event().wait()
            except (Unavailable, Unknown) as error:  # the node has opened the same store a moment ago
                log.warning("store not open for renewals yet", extra={"why": str(error)})
            await asyncio.sleep(next(waits).total_seconds())

    def _call_home(self, what: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the caller's loop is closed
            self._home.call_soon_threadsafe(what)


def _succeed(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _fail(opened: "asyncio.Future[None]", error: BaseException) -> None:
    if not opened.done():
        opened.set_exception(error)
        opened.exception()  # the waiting caller may be gone
