"""`rota resources ls`: what a row says."""

import asyncio
from datetime import timedelta
from pathlib import Path

from click.testing import CliRunner

from rota.fleet.cli.status import command as status_command
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.model.node import NodeStatus
from rota.resources.cli.resources import command
from rota.resources.core.declared import ORIGIN
from rota.resources.core.records import Trouble, WantedResource, record_of
from rota.store import Put, open_store
from tests.kit.fleet_records import create, declare, settle


def test_a_list_says_who_gave_a_resource_back_lately(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            await declare(store, "room")
            for id, ago in {"1": 1, "2": 60}.items():
                at = await store.now() - timedelta(minutes=ago)
                trouble = Trouble(node=NodeId("a"), at=at, why="no camera", strikes=4)
                await settle(store, await create(store, id), "b", given_back=trouble)

    asyncio.run(fill())
    listed = CliRunner().invoke(command, ["ls", "--store", url], catch_exceptions=False)
    assert "node a gave it back at" in listed.stdout.splitlines()[1]
    assert listed.stdout.splitlines()[1].endswith("time 4 in a row: no camera")
    assert listed.stdout.splitlines()[2].split() == ["room/2", "covered", "1/1", "1", "0", "b"]


def test_a_list_says_which_resources_fail_and_how_many_of_their_tasks_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            await declare(store, "room")
            view = await create(store, "1")
            await settle(store, view, "a", "b", replicas=2, failing={"a": "no camera"}, not_running=1)
            work = NodeStatus(
                app="app", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=1, tasks_running=0,
                failing={"room/1#0": "no camera"},
            )  # fmt: skip
            await store.commit(Put(keys.status(NodeId("a")), codec.encode(work)))

    asyncio.run(fill())
    row = CliRunner().invoke(command, ["ls", "--store", url], catch_exceptions=False).stdout.splitlines()[1]
    assert row.split()[:6] == ["room/1", "failing", "2/2", "1", "0", "a,"]
    assert row.endswith("1 of 2 tasks run; fails on a: no camera")
    got = CliRunner().invoke(command, ["get", "room", "1", "--store", url], catch_exceptions=False).stdout
    assert "failing   on a: no camera" in got
    status = CliRunner().invoke(status_command, ["--store", url], catch_exceptions=False).stdout
    assert "resource room/1: 1 of 2 tasks run; fails on a: no camera" in status


def test_whoever_deletes_what_the_settings_declare_is_told_that_it_comes_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            for id, origin in {"1": ORIGIN, "2": "api"}.items():
                record = record_of(WantedResource(kind="room", id=id), id, await store.now(), origin)
                await store.commit(Put(keys.resource("room", id), codec.encode(record)))

    asyncio.run(fill())
    first, second = (
        CliRunner().invoke(command, ["rm", "room", id, "--store", url], catch_exceptions=False).stdout for id in "12"
    )
    assert first == "deleted room/1; rota.toml of the leader declares it and brings it back: take it out there\n"
    assert second == "deleted room/2\n"
