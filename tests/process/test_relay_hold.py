"""The agent's hold on a real relay process, without a node around it."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

import rota
from rota.kit.time.clock import SYSTEM
from rota.model.config import RelayConfig
from rota.model.errors import Unavailable
from rota.model.ids import NodeId
from rota.relay.node import hold
from rota.relay.node.hold import NodeRelay, RelayPlace
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.system import children
from tests.kit.waiting import eventually


def reaped(pid: int | None) -> int | None:
    """How a child ended; None if it has not yet."""
    assert pid is not None
    found, status = os.waitpid(pid, os.WNOHANG)
    return status if found else None


async def answers(found: NodeRelay) -> bool:
    """Does its process answer? (It may be started again meanwhile.)"""
    try:
        return await found.tallies("room") == ()
    except Unavailable:
        return False


async def test_a_relay_that_is_frozen_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "WATCH", 0.05)
    monkeypatch.setattr(hold, "STRIKES", 2)
    monkeypatch.setattr(children, "ANSWER", 3.0)
    app = rota.App("app")

    @app.resource(sink="memory://")
    async def room(task: rota.Task) -> None: ...

    with socket.create_server(("127.0.0.1", 0)) as door:
        place = RelayPlace(
            config=RelayConfig(), folder=tmp_path, door=door, address="127.0.0.1:1", token=lambda: "a-token"
        )
        found = NodeRelay(NodeId("a"), place, RestartPolicy(), SYSTEM, lambda *_, **__: None, list)
        found.serve(app.summary())
        watching = asyncio.create_task(found.watch())
        await eventually(lambda: found.status)
        first = found.pid
        assert first is not None
        assert await eventually(lambda: answers(found)), "it does not answer"
        os.kill(first, signal.SIGSTOP)
        monkeypatch.setattr(children, "ANSWER", 0.5)
        await eventually(lambda: found.mend() or (found.pid not in (None, first)), within=30)
        monkeypatch.setattr(children, "ANSWER", 30.0)  # its successor may take its time
        await eventually(lambda: reaped(first) == signal.SIGKILL)
        await eventually(lambda: found.status)
        last = found.pid
        found.kill()
        watching.cancel()
        await eventually(lambda: reaped(last) is not None)
