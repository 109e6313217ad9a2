"""Logs of runs on real nodes: read over the link while they grow, and readable when the node is gone."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.jobs.logs.open import open_logs
from rota.link.open import open_link
from rota.link.port import NodeLink
from rota.link.records import AttemptId
from rota.store import open_store
from tests.kit.cli import ROTA, Answer, rota
from tests.kit.doors import Door
from tests.kit.harness import EtcdHarness
from tests.kit.node import NodeUnderTest
from tests.kit.process import Process
from tests.kit.runtime_trials import dispatch
from tests.kit.server_pool import ServerPool
from tests.kit.servers import Etcd
from tests.kit.waiting import eventually

APP = """
import os, time, rota

app = rota.App("talk")

@app.job()
def counts(run):
    for number in range(1000):
        print(f"{number:04}", flush=True)
        time.sleep(0.02)

@app.job(process=True)
def three(run):
    print("one"); print("two"); print("three")

@app.job()
def speaks(run):
    print("one", flush=True)
    while not os.path.exists(os.path.join(os.path.dirname(__file__), "gate")):
        time.sleep(0.01)
    print("two", flush=True)

app.command("greet", ["sh", "-c", "echo hello; sleep 0.5; echo bye"])
"""


@asynccontextmanager
async def linked(node: NodeUnderTest) -> AsyncIterator[NodeLink]:
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


# On etcd without a shared folder a log is on one disk


@asynccontextmanager
async def two_nodes(folder: Path, url: str) -> AsyncIterator[tuple[NodeUnderTest, NodeUnderTest]]:
    """Nodes of one fleet, each with a data folder of its own; they share a token."""
    token = folder / "token"
    token.write_text("rota_that_both_nodes_share\n")
    token.chmod(0o600)
    a, b = (NodeUnderTest(folder / name, "--token", f"file:{token}", name=name, store=url, app=APP) for name in "ab")
    for node in (a, b):
        node.data.mkdir(mode=0o700)
        shutil.copy(token, node.data)  # where the test looks for it
    with a, b:
        await a.ready()
        await b.ready()
        yield a, b


def shown(door: Door, folder: Path) -> tuple[object, ...]:
    """The flags by which a command asks at a door."""
    return "--server", f"http://{door.address}", "--token", folder / "token"


def printed(door: Door, folder: Path, *flags: str) -> Answer:
    """What `rota runs logs` says there."""
    return rota("runs", "logs", *flags, *shown(door, folder), cwd=folder)


def _being_written(node: NodeUnderTest) -> list[Path]:
    """The files of logs on a node's disk that are not whole."""
    return list(node.data.rglob("1.part"))


@pytest.mark.needs("etcd")
async def test_on_etcd_a_log_is_read_at_any_node_for_as_long_as_its_own_is_there(
    tmp_path: Path, servers: ServerPool
) -> None:
    url = EtcdHarness(tmp_path, servers.get(Etcd, "steady")).url()
    async with two_nodes(tmp_path, url) as (a, b):
        door = await Door.of(b)

        async def read(run: str) -> tuple[int, str]:
            return await asyncio.to_thread(door.http, "GET", f"/v1/runs/{run}/log")

        async def has(run: str, said: str) -> bool:
            return await read(run) == (200, said)

        # While it runs, and when it is over.
        assert await dispatch(a, "speaks/1", "speaks") == ""
        await eventually(lambda: has("speaks/1", "one\n"))
        following = asyncio.create_task(asyncio.to_thread(printed, door, tmp_path, "speaks/1", "-f"))
        a.gate.touch()
        answer = await following
        assert (answer.code, answer.out, answer.err) == (0, "one\ntwo\n", "")
        answer = await asyncio.to_thread(printed, door, tmp_path, "speaks/1")
        assert (answer.code, answer.out, answer.err) == (0, "one\ntwo\n", "")

        # Its node is killed in the middle of a run: who follows is told where the rest is.
        assert await dispatch(a, "counts/1", "counts") == ""
        with Process([ROTA, "runs", "logs", "counts/1", "-f", *shown(door, tmp_path)], tmp_path / "out") as follower:
            await eventually(lambda: follower.lines()[:2] == ["0000", "0001"])
            await eventually(lambda: any(part.read_text().startswith("0000\n0001\n") for part in _being_written(a)))
            a.kill()
            await eventually(lambda: not follower.is_running)
            assert follower.exit_code
        why = f"the log of run counts/1, attempt 1 is kept at node {a.name}, which "
        assert why in follower.errors.read_text()
        gone = f"is kept at node {a.name}, which this node does not see in the fleet; start it again with its data"
        for run in ("counts/1", "speaks/1"):
            await eventually(lambda run=run: _refused(read, run, gone), within=90)  # type: ignore[misc]
        answer = await asyncio.to_thread(printed, door, tmp_path, "speaks/1")
        assert (answer.code != 0, answer.out, gone in answer.err) == (True, "", True)
        answer = await asyncio.to_thread(rota, "runs", "logs", "speaks/1", "--store", url, cwd=tmp_path)
        assert (answer.out, "nothing of it is here; ask a node for it with --server URL" in answer.err) == ("", True)

        # It comes back with its data folder, in another session: what it had written down is there.
        a.start()
        await a.ready()
        await eventually(lambda: has("speaks/1", "one\ntwo\n"), within=90)
        answer = await asyncio.to_thread(printed, door, tmp_path, "counts/1", "-f")
        assert (answer.code, answer.out[:10]) == (0, "0000\n0001\n")
        assert "this may not be all" in answer.err


async def _refused(read: Callable[[str], Awaitable[tuple[int, str]]], run: str, why: str) -> bool:
    status, said = await read(run)
    assert status == 503, "never an empty log"
    return why in said
