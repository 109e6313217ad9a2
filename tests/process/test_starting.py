"""Nodes that start while their store is killed."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from rota.model.errors import RotaError
from rota.runtime import control_socket
from tests.kit.cli import ROTA, rota
from tests.kit.faultproxy import FaultProxy
from tests.kit.harness import PostgresHarness, StoreHarness, params
from tests.kit.node import APP, NodeUnderTest
from tests.kit.process import Process
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


async def test_a_node_starts_without_stdin_stdout_and_stderr(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    words = [ROTA, "node", "--store", "sqlite:///r.db", "--id", "a", "--data", "data", "--http", "127.0.0.1:0"]
    closed = ["sh", "-c", f'cd "{tmp_path}" && exec "$0" "$@" <&- >&- 2>&-', *words, "--grpc", "127.0.0.1:0", "app.py"]
    with Process(closed, tmp_path / "node.out") as node:

        async def is_ready() -> bool:
            assert node.is_running, "it ended"
            return bool((await control_socket.call(tmp_path / "data", "status", 30))["is_ready"])

        await eventually(is_ready, within=60, despite=(RotaError,))
