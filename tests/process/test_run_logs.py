"""Logs of runs on a real node: followed over the link while they grow, and readable when the node is gone."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
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


async def followed(node: NodeUnderTest, run: str, offset: int = 0) -> bytes:
    """A run's log to its end, over the link."""
    found = b""
    async with linked(node) as link, aclosing(link.follow_log(AttemptId(run, 1), offset)) as chunks:
        async for chunk in chunks:
            assert chunk.offset == offset + len(found)
            found += chunk.data
    return found


async def followed_up_to(node: NodeUnderTest, run: str, size: int) -> bytes:
    """The beginning of a run's log, as soon as there is so much of it."""
    found = b""
    async with linked(node) as link, aclosing(link.follow_log(AttemptId(run, 1))) as chunks:
        async for chunk in chunks:
            found += chunk.data
            if len(found) >= size:
                break
    return found


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


async def test_a_follower_hears_what_comes_and_ends_with_the_run(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "node", app=APP) as node:
        await node.ready()
        assert await dispatch(node, "c", "greet") == ""
        assert await followed(node, "c") == b"hello\nbye\n"
        assert await followed(node, "c", 6) == b"bye\n"
        assert await dispatch(node, "t", "three") == ""
        await eventually(lambda: kept(node, None, "t"))
        assert await followed(node, "t") == b"one\ntwo\nthree\n", "also when it is over"
        await eventually(lambda: _is_kept(node, "t", b"one\ntwo\nthree\n"))


async def _is_kept(node: NodeUnderTest, run: str, whole: bytes) -> bool:
    return await kept(node, None, run) == whole


async def test_a_node_that_stops_keeps_what_was_said_last(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "node", "--drain", "2s", "--grace", "1s", app=APP) as node:
        await node.ready()
        assert await dispatch(node, "r", "counts") == ""
        seen = await followed_up_to(node, "r", 100)
        os.kill(node.pid, signal.SIGTERM)
        await eventually(lambda: not node.is_running, within=30)
        assert (await kept(node, None, "r")).startswith(seen), "also what nobody had written down yet"
