"""The example with live rooms under test: its platform, a fleet that runs its app, and its check."""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from rota.model.errors import Unavailable
from tests.kit.cli import rota
from tests.kit.fleet import stop_all
from tests.kit.node import NodeUnderTest, title, workers
from tests.kit.process import ROOT, Process
from tests.kit.servers import RabbitMQ, free_port
from tests.kit.waiting import eventually

EXAMPLE = ROOT / "examples/05-live-rooms"
HOSTS = 2
"""Processes of each node that hold connections."""

WINDOW = 1000
"""Messages that each relay may have under way, and so how many may come twice when something dies."""


@dataclass(frozen=True, kw_only=True)
class Talk:
    """What the platform does."""

    rooms: int
    rate: float = 2.0
    cuts: float = 0.0
    silences: float = 0.0


@dataclass
class LiveRooms:
    """Platform, fleet and broker, running."""

    talk: Talk
    platform: Process
    nodes: list[NodeUnderTest]
    server: RabbitMQ
    folder: Path
    url: str
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "sent.jsonl"

    async def until_heard(self, without: int = 0, within: float = 120.0) -> None:
        """Every room is heard by two tasks, and none of them is in the process `without`."""

        async def running() -> bool:
            statuses = [await node.status() for node in self.nodes]
            hosts = [pid for status in statuses for pid in workers(status, "host")]
            tasks = sum(status["work"]["tasks_running"] for status in statuses)
            return tasks == 2 * self.talk.rooms and len(hosts) == HOSTS * len(self.nodes) and without not in hosts

        await eventually(running, within=within, despite=(Unavailable,))  # a node may be slow while it starts so much

    async def until_said(self, count: int) -> None:
        """The platform has said so much more."""
        goal = self._said() + count
        await eventually(lambda: self._said() >= goal, within=60)

    def _said(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def kill_a_worker(self) -> int:
        """One of those that hold connections; its pid."""
        victim = random.choice(self._called("rota: host"))
        victim.kill()
        return victim.pid

    def relays(self) -> list[psutil.Process]:
        """The relays' processes."""
        return self._called("rota: relay")

    def relay_pids(self) -> set[int]:
        """Which they are at this moment."""
        return {each.pid for each in self.relays()}

    def _called(self, name: str) -> list[psutil.Process]:
        return [each for node in self.nodes for each in node.family() if title(each).startswith(name)]

    async def verdict(self) -> dict[str, int]:
        """What the check says, once the platform is silent and everything has arrived."""
        self.platform.stop()
        drained = await asyncio.to_thread(rota, "relay", "drain", "--store", self.url, cwd=self.folder, within=90.0)
        assert drained.code == 0, drained.out + drained.err
        argv = [sys.executable, EXAMPLE / "check.py", self.log, "--json", "--amqp", _amqp(self.server)]
        checking = await asyncio.create_subprocess_exec(*map(str, argv), stdout=asyncio.subprocess.PIPE)
        told, _ = await checking.communicate()
        found: dict[str, int] = json.loads(told)
        return found

    async def stats(self) -> dict[str, Any]:
        """What `rota relay stat` tells."""
        answer = await asyncio.to_thread(rota, "relay", "stat", "-o", "json", "--store", self.url, cwd=self.folder)
        found: dict[str, Any] = json.loads(answer.out)
        return found


@asynccontextmanager
async def live_rooms(folder: Path, server: RabbitMQ, talk: Talk, *flags: object) -> AsyncIterator[LiveRooms]:
    """Two nodes that hold the rooms, inside."""
    await make_queue(server)
    port, url = free_port(), f"sqlite:///{folder}/rota.db"
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(f"rota_{folder.name}_shared_by_both_nodes\n")
    usual = (
        "--token",
        f"file:{token}",
        "--role",
        "both",
        "--slots",
        talk.rooms,
        "--hosts",
        HOSTS,
        "--lease-ttl",
        "5s",
        "--drain",
        "5s",
    )
    environ = where(port, server)
    with ExitStack() as stack:
        platform = stack.enter_context(platform_of(folder, port, talk))
        await eventually(platform.lines)
        app = (EXAMPLE / "app.py").read_text()
        nodes = [
            stack.enter_context(
                NodeUnderTest(folder / name, *usual, *flags, name=name, app=app, environ=environ, store=url)
            )
            for name in ("a", "b")
        ]
        for node in nodes:
            await node.ready()
        yield LiveRooms(talk, platform, nodes, server, folder, url)
        stop_all(nodes)


async def make_queue(server: RabbitMQ) -> None:
    """Where messages arrive, empty."""
    make = [sys.executable, str(EXAMPLE / "check.py"), "--make-queue", "--amqp", _amqp(server)]
    assert await (await asyncio.create_subprocess_exec(*make)).wait() == 0


def platform_of(folder: Path, port: int, talk: Talk) -> Process:
    """The platform, which writes what it says into `sent.jsonl`."""
    told = [item for name, value in vars(talk).items() for item in (f"--{name}", value)]
    argv = [sys.executable, EXAMPLE / "live_platform.py", "--port", port, "--log", folder / "sent.jsonl", *told]
    return Process(argv, folder / "platform.out")


def where(port: int, server: RabbitMQ, window: int = WINDOW) -> dict[str, str]:
    """What the app is told: where the platform is, and where messages go."""
    return {
        "LIVE_PLATFORM": f"ws://127.0.0.1:{port}/rooms",
        "LIVE_SINK": f"{_amqp(server)}?exchange=live&window={window}",
    }


def _amqp(server: RabbitMQ) -> str:
    return f"amqp://guest:guest@127.0.0.1:{server.port}"
