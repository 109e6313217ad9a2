"""The agent's hold on a process of its own."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.kit.time.clock import SYSTEM
from rota.model.config import RelayConfig
from rota.model.errors import Unavailable
from rota.model.ids import NodeId
from rota.relay.node import hold
from rota.relay.node.hold import NodeRelay, RelayPlace
from rota.relay.process.pipe import AskTallies, RelayTold
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.pipes.channel import Pipe
from rota.runtime.system import children, kernel
from rota.runtime.system.children import ChildProcess
from tests.kit.waiting import eventually


class Sleeper:
    """A process that says nothing, and our own hand on its end of the channel."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"], process_group=0)
        self.pipe: Pipe | None = None

    def start(self, control: int) -> tuple[kernel.ProcessHandle, int]:
        self.pipe = Pipe(socket.socket(fileno=os.dup(control)))
        theirs, ours = os.pipe()
        os.close(theirs)
        return kernel.ProcessHandle(self.process.pid), ours

    def end(self) -> None:
        if self.pipe is not None:
            self.pipe.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    found = Sleeper()
    yield found
    found.end()


class Asked(ChildProcess[RelayTold]):
    """One that can be asked, and that counts its ends."""

    ends = 0

    def _hear(self, message: Any) -> None:
        self._answered(message)

    def _ended(self) -> None:
        self.ends += 1
        self.handle.close()


def question(number: int) -> AskTallies:
    return AskTallies(number, "room", None)


def test_a_process_says_what_it_does_with_messages_and_with_its_end(sleeper: Sleeper) -> None:
    class Unheard(ChildProcess[RelayTold]):
        def _ended(self) -> None: ...

    with pytest.raises(TypeError, match="_hear"):
        Unheard("it", sleeper.start)  # type: ignore[abstract]


async def test_an_answer_goes_to_the_question_of_its_number(sleeper: Sleeper) -> None:
    child = Asked("it", sleeper.start)
    first, second = (asyncio.create_task(child.ask(question)) for _ in range(2))
    await asyncio.sleep(0)
    assert sleeper.pipe is not None
    for number in (2, 2, 1):  # one comes twice
        sleeper.pipe.send(RelayTold(number))
    assert [(await first).number, (await second).number] == [1, 2]
    child.kill()


async def test_an_answer_that_is_late_is_nobodys(sleeper: Sleeper) -> None:
    child = Asked("it", sleeper.start)
    with pytest.raises(Unavailable, match=r"it did not answer within 0\.01 s"):
        await child.ask(question, within=0.01)
    assert sleeper.pipe is not None
    sleeper.pipe.send(RelayTold(1))
    asked = asyncio.create_task(child.ask(question))
    await asyncio.sleep(0)
    sleeper.pipe.send(RelayTold(2))
    assert (await asked).number == 2
    child.kill()


async def test_it_ends_once_and_says_so_to_all_who_wait(sleeper: Sleeper) -> None:
    child = Asked("it", sleeper.start)
    asked = [asyncio.create_task(child.ask(question)) for _ in range(2)]
    await asyncio.sleep(0)
    assert sleeper.pipe is not None
    sleeper.pipe.close()
    for each in asked:
        with pytest.raises(Unavailable, match="it ended before it answered"):
            await each
    child.kill()
    assert (child.is_alive, child.ends) == (False, 1)


async def test_nothing_stays_open_of_one_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = socket.socketpair()
    monkeypatch.setattr(children, "pair", lambda: ends)

    def fails(control: int) -> tuple[kernel.ProcessHandle, int]:
        raise OSError(12, "Cannot allocate memory")

    with pytest.raises(OSError, match="Cannot allocate memory"):
        Asked("it", fails)
    assert [end.fileno() for end in ends] == [-1, -1]


async def test_a_relay_that_dies_before_it_is_told_anything_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Sleeper] = []

    def dead(*_: Any) -> tuple[kernel.ProcessHandle, int]:
        started.append(sleeper := Sleeper())
        theirs, ours = os.pipe()
        os.close(theirs)
        return kernel.ProcessHandle(sleeper.process.pid), ours

    monkeypatch.setattr(hold, "start", dead)  # nobody holds the other end of its channel
    app = rota.App("app")

    @app.resource(sink="memory://")
    async def room(task: rota.Task) -> None: ...

    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as door:
        place = RelayPlace(config=RelayConfig(), folder=tmp_path, door=door, address="127.0.0.1:1", token=lambda: "a")
        policy = RestartPolicy(first=timedelta(milliseconds=1))
        found = NodeRelay(NodeId("a"), place, policy, SYSTEM, lambda event, *_, **__: told.append(event), list)
        found.serve(app.summary())
        assert found.process is None
        await eventually(lambda: found.mend() or len(started) > 1)
        found.kill()
    for each in started:
        each.end()
    assert "relay.exited" in told
