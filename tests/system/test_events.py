"""`rota events` beside nodes that write: each event once, also to who follows."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from rota.fleet.events.event_log import EventLog
from rota.kit.time.clock import SYSTEM
from rota.model.ids import NodeId
from rota.store import open_store
from tests.kit.cli import ROTA, rota
from tests.kit.process import Process
from tests.kit.waiting import eventually


async def test_events_of_several_nodes_are_listed_and_followed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    environ = {**os.environ, "ROTA_STORE": url}
    async with open_store(url) as store:
        logs = [EventLog(store, NodeId(name), SYSTEM) for name in "ab"]
        running = [asyncio.create_task(log.run()) for log in logs]
        for number in range(3):
            for log in logs:
                log.record("node.joined", f"n{number}", term=1)
        await eventually(lambda: all(log.unwritten == 0 for log in logs))
        with Process([ROTA, "events", "-f", "-o", "json"], tmp_path / "follow.out", environ=environ) as follower:
            await eventually(lambda: len(follower.lines()) >= 6, within=30)
            for number in range(200):
                logs[0].record("worker.exited", f"w{number}", pool="echo", code=number)
            await eventually(lambda: len(follower.lines()) >= 206, within=30)
            seen: list[dict[str, Any]] = [json.loads(line) for line in follower.lines()]
            os.kill(follower.pid, signal.SIGINT)
            await eventually(lambda: not follower.is_running)
        for task in running:
            task.cancel()
        await asyncio.wait(running)
    assert [each["subject"] for each in seen[6:]] == [f"w{number}" for number in range(200)]
    assert len({each["id"] for each in seen}) == 206
    answer = rota("events", "--kind", "node.*", "--node", "b", "-o", "json", cwd=tmp_path, environ={"ROTA_STORE": url})
    assert [each["subject"] for each in json.loads(answer.out)] == ["n0", "n1", "n2"]
    assert rota("events", "-n", 1, cwd=tmp_path, environ={"ROTA_STORE": url}).out.endswith("worker w199 exited\n")


def test_the_store_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text('[node]\nstore = "sqlite:///typo.db"\n')
    answer = rota("events", cwd=tmp_path, environ={"ROTA_STORE": ""})
    assert answer.code == 2
    assert answer.err == (
        "rota: store sqlite:///typo.db: no fleet has used it yet; check the URL, or start a node on it\n"
    )
