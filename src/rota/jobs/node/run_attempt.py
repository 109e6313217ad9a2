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
    """Where jobs are looked up."""

    @property
    def jobs(self) -> Mapping[str, RunnableJob]: ...


class AttemptIdentity(Protocol):
    """Which try of which run it is."""

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
    """How the attempt that runs is asked to stop. Once is enough: nothing runs here after it."""

    def __init__(self) -> None:
        self.stopping = Stopping()
        self._cancel: Callable[[], object] | None = None

    def ask(self) -> None:
        """Stop. May be called by the handler of a signal."""
        self.stopping.set()
        if self._cancel is not None:
            self._cancel()

    async def carry(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine, which is cancelled when it is asked to stop."""
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
    """Run it: the error it ended with, or nothing, and the exit code that it asked for, if it did."""
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
    except BaseException as error:  # libraries have their own, beside Exception; the executor lives on
        log.exception("attempt failed", extra={"run": attempt.run, "attempt": attempt.attempt})
        return described(error, LONGEST_ERROR), None
    return "", None


def _exited(error: SystemExit) -> tuple[str, int]:
    """What `sys.exit` means: a number is the exit code, anything else is an error and means 1."""
    if error.code is None or error.code == 0:
        return "", 0
    if isinstance(error.code, int):
        return f"exit code {error.code}", error.code
    return sendable(str(error.code), LONGEST_ERROR), 1
