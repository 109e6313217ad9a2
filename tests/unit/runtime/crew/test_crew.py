"""A crew asks its loader for no more workers than the loader reads."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.kit.time.clock import SYSTEM
from rota.model.config import RuntimeConfig
from rota.model.errors import Unavailable
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.plan import WorkerPool
from rota.runtime.crew.posts import Post
from rota.runtime.crew.runner import CrewRunner
from rota.runtime.crew.watch import CrewWatch
from rota.runtime.pipes.brief import Attempt, Brief, Order
from rota.runtime.system.enclosure import Enclosure
from rota.runtime.worker.stacks import Stacks
from tests.kit.waiting import eventually


class FakeLoader:
    """Takes one worker, and then has no room for a while."""

    generation, spawns = 1, False

    def __init__(self) -> None:
        self.forked: list[Brief] = []
        self.has_room = True
        self.waiting: list[Callable[[], None]] = []
        self.fds: list[int] = []

    def when_room(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def fork(self, brief: Brief, *fds: int) -> None:
        assert self.has_room, "it was asked for more than it reads"
        self.has_room = False
        self.forked.append(brief)
        self.fds += fds

    def read(self) -> None:
        """Read what was sent."""
        self.has_room, calls, self.waiting = True, self.waiting, []
        for callback in calls:
            callback()


def crew_of(generations: Any, config: RuntimeConfig | None = None) -> Crew:
    return Crew(generations, config or RuntimeConfig(), RestartPolicy(), SYSTEM)


def nothing(*_: Any, **__: Any) -> None:
    """Nobody is told."""


@pytest.mark.parametrize(("spawns", "expected"), [(False, "start_timeout"), (True, "load_timeout")])
def test_workers_that_import_the_app_themselves_have_the_time_of_an_import(spawns: bool, expected: str) -> None:
    config = RuntimeConfig()
    generations = SimpleNamespace(current=1, able=lambda: {1: SimpleNamespace(spawns=spawns)})
    crew = crew_of(generations, config)
    assert crew.snapshot().start_timeout == getattr(config, expected)


class GoneLoader(FakeLoader):
    """Turns out to be gone when it is asked for a worker."""

    is_alive = True
    listener: CrewWatch

    def fork(self, brief: Brief, *fds: int) -> None:
        for fd in fds:
            os.close(fd)
        self.is_alive = False
        self.listener.loader_changed(self)  # type: ignore[arg-type]


async def test_an_attempt_is_refused_when_its_loader_turns_out_to_be_gone(tmp_path: Path) -> None:
    loader = GoneLoader()
    generations = SimpleNamespace(
        current=1,
        able=lambda: {1: loader},
        ended=lambda loader: None,
        target=SimpleNamespace(node="a", enclosure=Enclosure()),
    )
    crew = crew_of(generations)
    loader.listener = CrewWatch(crew, SYSTEM, nothing, Stacks(tmp_path, SYSTEM))
    runner = CrewRunner(crew, loader.listener, RuntimeConfig(), SYSTEM, nothing)
    with pytest.raises(Unavailable, match="loader is being started again"):
        runner.send_out(Attempt("r", 1, "j"))
    assert not crew.workers


async def test_workers_with_large_orders_are_asked_for_as_the_loader_reads(tmp_path: Path) -> None:
    loader = FakeLoader()
    generations = SimpleNamespace(
        current=1,
        able=lambda: {1: loader},
        mend=lambda listener: None,
        has_reaped=lambda pid, status: False,
        target=SimpleNamespace(node="a", enclosure=Enclosure()),
        on_trial=set,
        kept=dict,
    )
    crew = crew_of(generations)
    orders: list[Any] = [Order(f"room/{number}#0", 7, "room", str(number), 0) for number in range(3)]
    runner = CrewRunner(
        crew,
        CrewWatch(crew, SYSTEM, nothing, Stacks(tmp_path, SYSTEM)),
        RuntimeConfig(),
        SYSTEM,
        nothing,
        recalled=lambda order: Order(order.task, order.epoch, order.kind, order.resource, 0, saved=b'{"a":1}'),
    )
    running = asyncio.create_task(runner.run())
    try:
        crew.man({f"task:{each.task}": Post(WorkerPool(f"task:{each.task}", 1), "task", order=each) for each in orders})
        for number in range(1, 4):
            await eventually(lambda number=number: len(loader.forked) == number and (loader.waiting or number == 3))
            loader.read()
        assert {brief.order.task for brief in loader.forked if brief.order} == {each.task for each in orders}
        assert all(brief.order and brief.order.saved == b'{"a":1}' for brief in loader.forked)
    finally:
        running.cancel()
        await asyncio.wait([running])
        for worker in crew.workers.values():
            worker.let_go()
        for fd in loader.fds:
            os.close(fd)
