"""A token that is taken back is refused at every door of every node, whatever was open with it."""

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rota.api import operations
from rota.store import Store, open_store
from tests.kit.doors import Door
from tests.kit.node import NodeUnderTest
from tests.kit.taken_back import HOW, grpc_streams, http_streams, measure
from tests.kit.waiting import eventually


@asynccontextmanager
async def fleet(folder: Path, names: tuple[str, ...]) -> AsyncIterator[tuple[list[Door], Store, str]]:
    """The doors of nodes that share a token, their store, and a run that is not over."""
    url, file = f"sqlite:///{folder}/rota.db", folder / "token"
    file.write_text("rota_that_several_nodes_share\n")
    file.chmod(0o600)
    with ExitStack() as stack:
        nodes = [
            NodeUnderTest(folder / name, "--token", f"file:{file}", "--role", "both", name=name, store=url)
            for name in names
        ]
        doors = []
        for node in nodes:
            stack.enter_context(node)
        for node in nodes:
            told = (await node.ready())["doors"]
            doors.append(Door(told["http"], told["grpc"], file.read_text().strip()))

        async def started() -> str | None:
            status, said = doors[0].http("POST", "/v1/jobs/held/run", {})
            return str(json.loads(said)["id"]) if status == 201 else None

        run = await eventually(started)
        await eventually(lambda: any(["run", run] == words[:2] for node in nodes for words in node.notes()))
        async with open_store(url) as store:
            yield doors, store, run
        for node in nodes:
            node.gate.touch()


@pytest.mark.parametrize("how", HOW)
async def test_a_token_that_is_taken_back_is_refused_at_every_door_of_every_node(tmp_path: Path, how: str) -> None:
    async with fleet(tmp_path, ("a", "b")) as (doors, store, run):
        figures = await measure(doors, store, run, how)
        assert {each.node for each in figures} == {door.address for door in doors}
        assert [each for each in figures if not each.said] == []


def test_every_stream_there_is_was_tried() -> None:
    """`measure` reads the streams from the doors; here they are, so that nobody has to believe that."""
    assert {"watch_resources", "watch_events", "watch_pulse", "follow_log"} == operations.STREAMING
    assert len(http_streams("job/moment")) == 4
    assert sorted(grpc_streams("job/moment")) == [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/rota.link.v1.Link/FollowLog",
        "/rota.link.v1.Link/HandOver",
        "/rota.v1.Events/Watch",
        "/rota.v1.Resources/Watch",
        "/rota.v1.Runs/FollowLog",
    ]
