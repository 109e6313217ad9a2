"""Running one attempt of a job inside an executor.

`run_attempt` hands the job's function its run and returns how it failed, or nothing. An executor outlives the attempts
it runs, whatever they raise. `AttemptStop` is how the one that runs is asked to stop: its function sees it in
`run.stopping`, and is cancelled if it is async.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from rota.kit.faults import described, sendable
from rota.sdk.context import Run, Stopping

log = logging.getLogger(__name__)

LONGEST_ERROR = 2000
"""Characters of an attempt's error."""


class RunnableJob(Protocol):
    """A declared job."""

    @property
    def function(self) -> Callable[..., Any]: ...


class JobLookup(Protocol):
    """Looks up a declared job by name."""

    @property
    def jobs(self) -> Mapping[str, RunnableJob]: ...


class AttemptIdentity(Protocol):
    """The run, the attempt and its epoch."""

    @property
    def run(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def job(self) -> str: ...
    @property
    def due(self) -> datetime | None: ...
    @property
    def token(self) -> int: ...
    @property
    def payload(self) -> bytes: ...


class AttemptStop:
    """How the running attempt is asked to stop. One request is enough: nothing runs here after it."""

    def __init__(self) -> None:
        self.stopping = Stopping()
        self._cancel: Callable[[], object] | None = None

    def ask(self) -> None:
        """Request the stop. May be called by the handler of a signal."""
        self.stopping.set()
        if self._cancel is not None:
            self._cancel()

    async def carry(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine, which is cancelled when the stop is requested."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            if self.stopping:
                task.cancel()
            await work
        finally:
            self._cancel = None


def run_attempt(app: JobLookup, attempt: AttemptIdentity, halt: AttemptStop) -> tuple[str, int | None]:
    """Run the attempt; returns its error, or an empty string, and the exit code that it asked for, if any."""
    job = app.jobs.get(attempt.job)
    if job is None:
        return f'the app has no job "{attempt.job}"', None
    run = Run(
        id=attempt.run,
        job=attempt.job,
        attempt=attempt.attempt,
        due=attempt.due,
        token=attempt.token,
        payload=msgspec.json.decode(attempt.payload) if attempt.payload else None,
        stopping=halt.stopping,
        log=logging.getLogger(f"rota.job.{attempt.job}"),
    )
    try:
        result = job.function(run)
        if inspect.iscoroutine(result):
            asyncio.run(halt.carry(result))
    except SystemExit as error:
        return _exited(error)
    except asyncio.CancelledError:
        return "it was cancelled", None
    except BaseException as error:  # some libraries raise BaseExceptions of their own; the executor lives on
        log.exception("attempt failed", extra={"run": attempt.run, "attempt": attempt.attempt})
        return described(error, LONGEST_ERROR), None
    return "", None


def _exited(error: SystemExit) -> tuple[str, int]:
    """The meaning of `sys.exit`: a number is the exit code, anything else is an error with exit code 1."""
    if error.code is None or error.code == 0:
        return "", 0
    if isinstance(error.code, int):
        return f"exit code {error.code}", error.code
    return sendable(str(error.code), LONGEST_ERROR), 1
