"""The command line with a running fleet."""

import json
import signal
import sqlite3
from pathlib import Path

from tests.kit.cli import rota
from tests.kit.process import Process
from tests.kit.trials import rota_node
from tests.kit.waiting import eventually


async def test_status_shows_the_leader_and_every_node(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    with rota_node(url, "a", tmp_path, "5s"), rota_node(url, "b", tmp_path, "5s"):

        def fleet() -> dict[str, object] | None:
            answer = rota("status", "--store", url, "-o", "json", cwd=tmp_path)
            seen = json.loads(answer.out) if answer.code == 0 else {}
            return seen if seen.get("leader") and len(seen["nodes"]) == 2 else None

        seen = await eventually(fleet)
        assert {node["id"] for node in seen["nodes"]} == {"a", "b"}
        assert [node["id"] for node in seen["nodes"] if node["leads"]] == [seen["leader"]["node"]]
        table = rota("status", "--store", url, cwd=tmp_path).out
        assert f"leader: {seen['leader']['node']} in term {seen['leader']['term']}" in table


async def test_a_second_node_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    with rota_node(url, "a", tmp_path, "5s") as first:
        await eventually(lambda: "leading" in first.complaint())
        answer = rota("node", "--store", url, "--id", "a", "--data", tmp_path / "a", cwd=tmp_path)
        assert answer.code == 5
        assert f"in use by pid {first.pid}; stop it, or choose another with --data" in answer.err


async def test_a_node_leaves_at_once_when_asked_to(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    for name, number in (("a", signal.SIGTERM), ("b", signal.SIGINT)):  # each with files of its own, which begin empty
        with rota_node(url, name, tmp_path, "60s") as node:
            await eventually(lambda node=node: "leading" in node.complaint())
            node.send(number)
            await eventually(lambda node=node: not node.is_running)
            assert f"left node={name}" in node.complaint()
        assert json.loads(rota("status", "--store", url, "-o", "json", cwd=tmp_path).out)["nodes"] == []


async def test_a_node_that_was_killed_is_back_at_once(tmp_path: Path) -> None:
    """Its folder proves that its earlier life is over: no lease has to be waited for."""
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    node: Process = rota_node(url, "a", tmp_path, "3600s")
    with node:
        await eventually(lambda: "leading" in node.complaint())
        node.kill()
        node.errors.write_text("")
        node.start()
        await eventually(lambda: "leading" in node.complaint())


def test_simulate_prints_the_seed_that_failed_and_how_to_replay_it(tmp_path: Path) -> None:
    answer = rota("simulate", "election", "--seeds", 10, "--break", "fence", cwd=tmp_path)
    assert answer.code == 1
    replay = next(line for line in answer.out.splitlines() if line.startswith("replay: rota "))
    again = rota(*replay.removeprefix("replay: rota ").split(), cwd=tmp_path)
    assert again.code == 1
    assert "VIOLATION" in again.out
    assert answer.out.splitlines()[0] in again.out
    assert rota("simulate", "election", "--seeds", 3, cwd=tmp_path).code == 0


async def test_a_node_can_be_stopped_while_it_waits_for_its_store(tmp_path: Path) -> None:
    database = tmp_path / "rota.db"
    blocker = sqlite3.connect(database, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with rota_node(f"sqlite:///{database}?timeout=60s", "a", tmp_path, "5s") as node:
        await eventually((tmp_path / "a" / "node").exists)
        node.send(signal.SIGTERM)
        await eventually(lambda: not node.is_running, within=30)
    blocker.close()
