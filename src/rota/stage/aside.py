"""A plain function in virtual time: it runs on a thread of its own, and only while the loop waits for it.

The two take turns. The function runs until it asks the loop for something through `call`, or ends; the loop then
continues, and resumes the function once it has the answer. So the two never run at the same time, each run is the same,
and the clock stands still while the function computes.

A function that sleeps for real instead of asking stops the clock for everyone; after `patience` seconds that is an
error, and says where the function is.
"""

import asyncio
import contextvars
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Stuck(AssertionError):
    """A function neither ended nor waited through its task or run."""


class _Killed(BaseException):
    """Raised inside a function that is abandoned; not an Exception, so that `except Exception` lets it pass."""


class FunctionThread(Generic[T]):
    """One function, beside the loop."""

    def __init__(self, function: Callable[[], T], patience: float) -> None:
        self._function, self._patience = function, patience
        self._to_function, self._to_loop = threading.Semaphore(0), threading.Semaphore(0)
        self._asked: Coroutine[Any, Any, Any] | None = None
        self._answer: Any = None
        self._refusal: BaseException | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self._is_killed = False

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """On the function's thread: the result of `coroutine`, which runs on the loop."""
        if self._is_killed:
            coroutine.close()
            raise _Killed
        self._asked = coroutine
        self._to_loop.release()
        self._to_function.acquire()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        return self._answer

    async def run(self) -> T:
        """On the loop: the function's return value."""
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=[self._body], name="aside", daemon=True)
        thread.start()
        self._wait_for(thread)
        while not self._is_over:
            assert self._asked is not None
            try:
                self._answer = await self._asked
            except asyncio.CancelledError:
                self._is_killed, self._refusal = True, _Killed()
                self._switch(thread)  # the function may still ask for something; all its calls are refused
                thread.join()
                raise
            except BaseException as error:
                self._refusal = error
            self._switch(thread)
        thread.join()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # it is over, and without an error

    def _body(self) -> None:
        try:
            self._result = self._function()
        except _Killed:
            pass
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._to_loop.release()

    def _switch(self, thread: threading.Thread) -> None:
        self._to_function.release()
        self._wait_for(thread)

    def _wait_for(self, thread: threading.Thread) -> None:
        if self._to_loop.acquire(timeout=self._patience):
            return
        self._is_killed = True  # every further call of the function raises _Killed
        raise Stuck(
            f"a function has run for {self._patience} s without a word, and virtual time stands still meanwhile; "
            f"wait with stopping.wait(…) instead of time.sleep(…). It is here:\n{_place(thread)}"
        )


def _place(thread: threading.Thread) -> str:
    """Where a thread is, from the user's function on."""
    frame = sys._current_frames().get(thread.ident or 0)
    stack = traceback.extract_stack(frame) if frame else []
    ours = [at for at, entry in enumerate(stack) if entry.filename == __file__]
    return "".join(traceback.format_list(stack[ours[-1] + 1 if ours else 0 :]))
