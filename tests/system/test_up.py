"""`rota up` as a user meets it."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.kit.cli import ROTA, rota
from tests.kit.node import APP, child_called, is_alive, when_open
from tests.kit.process import Process
from tests.kit.rota_up import fleet, ready
from tests.kit.servers import free_ports
from tests.kit.waiting import eventually


def below(up: Process) -> list[psutil.Process]:
    return psutil.Process(up.pid).children(recursive=True)


def alive(family: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in family if is_alive(each)]


async def test_three_nodes_come_up_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path, "--nodes", 3) as up:
        line = await ready(up)
        assert "3 nodes" in line
        assert "leads" in line
        await eventually(lambda: len(below(up)) >= 3 * 6)
        family = below(up)
        status = rota("status", "--store", "sqlite:///.rota/up/rota.db", cwd=tmp_path)
        assert [words.split()[0] for words in status.out.splitlines()[2:5]] == ["n1", "n2", "n3"]
        assert "trial g1" in status.out
        reload = rota("reload", cwd=tmp_path)
        assert reload.out.splitlines() == [f"node n{n}: generation 2 took over from 1" for n in (1, 2, 3)], reload.err
        events = ("events", "--store", "sqlite:///.rota/up/rota.db")
        await eventually(lambda: "reload.done" in rota(*events, cwd=tmp_path).out)
        family += below(up)
        os.kill(up.pid, signal.SIGINT)
        await eventually(lambda: not up.is_running)
        await eventually(lambda: alive(family) == [])  # a guard ends a moment after whom it guarded


async def test_a_node_that_is_killed_is_started_again(tmp_path: Path) -> None:
    async with fleet(tmp_path, "--nodes", 2) as up:
        await ready(up)
        victim = child_called(up.pid, "n2")
        orphans = victim.children(recursive=True)
        victim.kill()
        await eventually(lambda: alive(orphans) == [])
        await eventually(lambda: "n2 | ended (killed by SIGKILL); starting it again" in up.lines())
        await eventually(lambda: [line for line in up.lines() if "joined node=n2" in line][1:], within=30)


async def test_when_up_itself_is_killed_nothing_is_left(tmp_path: Path) -> None:
    async with fleet(tmp_path, "--nodes", 2) as up:
        await ready(up)
        family = below(up)
        os.kill(up.pid, signal.SIGKILL)
        await eventually(lambda: alive(family) == [])


async def test_term_finishes_first(tmp_path: Path) -> None:
    async with fleet(tmp_path) as up:
        await ready(up)
        family = below(up)
        os.kill(up.pid, signal.SIGTERM)
        await eventually(lambda: not up.is_running, within=30)
        await eventually(lambda: alive(family) == [])
        assert any("left node=n1" in line for line in up.lines())


async def test_a_broken_app_is_shown_and_ends_it(tmp_path: Path) -> None:
    async with fleet(tmp_path, "--nodes", 2, app="import rota\napp = rota.App('x')\n1/0\n") as up:
        await eventually(lambda: not up.is_running, within=30)
        assert any("ZeroDivisionError: division by zero" in line for line in up.lines())


async def test_a_first_import_may_take_longer_than_a_reload_and_is_reported_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_RELOAD_TIMEOUT", "1s")  # over long before the first report
    gate = tmp_path / "gate"
    async with fleet(tmp_path, app=when_open(gate) + APP) as up:
        await eventually(lambda: any("still importing the app app=app.py" in line for line in up.lines()))
        gate.touch()
        await ready(up)


async def test_a_first_import_that_takes_too_long_ends_it_and_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_LOAD_TIMEOUT", "1s")
    async with fleet(tmp_path, app=when_open(tmp_path / "never") + APP) as up:
        await eventually(lambda: not up.is_running, within=60)
        said = "its import did not end within 1s; load_timeout in [runtime] sets how long it may take"
        assert any(said in line for line in up.lines()), up.lines()


async def test_a_missing_app_names_the_file(tmp_path: Path) -> None:
    answer = await asyncio.to_thread(rota, "up", "ap.py", cwd=tmp_path)
    assert answer.code != 0
    assert "ap.py" in answer.out + answer.err
    assert "Traceback" not in answer.out + answer.err


@pytest.mark.parametrize(("before", "named"), [(0, "--port"), (1, "--port, as gRPC takes the one after it")])
def test_a_port_that_is_taken_is_an_error_that_names_the_option(tmp_path: Path, before: int, named: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    ports = free_ports(2)  # none of those that the system gives to whoever asks meanwhile
    port = ports[before]
    with socket.create_server(("127.0.0.1", port)):
        answer = rota("up", "app.py", "--port", ports[0], cwd=tmp_path)
    why = f"address 127.0.0.1:{port} is taken; stop what listens there, or choose another with {named}"
    assert (answer.code, answer.out, answer.err) == (5, "", f"rota: {why}\n")


@pytest.mark.parametrize("way", ["env", "file"])
def test_an_address_of_the_settings_that_is_taken_names_the_setting(tmp_path: Path, way: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        if way == "file":
            (tmp_path / "rota.toml").write_text(f'[node]\nhttp = "{address}"\n')
        environ = {"ROTA_HTTP": address} if way == "env" else {}
        answer = rota("up", "app.py", cwd=tmp_path, environ=environ)
    named = "ROTA_HTTP" if way == "env" else "rota.toml:2"
    assert (answer.code, answer.out) == (5, "")
    assert answer.err == f"rota: address {address} is taken; stop what listens there, or choose another with {named}\n"


def test_a_folder_that_cannot_be_written_is_refused_without_options_that_there_are_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / ".rota").write_text("a file")
    answer = rota("up", "app.py", cwd=tmp_path)
    assert answer.code == 4
    assert answer.err.startswith(
        "rota: rota up keeps its fleet in .rota/up of this folder, and that cannot be written ("
    )
    assert "--data" not in answer.err


async def test_a_second_one_in_the_same_folder_refuses(tmp_path: Path) -> None:
    async with fleet(tmp_path) as up:
        await ready(up)
        answer = await asyncio.to_thread(rota, "up", "app.py", cwd=tmp_path)
        assert answer.code == 5
        assert (
            f"rota up runs in this folder already (pid {up.pid}); stop it, or start this one in another" in answer.err
        )
        assert "--data" not in answer.err


async def test_commands_beside_it_find_its_fleet_while_it_runs_and_after(tmp_path: Path) -> None:
    async with fleet(tmp_path) as up:
        await ready(up)
        seen = await asyncio.to_thread(rota, "status", cwd=tmp_path)
        assert seen.out.splitlines()[0] == "fleet: sqlite:///.rota/up/rota.db (.rota/up)", seen.err
        assert seen.out.splitlines()[1].startswith("leader: n1")
        assert (await asyncio.to_thread(rota, "nodes", "cordon", "n1", cwd=tmp_path)).code == 0
    after = await asyncio.to_thread(rota, "nodes", cwd=tmp_path)
    assert after.code == 0, after.err
    assert "cordoned" in after.out


async def test_it_ends_when_its_nodes_were_stopped(tmp_path: Path) -> None:
    async with fleet(tmp_path, "--nodes", 2) as up:
        await ready(up)
        one = await asyncio.to_thread(rota, "stop", "--id", "n1", cwd=tmp_path)
        assert one.out == "node n1: stopped\n", one.err
        await eventually(lambda: "n1 | was stopped" in up.lines())
        assert up.is_running
        other = await asyncio.to_thread(rota, "stop", cwd=tmp_path)
        assert other.out == "node n2: stopped\n", other.err
        await eventually(lambda: not up.is_running)


async def test_term_while_a_node_is_about_to_be_started_again_is_heeded(tmp_path: Path) -> None:
    async with fleet(tmp_path) as up:
        await ready(up)
        (node,) = psutil.Process(up.pid).children()
        node.kill()
        await eventually(lambda: [line for line in up.lines() if "starting it again" in line])
        os.kill(up.pid, signal.SIGTERM)
        await eventually(lambda: not up.is_running)


CHATTY = APP + "\n@app.on_worker_start\ndef chat():\n    for _ in range(5000):\n        print('x' * 100)\n"


@asynccontextmanager
async def unread(folder: Path) -> AsyncIterator[tuple[subprocess.Popen[bytes], int]]:
    """`rota up` with more to say than a pipe holds; its process, and the end to read."""
    (folder / "app.py").write_text(CHATTY)
    reader, writer = os.pipe()
    with _up(folder, writer) as up:
        os.close(writer)
        try:
            await eventually(lambda: _waiting(reader) > 60_000, within=60)
            yield up, reader
        finally:
            up.kill()


def _up(folder: Path, stdout: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([ROTA, "up", "app.py"], cwd=folder, stdout=stdout, stderr=subprocess.DEVNULL)


def _waiting(reader: int) -> int:
    """Bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder)


async def test_it_ends_when_the_reader_of_its_lines_is_gone(tmp_path: Path) -> None:
    async with unread(tmp_path) as (up, reader):
        family = psutil.Process(up.pid).children(recursive=True)
        os.close(reader)
        await eventually(lambda: up.poll() is not None, within=60)
        assert up.returncode == 128 + signal.SIGPIPE
        await eventually(lambda: alive(family) == [])


async def test_ctrl_c_ends_it_though_nobody_reads_its_lines(tmp_path: Path) -> None:
    async with unread(tmp_path) as (up, reader):
        up.send_signal(signal.SIGINT)
        await eventually(lambda: up.poll() is not None, within=60)
        assert up.returncode == 0
        os.close(reader)


async def test_another_app_on_the_same_store_is_refused_and_says_which_fleet_is_there(tmp_path: Path) -> None:
    async with fleet(tmp_path) as up:
        await ready(up)
        os.kill(up.pid, signal.SIGINT)
        await eventually(lambda: not up.is_running)
    (tmp_path / "app.py").write_text(APP.replace('App("trial")', 'App("blog")'))
    answer = await asyncio.to_thread(rota, "up", "app.py", cwd=tmp_path)
    assert answer.code == 2
    assert 'the store holds the fleet "trial" with the app trial, and this node runs the app "blog"' in answer.out


@pytest.mark.parametrize("name", ["queue", "json"])
async def test_modules_beside_the_app_that_are_called_like_pythons_own_break_nothing_of_rotas(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('this is not the one that Rota wants')\n")
    async with fleet(tmp_path, "--nodes", "2") as up:
        await ready(up)


SMALL = """
import helper
import rota

app = rota.App("small")


@app.job()
def say(run: rota.Run) -> None:
    print(helper.WORD)
"""


def put_in_place(file: Path, text: str) -> None:
    """As editors save: a new file takes the place of the old one."""
    other = file.with_name(f".{file.name}.swp")
    other.write_text(text)
    other.replace(file)


async def test_up_reload_takes_in_what_changed_and_stays_with_the_old_code_when_it_is_broken(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text("WORD = 'one'\n")

    async def said() -> str:
        await asyncio.to_thread(rota, "jobs", "run", "say", cwd=tmp_path)
        return (await asyncio.to_thread(rota, "runs", "logs", "--last", "say", cwd=tmp_path)).out

    async with fleet(tmp_path, "--nodes", 2, "--reload", app=SMALL) as up:
        await ready(up)
        assert await said() == "one\n"
        put_in_place(helper, "WORD = 'two'\n")
        taken = {"rota: n1 runs generation 2", "rota: n2 runs generation 2"}
        await eventually(lambda: taken <= set(up.lines()), within=120)
        assert "rota: helper.py changed; reloading" in up.lines()
        assert await said() == "two\n"
        (tmp_path / "app.py").write_text("import (\n")
        begins = "rota: n1 was not reloaded, the old code keeps running: "
        [why] = await eventually(lambda: [line for line in up.lines() if line.startswith(begins)], within=120)
        assert "SyntaxError" in why
        assert await said() == "two\n"
        (tmp_path / "app.py").write_text(SMALL.replace("helper.WORD", "helper.WORD * 2"))
        await eventually(lambda: [line for line in up.lines() if line.startswith("rota: n2 runs gen")][1:], within=120)
        assert await said() == "twotwo\n"
