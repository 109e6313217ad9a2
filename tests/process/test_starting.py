"""Nodes that start while their store is killed."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.cli import rota
from tests.kit.faultproxy import FaultProxy
from tests.kit.harness import PostgresHarness, StoreHarness, params
from tests.kit.node import NodeUnderTest
from tests.kit.servers import free_port
from tests.kit.waiting import eventually


@pytest.mark.parametrize("victim", params([PostgresHarness]), indirect=True)
async def test_nodes_that_start_while_the_store_is_killed_wait_for_it_and_come_up(
    victim: StoreHarness, proxy: FaultProxy, tmp_path: Path
) -> None:
    server = victim.running
    assert server is not None
    with ExitStack() as stack:
        first, second = (
            NodeUnderTest(tmp_path / name, "--role", "both", name=name, store=victim.url(port=proxy.port))
            for name in ("first", "second")
        )
        first.start()
        stack.callback(first.kill)  # how they stop is told elsewhere
        await eventually(first.data.exists)  # it is about to open the store
        server.kill()
        second.start()
        stack.callback(second.kill)
        await eventually(lambda: "store not open yet" in second.errors.read_text())
        server.start()
        await first.ready()
        await second.ready()


def test_a_node_whose_store_is_not_reached_at_all_says_so_and_ends(tmp_path: Path) -> None:
    store = f"postgresql://test@127.0.0.1:{free_port()}/postgres"
    doors = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    answer = rota("node", "--store", store, "--data", tmp_path / "data", *doors, cwd=tmp_path)
    assert answer.code == 7
    assert "is PostgreSQL running there?" in answer.err
