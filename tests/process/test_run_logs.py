"""Logs of runs on real nodes: read over the link while they grow, and readable when the node is gone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.model.link import AttemptId
from rota.rpc.open import open_link
from rota.rpc.port import Link
from rota.store import open_store
from rota.store.logs.open import open_logs
from tests.kit.node import NodeUnderTest
from tests.kit.runtime_trials import dispatch
from tests.kit.waiting import eventually

APP = """
import time, rota

app = rota.App("talk")

@app.job()
def counts(run):
    for number in range(1000):
        print(f"{number:04}", flush=True)
        time.sleep(0.02)

@app.job(process=True)
def three(run):
    print("one"); print("two"); print("three")

app.command("greet", ["sh", "-c", "echo hello; sleep 0.5; echo bye"])
"""


@asynccontextmanager
async def linked(node: NodeUnderTest) -> AsyncIterator[Link]:
    status = await node.status()
    async with open_link(f"grpc://{status['doors']['grpc']}", token=node.token) as link:
        yield link


async def read_from(node: NodeUnderTest, run: str, *, until: Callable[[bytes, bool], bool]) -> bytes:
    """What the node itself has of a run's log, in memory or kept, once `until` holds for it and for its being all."""
    found, is_last = b"", False
    async with linked(node) as link:
        while not until(found, is_last):
            piece = await link.read_log(AttemptId(run, 1), len(found))
            found, is_last = found + piece.data, piece.is_last
            await asyncio.sleep(0 if piece.data else 0.01)
    return found


def is_all(found: bytes, is_last: bool) -> bool:
    return is_last


async def kept(node: NodeUnderTest, wanted: str | None, run: str) -> bytes:
    """What anybody else reads of a run's log, whether the node lives or not."""
    async with open_store(node.store) as store:
        logs = open_logs(wanted, node.store, store, node.data / "none")
        found = b""
        while piece := await logs.read(run, 1, len(found)):
            found += piece
        return found


@pytest.mark.parametrize("is_shared", [False, True], ids=["in the store", "in a shared folder"])
async def test_a_log_is_readable_when_its_node_was_killed(tmp_path: Path, is_shared: bool) -> None:
    wanted = f"folder://{tmp_path}/shared" if is_shared else None
    with NodeUnderTest(tmp_path / "node", app=APP, environ={"ROTA_RUNS_LOGS": wanted} if wanted else {}) as node:
        await node.ready()
        assert await dispatch(node, "r", "counts") == ""
        before = await eventually(lambda: kept(node, wanted, "r"))
        os.kill(node.pid, signal.SIGKILL)
        found = await kept(node, wanted, "r")
        assert found.startswith(b"0000\n")
        assert len(found) >= len(before), "what was written down once stays, and the run was far from its end"
        whole = b"".join(b"%04d\n" % number for number in range(len(found) // 5 + 1))
        assert found == whole[: len(found)]  # it may end within a line


async def test_a_node_reads_what_it_has_not_written_down_and_what_it_has(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "node", app=APP) as node:
        await node.ready()
        assert await dispatch(node, "c", "greet") == ""
        assert await read_from(node, "c", until=is_all) == b"hello\nbye\n"
        assert await dispatch(node, "t", "three") == ""
        assert await read_from(node, "t", until=is_all) == b"one\ntwo\nthree\n"
        await eventually(lambda: _is_kept(node, "t", b"one\ntwo\nthree\n"))
        assert await read_from(node, "t", until=is_all) == b"one\ntwo\nthree\n", "also when it is written down"


async def _is_kept(node: NodeUnderTest, run: str, whole: bytes) -> bool:
    return await kept(node, None, run) == whole


async def test_a_node_that_stops_keeps_what_was_said_last(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "node", "--drain", "2s", "--grace", "1s", app=APP) as node:
        await node.ready()
        assert await dispatch(node, "r", "counts") == ""
        seen = await read_from(node, "r", until=lambda found, _: len(found) >= 100)
        os.kill(node.pid, signal.SIGTERM)
        await eventually(lambda: not node.is_running, within=30)
        assert (await kept(node, None, "r")).startswith(seen), "also what nobody had written down yet"
