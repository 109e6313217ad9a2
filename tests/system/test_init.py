"""`rota init`: what it writes runs, and what is there is left alone."""

import asyncio
import json
import os
import signal
from pathlib import Path

from tests.kit.cli import ROTA, rota
from tests.kit.process import Process
from tests.kit.waiting import eventually


async def test_what_init_writes_runs_all_four_kinds_of_work(tmp_path: Path) -> None:
    made = await asyncio.to_thread(rota, "init", "shop", cwd=tmp_path)
    assert made.out == "wrote shop/app.py and shop/rota.toml\nnext: cd shop && rota up app.py\n"
    shop = tmp_path / "shop"

    async def told(*words: str) -> str:
        return (await asyncio.to_thread(rota, *words, cwd=shop)).out

    argv = ["sh", "-c", f'cd "{shop}" && exec "$0" "$@"', ROTA, "up", "app.py", "--nodes", "2"]
    with Process(argv, tmp_path / "up.out") as up:
        await eventually(lambda: [line for line in up.lines() if line.startswith("ready")], within=90)
        run = json.loads(await told("jobs", "run", "report", "-o", "json"))
        assert run["state"] == "succeeded"
        assert (await told("runs", "logs", "--last", "report")).startswith("report for ")
        services = json.loads(await told("services", "ls", "-o", "json"))
        assert "hello" in json.dumps(services)
        await eventually(lambda: _rows(shop), within=60)
        os.kill(up.pid, signal.SIGINT)
        await eventually(lambda: not up.is_running, within=30)
        assert not [line for line in up.lines() if "ERROR" in line or "Traceback" in line]


async def _rows(shop: Path) -> bool:
    """Has the stream published what the resource's task wrote?"""
    lag = await asyncio.to_thread(rota, "streams", "lag", "clicks", "-o", "json", cwd=shop)
    return lag.code == 0 and any(each["committed"] for each in json.loads(lag.out))


def test_init_overwrites_nothing_and_then_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text("[node]\n")
    refused = rota("init", cwd=tmp_path)
    assert refused.code == 5
    assert "rota.toml is there already; move it away, or name another folder" in refused.err
    assert [each.name for each in tmp_path.iterdir()] == ["rota.toml"]
    assert (tmp_path / "rota.toml").read_text() == "[node]\n"


def test_init_here_says_the_next_command_also_to_programs(tmp_path: Path) -> None:
    assert json.loads(rota("init", "-o", "json", cwd=tmp_path).out) == {
        "files": ["app.py", "rota.toml"],
        "next": ["rota up app.py"],
    }
    assert rota("config", "check", cwd=tmp_path).code == 0


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = rota("init", "file/below", cwd=tmp_path)
    assert refused.code == 4
    assert "file/below" in refused.err
    assert "Traceback" not in refused.err
