"""The original control tool, as it was released, against a node's admin door."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rota.model.errors import Conflict
from rota.services.admin.doors import Admins
from rota.services.core.admin_spec import AdminSpec
from tests.kit.process import ROOT
from tests.kit.servers import free_port
from tests.kit.services import MemoryServices
from tests.kit.waiting import eventually

BURSTCTL = ROOT / ".venv/bin/burstctl"
FIELDS = [
    "clients", "workers", "busy_workers", "idle_workers", "pending_tasks", "client_req", "client_rsp", "worker_req",
    "worker_rsp", "discard_tasks", "tasks_time",
]  # fmt: skip
"""In the order in which the tool prints them."""

LINE = "-" * 80


@dataclass
class Node:
    """A node with one service in memory, and the tool that speaks to it."""

    services: MemoryServices
    address: str
    asked: list[str] = field(default_factory=list)
    is_stopping: bool = False

    async def reload(self) -> object:
        if self.is_stopping:
            raise Conflict("the node is stopping; it takes in no new code")
        self.asked.append("reload")
        return {"generation": 2, "previous": 1}

    def stop(self) -> None:
        self.asked.append("stop")

    async def burstctl(self, *arguments: object, username: str = "ann", password: str = "secret") -> str:
        """What the tool prints; it must end well and complain about nothing."""
        argv = [*arguments, "-a", self.address, "-u", username, "-p", password]
        process = await asyncio.create_subprocess_exec(
            BURSTCTL, *map(str, argv), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 90)
        assert (process.returncode, err.decode()) == (0, "")
        return out.decode().strip()


@pytest.fixture(params=["unix", "tcp"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Node]:
    """A node whose door asks for a name and a password."""
    port = free_port()
    place, address = {
        "unix": ("admin.sock", str(tmp_path / "admin.sock")),
        "tcp": (("127.0.0.1", port), f"tcp://127.0.0.1:{port}"),
    }[request.param]
    spec = AdminSpec(address=place, username="ann", password="env:PASSWORD")
    node = Node(MemoryServices({"logic": {1: 8, 2: 2}}, {"logic": spec}), address)
    admins = Admins(tmp_path, node.services, node.reload, node.stop, {"PASSWORD": "secret"})
    running = asyncio.create_task(admins.run())

    async def is_open() -> bool:
        return not (await node.burstctl("stat", "--loop", 1)).startswith("connect fail")

    await eventually(is_open)
    yield node
    running.cancel()
    await asyncio.wait([running])


async def stat(node: Node) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(await node.burstctl("stat", "--loop", 1))
    return shown


async def test_stat_shows_every_field(node: Node) -> None:
    node.services.work("logic", 1, 5, ms=20)
    node.services.work("logic", 2, 1, ms=9000)
    node.services.enqueue("logic", 2, 3)
    shown = await stat(node)
    assert list(shown) == FIELDS
    assert list(shown["workers"].items()) == [("all", 10), ("1", 8), ("2", 2)]
    assert shown["pending_tasks"] == {"all": 3, "1": 0, "2": 3}
    assert shown["worker_rsp"] == {"all": 6, "1": 5, "2": 1}
    assert shown["tasks_time"] == {"50": 5, "more": 1}
    assert (shown["clients"], shown["client_req"], shown["client_rsp"]) == (1, 9, 6)


async def test_stat_goes_on_and_shows_differences(node: Node) -> None:
    running = asyncio.create_task(node.burstctl("stat", "--loop", 3, "--diff"))
    while not running.done():  # requests come as long as it looks
        node.services.work("logic", 1)
        node.services.failures[f"reason {len(node.services.failures)}"] = 1  # which was not there the sample before
        await asyncio.sleep(0.02)
    shown = [json.loads(text) for text in re.split(f"{LINE}\n", await running) if text.strip()]
    assert [list(each) for each in shown] == [FIELDS, FIELDS]
    assert shown[0]["worker_req"]["1"] > 0
    assert shown[0]["workers"] == {"all": 0, "1": 0, "2": 0}


async def test_clear_empties_queues(node: Node) -> None:
    for group in (1, 2):
        node.services.enqueue("logic", group, 5)
    assert await node.burstctl("clear", "--group", 2) == "succ."
    assert (await stat(node))["pending_tasks"] == {"all": 5, "1": 5, "2": 0}
    assert await node.burstctl("clear", "--all") == "succ."
    assert (await stat(node))["discard_tasks"] == {"all": 10, "1": 5, "2": 5}
    assert await node.burstctl("clear", "--group", 9) == "fail. rsp_box.ret=-21000"


async def test_reload_and_stop_reach_the_node(node: Node) -> None:
    assert await node.burstctl("reload") == "succ."
    assert await node.burstctl("stop") == "succ."
    assert node.asked == ["reload", "stop"]
    node.is_stopping = True
    assert await node.burstctl("reload") == "fail. rsp_box.ret=-21000"


@pytest.mark.parametrize("command", ["stat", "reload", "stop", "clear"])
async def test_a_wrong_password_is_told(node: Node, command: str) -> None:
    assert await node.burstctl(command, password="guess") == "fail. rsp_box.ret=-20000"
    assert node.asked == []
