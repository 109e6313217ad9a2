"""Services of `rota up`: nodes share the sockets of fixed ports, and readiness says whether each service listens."""

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.kit.boxes import Asker
from tests.kit.cli import ROTA, rota
from tests.kit.node import NodeUnderTest, child_called, is_alive, title
from tests.kit.process import Process
from tests.kit.rota_up import fleet, ready
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

APP = """
import os, time
import rota

app = rota.App("t")
logic = app.service("logic", port=@PORT@, udp=True, groups={1: 2})


@logic.on(1, group=1)
def who(request):
    time.sleep(0.02)
    return str(os.getppid()).encode()
"""

STORE = ("--store", "sqlite:///.rota/up/rota.db")


def app(port: int) -> str:
    return APP.replace("@PORT@", str(port))


def proxies(up: Process) -> dict[str, psutil.Process]:
    """The proxy of each node."""
    family = psutil.Process(up.pid).children(recursive=True)
    return {title(each).rpartition(" ")[2]: each for each in family if title(each).startswith("rota: proxy")}


def readyz(address: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


async def test_all_nodes_answer_at_one_fixed_port(tmp_path: Path) -> None:
    port = free_port()
    async with fleet(tmp_path, "--nodes", 3, app=app(port)) as up:
        await ready(up)
        assert not [line for line in up.lines() if "taken" in line or "ERROR" in line]
        for udp in (False, True):
            seen: set[bytes] = set()

            def ask(seen: set[bytes] = seen, udp: bool = udp) -> bool:
                with ExitStack() as open_ones:
                    askers = [open_ones.enter_context(Asker(port, udp=udp)) for _ in range(12)]
                    for asker in askers:
                        asker.send(1)
                    seen.update(asker.receive().body for asker in askers)
                return len(seen) == 3

            await eventually(ask)
        status = rota("status", *STORE, cwd=tmp_path)
        assert len(status.out.splitlines()) == 5, status.out  # the leader, the heading, three nodes, no trouble


@pytest.mark.parametrize("udp", [False, True], ids=["tcp", "udp"])
async def test_what_waits_at_the_port_outlives_the_node_that_is_killed(tmp_path: Path, udp: bool) -> None:
    port = free_port()
    async with fleet(tmp_path, "--nodes", 2, app=app(port)) as up:
        await ready(up)
        standing = await eventually(lambda: found if len(found := proxies(up)) == 2 else None)
        for proxy in standing.values():
            proxy.send_signal(signal.SIGSTOP)
        await eventually(lambda: {each.status() for each in standing.values()} == {psutil.STATUS_STOPPED})
        with ExitStack() as open_ones:
            askers = [open_ones.enter_context(Asker(port, udp=udp)) for _ in range(20)]
            for asker in askers:
                asker.send(1)
            # The proxy ends before its node does. When a parent dies, the kernel wakes stopped children in groups of
            # their own, a moment before the lifeline kills them; a datagram that the proxy read then would be lost.
            node = child_called(up.pid, "n1")
            node.suspend()
            standing["n1"].kill()
            await eventually(lambda: not is_alive(standing["n1"]))
            node.kill()
            standing["n2"].send_signal(signal.SIGCONT)
            assert [asker.receive().ret for asker in askers] == [0] * 20
        await eventually(lambda: [line for line in up.lines() if "joined node=n1" in line][1:], within=60)


async def test_what_waits_at_the_port_outlives_the_only_node(tmp_path: Path) -> None:
    port = free_port()
    async with fleet(tmp_path, "--nodes", 1, app=app(port)) as up:
        await ready(up)
        (standing,) = (await eventually(lambda: proxies(up))).values()
        standing.send_signal(signal.SIGSTOP)
        await eventually(lambda: standing.status() == psutil.STATUS_STOPPED)
        with ExitStack() as open_ones:
            askers = [open_ones.enter_context(Asker(port, within=200)) for _ in range(20)]
            for asker in askers:
                asker.send(1)
            child_called(up.pid, "n1").kill()
            assert [asker.receive().ret for asker in askers] == [0] * 20


async def test_a_reload_that_moves_the_port_gives_the_old_one_back(tmp_path: Path) -> None:
    before, after = free_port(), free_port()
    async with fleet(tmp_path, "--nodes", 2, app=app(before)) as up:
        await ready(up)
        (tmp_path / "app.py").write_text(app(after))
        assert rota("reload", cwd=tmp_path).code == 0

        def has_moved() -> bool:
            with Asker(after) as asker:
                asker.send(1)
                asker.receive()
            with socket.socket() as sock:
                return sock.connect_ex(("127.0.0.1", before)) != 0

        await eventually(has_moved, despite=(OSError,))


async def test_a_fleet_with_a_service_that_cannot_listen_is_not_ready_until_it_can(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with fleet(tmp_path, "--nodes", 2, app=app(port)) as up:
            why = f'service "logic": address 127.0.0.1:{port} is taken'
            shown = await eventually(
                lambda: lines if len(lines := _troubles(tmp_path, "not ready")) == 2 else None, within=60
            )
            assert all(why in line for line in shown)
            assert not [line for line in up.lines() if line.startswith("ready")]
            taken.close()
            await ready(up)
            await eventually(lambda: not _troubles(tmp_path, "not ready"))


def _troubles(folder: Path, words: str) -> list[str]:
    return [line for line in rota("status", *STORE, cwd=folder).out.splitlines() if words in line]


async def test_readiness_of_a_plain_node_names_the_service_that_does_not_listen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with NodeUnderTest(tmp_path, app=app(port)) as node:
            status = await node.until(lambda now: now["session"] and now["doors"].get("http"))
            address = status["doors"]["http"]
            code, answer = await eventually(
                lambda: found if "services" in str((found := readyz(address))[1]) else None, within=60
            )
            assert code == 503
            assert f'service "logic": address 127.0.0.1:{port} is taken' in str(answer)
            assert not (await node.status())["is_ready"]
            status_of = ("status", "--store", node.store)
            shown = await eventually(
                lambda: [line for line in rota(*status_of, cwd=tmp_path).out.splitlines() if "not ready" in line]
            )
            assert str(port) in shown[0]
            taken.close()
            await node.ready()
            await eventually(lambda: readyz(address) == (200, {"ok": True}))


ROOMS = """
import asyncio
import rota
from rota import Resource, Task

app = rota.App("t")


@app.resource(replicas=1, sink="@SINK@")
async def room(task: Task) -> None:
    count = 0
    while True:
        count += 1
        await task.emit({"room": task.spec["id"], "count": count}, key=count)
        await asyncio.sleep(0.05)


@room.source(every="1h")
def rooms() -> list[Resource]:
    return [room(f"r{number}") for number in range(12)]
"""


async def test_each_node_writes_a_file_of_its_own(tmp_path: Path) -> None:
    app = ROOMS.replace("@SINK@", f"file://{tmp_path}/out-{{node}}.jsonl")
    async with fleet(tmp_path, "--nodes", 3, app=app) as up:
        await ready(up)
        files = [tmp_path / f"out-n{number}.jsonl" for number in (1, 2, 3)]
        await eventually(lambda: all(file.exists() and file.stat().st_size for file in files), within=60)
        await eventually(lambda: not _troubles(tmp_path, "node "))


async def test_a_file_that_another_node_has_is_refused_with_what_to_write(tmp_path: Path) -> None:
    app = ROOMS.replace("@SINK@", f"file://{tmp_path}/out.jsonl")
    async with fleet(tmp_path, "--nodes", 2, app=app) as up:
        advice = f"write sink=file://{tmp_path}/out-{{node}}.jsonl"
        await eventually(lambda: [line for line in up.lines() if advice in line], within=60)
        await eventually(lambda: [line for line in _troubles(tmp_path, "is down") if advice in line], within=60)


async def test_a_fleet_of_one_machine_runs_without_grpc(tmp_path: Path) -> None:
    """As installed without extras."""
    hidden = tmp_path / "hidden/grpc"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('no grpc', name='grpc')\n")
    app = ROOMS.replace("@SINK@", f"file://{tmp_path}/out-{{node}}.jsonl")
    app += "\n\n@app.job()\ndef hello(run: rota.Run) -> None:\n    print('hello')\n"
    (tmp_path / "app.py").write_text(app)
    argv = ["sh", "-c", f'cd "{tmp_path}" && exec "$0" "$@"', ROTA, "up", "app.py", "--nodes", 3]
    with Process(argv, tmp_path / "up.out", environ={**os.environ, "PYTHONPATH": str(hidden.parent)}) as up:
        await ready(up)
        assert len([line for line in up.lines() if "pip install 'rota[grpc]'" in line]) == 3
        done = rota("jobs", "run", "hello", *STORE, cwd=tmp_path)
        assert "succeeded" in done.out, done.err
        files = [tmp_path / f"out-n{number}.jsonl" for number in (1, 2, 3)]
        await eventually(lambda: all(file.exists() and file.stat().st_size for file in files), within=60)
        await eventually(lambda: not _troubles(tmp_path, "node "))
