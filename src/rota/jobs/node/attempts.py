"""One attempt of a run on this node: what was accepted, how it is passed on, and how its outcome is determined."""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from rota.jobs.core.records import Mode, Origin, Outcome, RunOrder, RunState
from rota.jobs.node.attempt_logs import LogKey
from rota.jobs.node.executor import LONGEST_ORDER
from rota.jobs.node.output import AttemptAnswer
from rota.jobs.node.seats import ExecutorSeat
from rota.model.ids import Instant
from rota.runtime.crew.worker import Worker
from rota.runtime.loader.processes import describe
from rota.runtime.pipes.brief import Attempt
from rota.runtime.system import kernel

Ended: TypeAlias = Callable[[Outcome], None]
SourceEnded: TypeAlias = Callable[[str, bytes], None]
"""Called once with the error with which asking a source ended, or an empty string, and the list."""


@dataclass
class Ending:
    """An attempt that is being stopped."""

    state: RunState
    why: str
    kill_at: Instant
    kin: list[kernel.Kin]
    is_asked: bool = False
    """Was TERM sent? Not possible before the agent knows the process id."""


@dataclass(eq=False)
class Running:
    """One attempt that was accepted."""

    order: RunOrder
    ended: Ended | None
    weight: float
    wire: bytes = b""
    listed: SourceEnded | None = None
    seat: "ExecutorSeat[Running] | None" = None
    since: Instant | None = None
    """When it became the first of its seat, so that it may have begun."""

    started: datetime | None = None
    answer: AttemptAnswer | None = None
    ending: Ending | None = None
    outcome: Outcome | None = None

    @property
    def key(self) -> LogKey:
        """The key of its log."""
        return self.order.run, self.order.attempt

    @property
    def is_warm(self) -> bool:
        """Does it run in an executor?"""
        return not needs_process(self.order)


def needs_process(order: RunOrder) -> bool:
    """Does it have a process of its own? So does one whose order is too large for an executor."""
    return order.mode == Mode.PROCESS or bool(order.argv) or len(order.payload) > LONGEST_ORDER // 2


def attempt_of(order: RunOrder) -> Attempt:
    """The attempt as its worker gets it."""
    return Attempt(
        order.run,
        order.attempt,
        order.job,
        order.due,
        order.epoch,
        order.payload,
        "",
        order.argv,
        order.env,
        order.cwd,
        order.origin is Origin.API,
    )


def missing(order: RunOrder) -> str:
    """Why a command cannot be run here; empty if it can."""
    program, path = order.argv[0], order.env.get("PATH", os.environ.get("PATH"))
    if order.cwd is not None and not os.path.isdir(order.cwd):
        return f"this node has no folder {order.cwd}; make it, or label the nodes that have it"
    where = os.path.join(order.cwd or "", program) if os.path.dirname(program) else program
    if shutil.which(where, path=path) is None:
        return f'this node has no program "{program}"; install it there, or label the nodes that have it'
    return ""


def answered(answer: AttemptAnswer, log_bytes: int) -> Outcome:
    """The outcome that the worker reported."""
    return Outcome(
        state=RunState.FAILED if answer.error else RunState.SUCCEEDED,
        started=datetime.fromtimestamp(answer.started, UTC),
        seconds=answer.seconds,
        exit_code=answer.exit_code,
        error=answer.error,
        cpu_seconds=answer.cpu_seconds,
        peak_memory=answer.peak_memory,
        log_bytes=log_bytes,
    )


def fallen(running: Running, worker: Worker, why: str, log_bytes: int, now: Instant) -> Outcome:
    """The outcome of an attempt whose worker has ended: it was stopped, or had answered, or its process's status
    decides."""
    end, answer = worker.end, running.answer
    if answer is not None and running.ending is None:
        outcome = answered(answer, log_bytes)
    else:
        state, error, code = _judged(running, worker, why)
        seconds = now - running.since if running.since is not None else 0.0
        outcome = Outcome(
            state=state, started=running.started, seconds=seconds, exit_code=code, error=error, log_bytes=log_bytes
        )
    if end is not None and worker.is_errand:
        return msgspec.structs.replace(outcome, cpu_seconds=end.cpu_seconds, peak_memory=end.peak_memory)
    return outcome


def _judged(running: Running, worker: Worker, why: str) -> tuple[RunState, str, int | None]:
    """State, error and exit code of an attempt that did not answer, or was stopped."""
    status = worker.end.status if worker.end is not None else None
    code = None if status is None else os.waitstatus_to_exitcode(status)
    if running.ending is not None:
        return running.ending.state, running.ending.why, code
    if worker.why_killed and code in (None, -signal.SIGKILL):
        return RunState.INTERRUPTED, worker.why_killed, code
    if code is None or code == -signal.SIGKILL:
        return RunState.LOST, f"its process was lost: {why}", code
    if code == 0 and running.order.argv:
        return RunState.SUCCEEDED, "", 0
    if code == 0:
        return RunState.FAILED, "its function ended the process", 0
    return RunState.FAILED, worker.why_killed or describe(status), code
