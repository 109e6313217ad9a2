"""A node's tasks: what is ordered reaches its worker, and what keeps failing is given back, with the reason."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rota.decide.crew import Phase
from rota.decide.restart import RestartPolicy
from rota.kit.clock import SYSTEM
from rota.kit.instant import Instant
from rota.node import pipes
from rota.node.pipes import Brief, Channel, Message, Order, Pipe, StartTask, TaskEnded, TaskStarted
from rota.node.tasks import Tasks
from rota.node.workers import Worker

LARGE = 240_000
"""Bytes of a saved state."""

MANY = 200
"""Tasks whose states are together more than a channel holds."""


class FakeClock:
    """Stands where it was put."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> Instant:
        return Instant(self.now)


class FakeCrew:
    """Workers without processes."""

    def __init__(self, alone: tuple[str, ...] = ()) -> None:
        self.workers: dict[int, Worker] = {}
        self.witnesses: list[Any] = []
        self.recalled: Any = None
        kinds = [SimpleNamespace(name=name, runs_alone=True) for name in alone]
        self.generations = SimpleNamespace(app=SimpleNamespace(app=SimpleNamespace(kinds=kinds)), current=1)

    def of_pool(self, name: str) -> list[Worker]:
        return [worker for worker in self.workers.values() if worker.brief.pool == name]

    def wake(self) -> None:
        """Nobody plans."""

    def add(self, number: int, order: Order | None = None) -> Worker:
        """A worker that has registered: a host, or one for this order."""
        role, pool = ("host", "host") if order is None else ("task", f"task:{order.task}")
        brief = Brief(worker=number, role=role, pool=pool, slot=0, generation=1, node="a", order=order)
        worker = self.workers[number] = Worker(brief, 0, None, SYSTEM.monotonic())
        worker.enter(Phase.READY, SYSTEM.monotonic())
        return worker


def tasks_of(crew: FakeCrew, clock: Any = SYSTEM, policy: RestartPolicy | None = None) -> Tasks:
    return Tasks(
        crew,  # type: ignore[arg-type]
        clock,
        policy or RestartPolicy(),
        timedelta(seconds=10),
        lambda: None,
        lambda task, epoch: None,
    )


@contextmanager
def connected(worker: Worker) -> Iterator[tuple[Pipe, list[str]]]:
    """The worker's end of its channel, and what became of the agent's."""
    ours, theirs = pipes.pair()
    ends: list[str] = []
    worker.channel = Channel(ours, lambda message: None, lambda: ends.append("ended"))
    peer = Pipe(theirs)
    try:
        yield peer, ends
    finally:
        worker.channel.close()
        peer.close()


def order(number: int, size: int = 0, **fields: Any) -> Order:
    saved = msgspec.json.encode({"text": "x" * size})
    return Order(f"room/{number}#0", 7, "room", str(number), 0, saved=saved, **fields)


async def read(peer: Pipe, count: int) -> list[Message]:
    async with asyncio.timeout(60):
        return await asyncio.to_thread(lambda: [peer.receive() for _ in range(count)])


async def test_more_orders_than_a_channel_holds_all_reach_a_host_that_reads() -> None:
    crew = FakeCrew()
    tasks, host = tasks_of(crew), crew.add(1)
    with connected(host) as (peer, ends):
        orders = [order(number, LARGE) for number in range(MANY)]
        tasks.want(orders)
        tasks.reconcile()
        got = await read(peer, MANY)
        assert not ends, "the host was taken for one that does not read"
        assert sorted(message.order.task for message in got if isinstance(message, StartTask)) == sorted(
            each.task for each in orders
        )


class Story:
    """A task with a process of its own, which ends again and again."""

    def __init__(self) -> None:
        self.crew, self.clock = FakeCrew(alone=("room",)), FakeClock()
        self.tasks = tasks_of(self.crew, self.clock)
        self.order = order(1)
        self.number = 0

    def life(self, *said: Message, why: str = "exit code 0", phase: Phase = Phase.READY) -> Worker:
        """One worker for the task: it registers, says this, and ends."""
        self.number += 1
        worker = self.crew.add(self.number, self.order)
        self.tasks.registered(worker)
        for message in said:
            self.tasks.said(worker, message)
        worker.phase = phase
        del self.crew.workers[worker.id]
        self.tasks.ended(worker, why)
        return worker

    @property
    def why(self) -> str:
        """Why the task is given back; empty if it is not."""
        found = self.tasks.returned.get(self.order.task)
        return found.why if found else ""


FAILED = TaskEnded("room/1#0", 7, False, "ConnectionError: the camera does not answer")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param([FAILED], "the camera does not answer", id="it fails before it is started"),
        pytest.param([TaskStarted("room/1#0", 7), FAILED], "the camera does not answer", id="it fails"),
        pytest.param([TaskStarted("room/1#0", 7)], "killed by SIGSEGV", id="its process dies"),
        pytest.param([], "killed by SIGSEGV", id="its process dies before it is started"),
    ],
)
async def test_a_task_alone_that_ends_again_and_again_is_given_back_with_the_reason(
    said: list[Message], why: str
) -> None:
    story = Story()
    story.tasks.want([story.order])
    for _ in range(4):
        story.life(*said, why="killed by SIGSEGV")
        assert not story.why, "it may come up yet"
    story.life(*said, why="killed by SIGSEGV")
    assert why in story.why
    assert story.order.task not in story.tasks.orders


async def test_a_worker_that_was_asked_to_end_is_no_fault_of_its_task() -> None:
    story = Story()
    story.tasks.want([story.order])
    for _ in range(10):
        story.life(TaskEnded("room/1#0", 7, True))
        story.life(why="killed: it did not end in time", phase=Phase.DRAINING)
    assert not story.why


async def test_the_reason_a_task_alone_ended_for_is_its_workers_reason() -> None:
    story = Story()
    story.tasks.want([story.order])
    assert story.life(FAILED).last_words == FAILED.error
    assert story.life(TaskEnded("room/1#0", 7, True)).last_words == ""
