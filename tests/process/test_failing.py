"""A resource whose task keeps failing is shown as failing on every door, until its code is fixed."""

import json
import os
import signal
from pathlib import Path

from rota.resources.doors import operations as resource_operations
from rota.store import Store, open_store
from rota.views.overview import Concern, overview
from tests.kit.cli import rota
from tests.kit.fleet_records import CLOCK
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually

FAILS = """
import asyncio
import rota

app = rota.App("rooms")


@app.resource()
async def room(task: rota.Task) -> None:
    if task.resource == "bad":
        raise ConnectionError("no camera")
    while True:
        await asyncio.sleep(1)
        task.alive()
"""


async def test_a_task_that_fails_again_and_again_is_a_concern_until_its_code_is_fixed(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "node", "--role", "both", app=FAILS) as node:
        async with open_store(node.store) as store:
            await node.ready()
            for id in ("bad", "good"):
                await eventually(lambda id=id: _is_added(store, id), within=30)
            concern = await eventually(lambda: _concern(store), within=60)
            assert concern.subject == "room/bad"
            assert f"fails on {node.name}: " in concern.text
            assert "no camera" in concern.text
            listed = json.loads(rota("resources", "ls", "-o", "json", "--store", node.store, cwd=tmp_path).out)
            assert {view["id"]: view["state"] for view in listed}["bad"] == "failing"
            assert "resource room/bad: " in rota("status", "--store", node.store, cwd=tmp_path).out
            await eventually(lambda: _is_state(store, "good", "covered"), within=60)
            file = node.app
            file.write_text(FAILS.replace("raise ConnectionError", "print"))
            os.kill(node.pid, signal.SIGHUP)
            await eventually(lambda: _is_state(store, "bad", "covered"), within=60)
            assert await _concern(store) is None


async def _is_added(store: Store, id: str) -> bool:
    if not any(kind.name == "room" for kind in await resource_operations.list_kinds(store)):
        return False
    await resource_operations.create_resource(store, CLOCK, {"kind": "room", "id": id})
    return True


async def _is_state(store: Store, id: str, state: str) -> bool:
    return (await resource_operations.get_resource(store, "room", id)).state == state


async def _concern(store: Store) -> Concern | None:
    return next(
        (each for each in (await overview(store)).concerns if each.about == "resource" and "fails on" in each.text),
        None,
    )
