"""How an attempt is stopped whose process the agent has not heard of yet."""

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from rota.jobs.core.records import RunState
from rota.jobs.node.endings import Endings
from rota.model.config import RuntimeConfig
from rota.model.ids import Instant
from tests.kit.hand_clock import HandClock

ASKED = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"


class WorkerOfOne:
    """A worker of one attempt, as an agent has it before it hears its process id."""

    id = 1
    brief = SimpleNamespace(role="attempt")

    def __init__(self) -> None:
        self.pid: int | None = None
        self.killed = ""

    def kill(self, why: str) -> None:
        self.killed = why


@pytest.fixture
def process() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(["sh", "-c", ASKED], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def stopped(worker: WorkerOfOne, clock: HandClock, grace: float | None = None) -> tuple[Endings, Any]:
    """An attempt that is being stopped, and what looks after it."""
    seat = SimpleNamespace(orders=None, worker=worker.id)
    running: Any = SimpleNamespace(
        ending=None, outcome=None, seat=seat, order=SimpleNamespace(timeout=None), since=None
    )
    crew: Any = SimpleNamespace(workers={worker.id: worker}, dismiss=None, wake=None)
    rest: Any = SimpleNamespace(running={"r": running})
    endings = Endings(crew, RuntimeConfig(grace=timedelta(seconds=5)), rest, rest, rest, clock)
    assert endings.stop(running, RunState.INTERRUPTED, "somebody asked", grace)
    return endings, running


def test_a_process_that_is_heard_of_later_is_asked_then_and_has_its_grace(process: "subprocess.Popen[str]") -> None:
    worker, clock = WorkerOfOne(), HandClock()
    endings, running = stopped(worker, clock)
    endings.look(Instant(clock.monotonic() + 1))
    assert (worker.killed, running.ending.is_asked) == ("", False)
    worker.pid = process.pid
    endings.look(Instant(clock.monotonic() + 2))
    assert process.stdout is not None
    assert process.stdout.read() == "asked\n"
    assert (process.wait(), worker.killed) == (0, "")


def test_a_process_that_is_never_heard_of_is_ended_when_the_grace_is_over() -> None:
    worker, clock = WorkerOfOne(), HandClock()
    endings, _ = stopped(worker, clock)
    endings.look(Instant(clock.monotonic() + 6))
    assert worker.killed == "somebody asked"


def test_without_a_grace_it_is_ended_at_once() -> None:
    worker = WorkerOfOne()
    stopped(worker, HandClock(), grace=0)
    assert worker.killed == "somebody asked"
