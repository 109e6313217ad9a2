"""Aside: a long computation beside the event loop, which goes on meanwhile.

A lease is renewed by the loop, so a computation of seconds that holds it costs the lease, and with it everything that
its holder does. `in_thread` is for real use; `at_once` holds the loop, for simulations, where time is virtual and
threads would make runs differ.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """A way to compute something."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """What `work` returns, or raises."""
        ...


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` returns, computed in a thread of its own.

    Nothing else may touch what it works on before it is done. If the caller is cancelled, the thread goes on to its
    end, and its result is dropped; it does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    run = partial(contextvars.copy_context().run, _compute, work, answer, loop)
    threading.Thread(target=run, name="aside", daemon=True).start()
    return await answer


async def at_once(work: Callable[[], T]) -> T:
    """What `work` returns, computed on the loop."""
    return work()


def _compute(work: Callable[[], T], answer: "asyncio.Future[T]", loop: asyncio.AbstractEventLoop) -> None:
    tell: Callable[[], None]
    try:
        tell = partial(_answer, answer, work())
    except BaseException as error:  # every exception goes to the caller, as if the call had been direct
        tell = partial(_fail, answer, error)
    with suppress(RuntimeError):  # the loop is closed, and with it the caller is gone
        loop.call_soon_threadsafe(tell)


def _answer(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
