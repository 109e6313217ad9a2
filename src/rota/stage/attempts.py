"""Attempts of runs on a stage: their output, their log, and programs that really run."""

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Self, TextIO

import msgspec

from rota.jobs.core.records import JobSpec


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    job: str
    state: str
    """`succeeded`, `failed` or `timed out`."""

    due: datetime | None
    attempts: int
    output: str
    """What it printed and logged, in all attempts."""

    error: BaseException | None = None
    took: timedelta = timedelta()
    """In virtual time."""

    def check(self) -> Self:
        """This outcome itself; raises the error if the run did not succeed."""
        if self.error is not None:
            raise self.error
        return self


def execute(spec: JobSpec, output: TextIO) -> tuple[str, BaseException | None]:
    """Run a program, in real time; returns how it ended, and why."""
    limit = spec.timeout.total_seconds() if spec.timeout else None
    try:
        done = subprocess.run(
            spec.argv,
            env={**os.environ, **spec.env},
            cwd=spec.cwd,
            timeout=limit,
            check=True,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired as late:
        output.write(_text(late.output))
        return "timed out", late
    except subprocess.CalledProcessError as error:
        output.write(_text(error.output))
        return "failed", error
    except OSError as error:  # no such program, no such folder
        return "failed", error
    output.write(done.stdout)
    return "succeeded", None


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def logger(job: str, output: TextIO) -> logging.Logger:
    """A logger whose lines go to the run's output, and also to the test's own handlers."""
    log = logging.Logger(f"rota.jobs.{job}")
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    log.parent = logging.getLogger()
    return log


_output: ContextVar[TextIO | None] = ContextVar("output", default=None)


class _Split(io.TextIOBase):
    """A standard stream that sends what a run prints to that run's output."""

    def __init__(self, usual: TextIO) -> None:
        self._usual = usual

    def write(self, text: str) -> int:
        return (_output.get() or self._usual).write(text)

    def flush(self) -> None:
        (_output.get() or self._usual).flush()


@contextmanager
def captured(output: TextIO) -> Iterator[None]:
    """Inside, what this run prints goes to `output`; other runs keep printing to where they did."""
    usual = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Split(usual[0]), _Split(usual[1])
    token = _output.set(output)
    try:
        yield
    finally:
        _output.reset(token)
        sys.stdout, sys.stderr = usual
