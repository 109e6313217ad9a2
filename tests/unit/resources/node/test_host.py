"""Tasks in a host worker: whatever one of them does, the agent hears of it, and the others notice nothing."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rota
from rota.resources.node.host import Host
from rota.resources.node.reports import Reports
from rota.resources.pipe import Save, StartTask, StopTask, TaskEnded, TaskStarted
from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.pipes.channel import Channel, pair
from rota.runtime.pipes.worker import Finish, Registered
from tests.kit.waiting import eventually

LARGE = 240_000
"""Bytes of a saved state."""

MANY = 200
"""Tasks whose states are together more than a channel holds."""


class Agent:
    """The agent's end of a host's channel."""

    def __init__(self, channel: Channel, heard: list[Any], host: "asyncio.Task[None]") -> None:
        self.channel, self.heard, self.host = channel, heard, host

    def start(self, kind: str, number: int = 0) -> None:
        self.channel.send(StartTask(Order(f"{kind}/{number}#0", 7, kind, str(number), 0)))

    def of(self, sort: type, task: str = "") -> list[Any]:
        return [each for each in self.heard if isinstance(each, sort) and getattr(each, "task", "").startswith(task)]

    async def end_of(self, task: str) -> TaskEnded:
        found: TaskEnded = (await eventually(lambda: self.of(TaskEnded, task)))[0]
        return found


@asynccontextmanager
async def hosting(app: rota.App) -> AsyncIterator[Agent]:
    """A host worker in this process."""
    ours, theirs = pair()
    heard: list[Any] = []
    brief = Brief(worker=1, role="host", pool="host", slot=0, generation=1, node="a")
    host = asyncio.create_task(Host(app, brief).run(theirs))
    channel = Channel(ours, heard.append, lambda: None)
    try:
        await eventually(lambda: any(isinstance(each, Registered) for each in heard))
        yield Agent(channel, heard, host)
        channel.send(Finish())
        async with asyncio.timeout(60):
            await host
    finally:
        channel.close()
        host.cancel()


async def test_states_of_many_tasks_saved_in_one_turn_all_reach_the_agent() -> None:
    app, gate = rota.App("trial"), asyncio.Event()

    @app.resource()
    async def room(task: rota.Task) -> None:
        await gate.wait()
        await task.save({"text": "x" * LARGE})
        await asyncio.Event().wait()

    async with hosting(app) as agent:
        for number in range(MANY):
            agent.start("room", number)
        await eventually(lambda: len(agent.of(TaskStarted)) == MANY)
        gate.set()
        await eventually(lambda: len({each.task for each in agent.of(Save)}) == MANY or agent.host.done())
        assert len(agent.of(Save)) == MANY
        assert not agent.of(TaskEnded), "tasks were ended because of what others saved"
        for number in range(MANY):
            agent.channel.send(StopTask(f"room/{number}#0", 7))


async def test_a_task_that_saves_without_pause_leaves_its_turns_to_others() -> None:
    app = rota.App("trial")

    @app.resource()
    async def eager(task: rota.Task) -> None:
        for number in range(1000):
            await task.save({"number": number, "text": "x" * LARGE})

    @app.resource()
    async def calm(task: rota.Task) -> None:
        await asyncio.sleep(0)

    async with hosting(app) as agent:
        agent.start("eager")
        agent.start("calm")
        await agent.end_of("eager")
        ended = [each.task for each in agent.of(TaskEnded)]
        assert ended == ["calm/0#0", "eager/0#0"]
        assert b'"number":999' in agent.of(Save)[-1].state, "the newest state is the one that counts"
        assert agent.heard.index(agent.of(Save)[-1]) < agent.heard.index(await agent.end_of("eager"))


async def test_what_tasks_save_last_reaches_the_agent_before_the_host_ends() -> None:
    app = rota.App("trial")

    @app.resource()
    async def room(task: rota.Task) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await task.save({"text": "x" * LARGE})

    async with hosting(app) as agent:
        for number in range(20):
            agent.start("room", number)
        await eventually(lambda: len(agent.of(TaskStarted)) == 20)
        for number in range(20):
            agent.channel.send(StopTask(f"room/{number}#0", 7))
    assert len(agent.of(Save)) == len(agent.of(TaskEnded)) == 20


class Strange(BaseException):
    """What a library's own way of cancelling looks like."""


class Mute(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        raise ValueError("nothing to say")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        pytest.param(OSError("cannot read " + os.fsdecode(b"caf\xe9")), r"caf\\udce9", id="lone surrogate"),
        pytest.param(ValueError("x" * 40_000_000), "ValueError: xxx", id="40 MB"),
        pytest.param(Strange("time is up"), "Strange: time is up", id="BaseException"),
        pytest.param(Mute(), "Mute: its message cannot be read", id="str() fails"),
        pytest.param(KeyboardInterrupt(), "KeyboardInterrupt", id="KeyboardInterrupt"),
    ],
)
async def test_however_a_task_fails_the_agent_hears_why_and_its_neighbour_notices_nothing(
    error: BaseException, why: str
) -> None:
    app = rota.App("trial")

    @app.resource()
    async def failing(task: rota.Task) -> None:
        await asyncio.sleep(0.01)
        raise error

    @app.resource()
    async def calm(task: rota.Task) -> None:
        await asyncio.Event().wait()

    async with hosting(app) as agent:
        agent.start("calm")
        agent.start("failing")
        ended = await agent.end_of("failing")
        assert not ended.was_asked
        assert re.search(why, ended.error)
        assert len(ended.error) <= 1000
        assert not agent.of(TaskEnded, "calm")
        assert not agent.host.done()
        agent.channel.send(StopTask("calm/0#0", 7))


async def test_a_host_that_cannot_report_the_end_of_a_task_ends_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    app = rota.App("trial")

    @app.resource()
    async def room(task: rota.Task) -> None:
        """Returns at once."""

    def refuse(*_: object) -> None:
        raise RuntimeError("it cannot be sent")

    monkeypatch.setattr(Reports, "add", refuse)

    async def story() -> None:
        async with hosting(app) as agent:
            agent.start("room")
            await asyncio.wait([agent.host], timeout=30)

    with pytest.raises(RuntimeError, match="it cannot be sent"):
        await story()
