"""Running one attempt of a job inside an executor.

`run_attempt` hands the job's function its run and returns how it failed, or nothing. An executor outlives the attempts
it runs, whatever they raise.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from rota.workloads.context import Run, Stopping

log = logging.getLogger(__name__)


class Job(Protocol):
    """A declared job."""

    @property
    def function(self) -> Callable[..., Any]: ...


class App(Protocol):
    """Where jobs are looked up."""

    @property
    def jobs(self) -> Mapping[str, Job]: ...


class Attempt(Protocol):
    """Which try of which run it is."""

    @property
    def run(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def job(self) -> str: ...
    @property
    def due(self) -> str: ...
    @property
    def token(self) -> int: ...


def run_attempt(app: App, attempt: Attempt) -> str:
    """Run it; the error it ended with, or nothing."""
    job = app.jobs.get(attempt.job)
    if job is None:
        return f'the app has no job "{attempt.job}"'
    run = Run(
        id=attempt.run,
        job=attempt.job,
        attempt=attempt.attempt,
        due=datetime.fromisoformat(attempt.due) if attempt.due else None,
        token=attempt.token,
        stopping=Stopping(),
        log=logging.getLogger(f"rota.job.{attempt.job}"),
    )
    try:
        result = job.function(run)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except SystemExit as error:
        return "" if error.code in (None, 0) else f"exit code {error.code}"
    except Exception as error:
        log.exception("attempt failed", extra={"run": attempt.run, "attempt": attempt.attempt})
        return f"{type(error).__name__}: {error}"
    return ""
