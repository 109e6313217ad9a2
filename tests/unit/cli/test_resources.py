"""`rota resources ls`: what a row says."""

import asyncio
from datetime import timedelta
from pathlib import Path

from click.testing import CliRunner

from rota.cli.resources import command
from rota.model.ids import NodeId
from rota.model.resource import Trouble
from rota.store import open_store
from tests.unit.api.test_operations import create, declare, settle


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
    listed = CliRunner(catch_exceptions=False).invoke(command, ["ls", "--store", url])
    assert "node a gave it back at" in listed.stdout.splitlines()[1]
    assert listed.stdout.splitlines()[1].endswith("time 4 in a row: no camera")
    assert listed.stdout.splitlines()[2].split() == ["room", "2", "1/1", "0", "b"]
