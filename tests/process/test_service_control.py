"""A node that serves requests, steered with the original control tool and with `rota services`."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.services.core.frames import BOX, wire
from tests.kit.doors import Door
from tests.kit.node import NodeUnderTest
from tests.kit.process import ROOT
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

BURSTCTL = ROOT / ".venv/bin/burstctl"
WIRE = wire(BOX)
APP = """
import os, time
import rota

app = rota.App("trial")
logic = app.service(
    "logic", port=PORT, groups={1: 2, 2: 1}, admin="admin.sock", admin_username="ann", admin_password="file:PASSWORD"
)
SAYS = b"one"


@logic.on(101, group=1)
def hello(request):
    return SAYS


@logic.on(201, group=2)
def wait(request):
    while not os.path.exists("GATE"):
        time.sleep(0.01)
    return SAYS
"""


class Steered(NodeUnderTest):
    """A node with a service and an admin door."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.password = folder / "password"
        folder.mkdir(exist_ok=True)
        self.password.write_text("secret\n")
        app = APP.replace("PORT", str(self.port)).replace("GATE", str(folder / "gate"))
        super().__init__(folder, app=app.replace("PASSWORD", str(self.password)))

    async def burstctl(self, *arguments: object, password: str = "secret") -> str:
        """What the tool prints."""
        argv = [*map(str, arguments), "-a", "admin.sock", "-u", "ann", "-p", password]
        process = await asyncio.create_subprocess_exec(
            BURSTCTL, *argv, cwd=self.data, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 90)
        assert (process.returncode, err.decode()) == (0, "")
        return out.decode().strip()

    async def stat(self) -> dict[str, Any]:
        """What the tool's stat shows."""
        shown: dict[str, Any] = json.loads(await self.burstctl("stat", "--loop", 1))
        return shown

    def request(self, cmd: int, count: int = 1) -> socket.socket:
        """Requests on a connection of their own."""
        line = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        line.sendall(b"".join(WIRE.frame(b"", cmd=cmd, sn=sn) for sn in range(count)))
        return line

    def ask(self) -> bytes:
        """What the quick handler answers."""
        with self.request(101) as line, line.makefile("rb") as answers:
            header = WIRE.read(answers.read(WIRE.size))
            return answers.read(header["packet_len"] - WIRE.size)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Steered]:
    with Steered(tmp_path / "steered") as node:
        await node.ready()
        await eventually((node.data / "admin.sock").exists)
        await eventually(lambda: node.ask() == b"one", despite=(OSError,))
        yield node


async def test_the_original_tool_steers_a_node(node: Steered) -> None:
    shown = await node.stat()
    assert shown["workers"] == {"all": 3, "1": 2, "2": 1}
    assert shown["worker_rsp"]["1"] >= 1
    assert await node.burstctl("stat", password="guess") == "fail. rsp_box.ret=-20000"

    with node.request(201, count=5):
        await eventually(lambda: is_pending(node, 4))
        assert await node.burstctl("clear", "--group", 2) == "succ."
        assert (await node.stat())["pending_tasks"]["2"] == 0
        node.gate.touch()

    node.app.write_text(node.app.read_text().replace('b"one"', 'b"two"'))
    assert await node.burstctl("reload") == "succ."
    assert node.ask() == b"two"
    node.app.write_text("(")
    assert await node.burstctl("reload") == "fail. rsp_box.ret=-21000"
    assert node.ask() == b"two"

    node.password.write_text("changed")
    assert await node.burstctl("stat") == "fail. rsp_box.ret=-20000"
    assert await node.burstctl("stop", password="changed") == "succ."
    await eventually(lambda: not node.is_running)
    assert not (node.data / "admin.sock").exists()


async def is_pending(node: Steered, count: int) -> bool:
    return bool((await node.stat())["pending_tasks"]["2"] == count)


async def test_rota_services_steers_a_node(node: Steered) -> None:
    def services(*arguments: object) -> str:
        answer = node.rota("services", *arguments)
        assert (answer.code, answer.err) == (0, "")
        return answer.out

    (listed,) = json.loads(services("ls", "-o", "json"))
    assert listed["stat"]["listening"] == [f"tcp://127.0.0.1:{node.port}"]
    assert (listed["admin"], listed["admin_closed"]) == ("admin.sock", None)
    assert services("resize", "logic", 1, 4) == f"node {node.name}: logic: group 1 has 4 workers, 2 before\n"
    await eventually(lambda: idle(services("stat", "-o", "json")) == {"1": 4, "2": 1})
    assert services("reload") == f"node {node.name}: generation 2 took over from 1\n"
    await eventually(lambda: idle(services("stat", "-o", "json")) == {"1": 2, "2": 1})
    assert "trial generation 2" in services("version")
    status, text = (await Door.of(node)).http("GET", "/metrics")
    assert status == 200
    assert 'rota_service_workers_wanted{group="1",service="logic"} 2.0' in text
    unknown = node.rota("services", "stat", "logc")
    assert (unknown.code, unknown.err) == (3, 'rota: there is no service "logc"; did you mean "logic"?\n')
    assert services("rollback") == f"node {node.name}: back at generation 1, from 2\n"
    assert services("stop") == f"node {node.name}: stopped\n"
    await eventually(lambda: not node.is_running)


def idle(text: str) -> dict[str, int]:
    (found,) = json.loads(text)
    counts: dict[str, int] = found["idle_workers"]
    return counts
