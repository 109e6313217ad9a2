"""A node's tasks: what is ordered reaches its worker, and what keeps failing is given back, with the reason."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import SYSTEM
from rota.kit.time.instant import Instant
from rota.resources.node.tasks import Tasks
from rota.resources.pipe import StartTask, TaskEnded, TaskSilent, TaskStarted
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.worker import Worker
from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.pipes.channel import Channel, Pipe, PipeMessage, pair
from rota.runtime.pipes.worker import Finish

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
        worker.enter(WorkerPhase.READY, SYSTEM.monotonic())
        return worker


def tasks_of(crew: FakeCrew, clock: Any = SYSTEM, tell: Tell = lambda *_, **__: None) -> Tasks:
    return Tasks(
        crew,  # type: ignore[arg-type]
        clock,
        RestartPolicy(),
        timedelta(seconds=10),
        lambda: None,
        lambda task, epoch: None,
        tell,
    )


@contextmanager
def connected(worker: Worker) -> Iterator[tuple[Pipe, list[str]]]:
    """The worker's end of its channel, and what became of the agent's."""
    ours, theirs = pair()
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


async def read(peer: Pipe, count: int) -> list[PipeMessage]:
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
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.tasks = tasks_of(
            self.crew, self.clock, lambda kind, subject, **fields: self.events.append((kind, subject, fields))
        )
        self.order = order(1)
        self.number = 0

    def place(self, **changes: Any) -> None:
        """The leader takes note of what was given back, and places the task here again under another epoch."""
        self.tasks.want([])
        self.order = msgspec.structs.replace(self.order, epoch=self.order.epoch + 1, **changes)
        self.tasks.want([self.order])

    def fail(self) -> None:
        """One life that ends at once."""
        self.life(TaskEnded(self.order.task, self.order.epoch, False, "ConnectionError: no camera"))

    @property
    def waits(self) -> bool:
        """Is the task ordered, and its worker not wanted yet?"""
        self.tasks.tick()
        return self.order.task in self.tasks.orders and self.order not in self.tasks.due()

    def life(self, *said: PipeMessage, why: str = "exit code 0", phase: WorkerPhase = WorkerPhase.READY) -> Worker:
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
    said: list[PipeMessage], why: str
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
        story.life(why="killed: it did not end in time", phase=WorkerPhase.DRAINING)
    assert not story.why


async def test_the_reason_a_task_alone_ended_for_is_its_workers_reason() -> None:
    story = Story()
    story.tasks.want([story.order])
    assert story.life(FAILED).last_words == FAILED.error
    assert story.life(TaskEnded("room/1#0", 7, True)).last_words == ""


def failed_until_given_back() -> Story:
    story = Story()
    story.tasks.want([story.order])
    assert not story.waits, "a task that never failed here starts at once"
    while not story.why:
        story.fail()
    return story


async def test_a_task_that_comes_back_to_a_node_where_it_failed_waits_longer_each_time() -> None:
    story, waited = failed_until_given_back(), []
    for _ in range(8):
        story.place()
        began = story.clock.now
        while story.waits:
            story.clock.now += 0.1
        waited.append(story.clock.now - began)
        story.fail()
        assert story.why, "it had its tries here"
    assert waited == sorted(waited)
    assert waited[0] > 1
    assert 29 < waited[-1] < 31, "but not longer than what fails ever waits"


async def test_a_hosted_task_that_comes_back_waits_too() -> None:
    crew, clock = FakeCrew(), FakeClock()
    tasks, host = tasks_of(crew, clock), crew.add(1)
    with connected(host) as (peer, _):
        for epoch in (1, 2):
            tasks.want([msgspec.structs.replace(order(1), epoch=epoch)])
            while "room/1#0" in tasks.orders:
                clock.now += 0.1
                tasks.reconcile()
                if tasks.has_copy("room/1#0"):
                    tasks.said(host, TaskEnded("room/1#0", epoch, False, "no camera"))
            tasks.want([])
        host.send(Finish())
        *starts, last = await read(peer, 7)
        assert isinstance(last, Finish), "it was started more often"
        assert [start.order.epoch for start in starts if isinstance(start, StartTask)] == [*[1] * 5, 2]


def changed(story: Story) -> None:
    story.place(spec=b'{"camera":2}')


def reloaded(story: Story) -> None:
    story.crew.generations.current = 2
    story.place()


def much_later(story: Story) -> None:
    story.clock.now += 3600
    story.place()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(changed, id="another spec"),
        pytest.param(reloaded, id="other code"),
        pytest.param(much_later, id="much later"),
    ],
)
async def test_what_may_run_now_does_not_wait_for_what_failed(change: Callable[[Story], None]) -> None:
    story = failed_until_given_back()
    change(story)
    assert not story.waits
    story.fail()
    assert not story.why, "it begins anew"


async def test_a_task_that_is_given_back_is_an_event_less_often_the_longer_it_fails() -> None:
    story = failed_until_given_back()
    for _ in range(7):
        story.place()
        story.fail()
    assert [fields["falls"] for _, _, fields in story.events] == [5, 6, 8, 12]
    assert story.events[0] == (
        "task.given_back",
        "room/1#0",
        {"epoch": 7, "falls": 5, "why": "it ends again and again: ConnectionError: no camera"},
    )


async def test_a_silent_task_that_is_given_back_is_an_event() -> None:
    story = Story()
    story.tasks.want([story.order])
    story.life(TaskStarted("room/1#0", 7), TaskSilent("room/1#0", 7, "no sign of life for 31 s"))
    assert [(kind, fields["why"]) for kind, _, fields in story.events] == [
        ("task.given_back", "no sign of life for 31 s")
    ]


async def test_a_task_that_failed_twice_in_a_row_is_reported_until_it_has_stood_for_a_while() -> None:
    story = Story()
    story.tasks.want([story.order])
    story.fail()
    assert story.tasks.failing() == {}, "once may happen"
    story.fail()
    assert story.tasks.failing() == {"room/1#0": "ConnectionError: no camera"}
    worker = story.crew.add(9, story.order)
    story.tasks.registered(worker)
    story.tasks.said(worker, TaskStarted("room/1#0", 7))
    assert story.tasks.failing(), "it has not recovered yet"
    story.clock.now += 31
    assert (story.tasks.failing(), story.tasks.running()) == ({}, {"room/1#0"})


async def test_a_task_that_waits_because_it_failed_here_before_is_reported_and_one_with_other_code_is_not() -> None:
    story = failed_until_given_back()
    assert story.tasks.failing() == {}, "it is not ordered any more"
    story.place()
    assert story.waits
    assert story.tasks.failing()
    reloaded(story)
    assert story.tasks.failing() == {}
