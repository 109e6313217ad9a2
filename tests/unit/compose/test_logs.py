"""A log is read at the node that has it, and where that fails the caller learns which node that is and what to do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rota.compose.logs import FleetLogs
from rota.compose.runtime import Runtime
from rota.compose.state import NodeState
from rota.jobs.logs.folder import FolderLogs
from rota.jobs.node.attempt_logs import RunLogs
from rota.kit.time.clock import SYSTEM
from rota.link.memory import Mesh
from rota.link.port import NodeLink
from rota.link.records import AttemptId, LogPiece, Whom
from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, SessionId
from tests.kit.link_server import ATTEMPT, NODE, SESSION, Desk
from tests.kit.waiting import eventually

ME = NodeId("a")
HERE = LogPiece(b"here", is_last=True)


async def own(attempt: object, offset: int) -> LogPiece:
    return HERE


def seen(link: NodeLink | None, *, http: str = "b.fleet:7700") -> Callable[[], Any]:
    """The other nodes: b, with this link to it."""
    members = {NODE: SimpleNamespace(http=http)}
    return lambda: SimpleNamespace(members=members, link=lambda node: link if node == NODE else None)


@asynccontextmanager
async def linked(desk: Desk, session: SessionId = SESSION) -> AsyncIterator[NodeLink]:
    """A link to b, meant for one of its sessions."""
    mesh = Mesh()
    door, link = mesh.serve("b", desk), mesh.link("b", meant=Whom(node=NODE, session=session))
    yield link
    await link.close()
    await door.close(timedelta())


async def test_this_node_reads_its_own_logs_and_asks_nobody() -> None:
    assert await FleetLogs(ME, own, lambda: None)(ME, ATTEMPT, 0) == HERE


async def test_another_node_is_asked_for_what_it_has() -> None:
    desk = Desk()
    desk.log, desk.log_has_ended = b"there", True
    async with linked(desk) as link:
        logs = FleetLogs(ME, own, seen(link))
        assert await logs(NODE, ATTEMPT, 2) == LogPiece(b"ere", is_last=True)
        assert await logs(NODE, ATTEMPT, 5) == await logs(NODE, ATTEMPT, 10**9) == LogPiece(b"", is_last=True)
    assert desk.reads[0] == (ATTEMPT, 2)


@pytest.mark.parametrize(
    ("peers", "node", "words"),
    [
        (lambda: None, NODE, "this node is not in the fleet yet; try again in a moment"),
        (
            seen(None),
            NodeId("c"),
            "kept at node c, which this node does not see in the fleet; start it again with its data",
        ),
        (seen(None), NODE, r"kept at node b, .* no node link now .*rota\[grpc\].* at its door b\.fleet:7700"),
        (seen(None, http=""), NODE, "kept at node b, .*; ask that node itself$"),
    ],
    ids=["out of the fleet", "gone", "no link", "no link and no door"],
)
async def test_a_node_that_cannot_be_asked_is_named_with_what_to_do(peers: Any, node: NodeId, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        await FleetLogs(ME, own, peers)(node, ATTEMPT, 0)


@pytest.mark.parametrize("family", [Invalid, Denied, Conflict, Unavailable, Unknown])
async def test_whatever_a_node_refuses_with_its_log_is_unavailable(family: type[RotaError]) -> None:
    desk = Desk()
    desk.answer = family("it does not know this call; do both nodes run the same Rota?")
    async with linked(desk) as link:
        words = r"run nightly/2026-11-15, attempt 1 is kept at node b, which did not give it \(it does not know this"
        with pytest.raises(Unavailable, match=rf"{words} .*\); try again, or ask that node itself"):
            await FleetLogs(ME, own, seen(link))(NODE, ATTEMPT, 0)


async def test_a_link_to_the_nodes_session_before_is_refused_and_not_an_empty_log() -> None:
    async with linked(Desk(), SessionId("b-0")) as link:
        with pytest.raises(Unavailable, match=r"node b, session b-0 was meant, but node b, session b-1 is here"):
            await FleetLogs(ME, own, seen(link))(NODE, ATTEMPT, 0)


async def test_a_reader_that_is_cancelled_leaves_nothing_behind() -> None:
    desk = Desk()
    desk.open.clear()
    async with linked(desk) as link:
        reading = asyncio.ensure_future(FleetLogs(ME, own, seen(link))(NODE, ATTEMPT, 0))
        await eventually(lambda: desk.reads)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        desk.open.set()
        await link.check()


async def test_a_link_that_closes_meanwhile_is_no_empty_log() -> None:
    desk = Desk()
    desk.open.clear()
    async with linked(desk) as link:
        reading = asyncio.ensure_future(FleetLogs(ME, own, seen(link))(NODE, ATTEMPT, 0))
        await eventually(lambda: desk.reads)
        await link.close()
        with pytest.raises(Unavailable, match="closed before it was answered"):
            await reading
        desk.open.set()


# What a node reads of its own


async def test_a_node_reads_memory_first_and_then_where_it_keeps_logs(tmp_path: Path) -> None:
    state, logs, kept = NodeState(ME, SYSTEM), RunLogs(10**6), FolderLogs(tmp_path)
    runtime: Any = SimpleNamespace(unwritten=logs.unwritten)
    state.runtime = runtime
    with pytest.raises(Unavailable, match="node a does not reach the place where it keeps logs"):
        await state.read_log(ATTEMPT, 0)
    state.logs = kept
    assert await state.read_log(ATTEMPT, 0) == LogPiece(b"", is_last=False), (
        "there is no such log: it never looks whole"
    )
    keeping = asyncio.create_task(logs.keep(kept))
    await asyncio.sleep(0)
    logs.take((ATTEMPT.run, ATTEMPT.number), b"one\n")
    assert await state.read_log(ATTEMPT, 0) == LogPiece(b"one\n", is_last=False)
    await logs.write_down()
    logs.take((ATTEMPT.run, ATTEMPT.number), b"two\n")
    assert await state.read_log(ATTEMPT, 0) == LogPiece(b"one\n", is_last=False)
    assert await state.read_log(ATTEMPT, 4) == LogPiece(b"two\n", is_last=False)
    logs.close((ATTEMPT.run, ATTEMPT.number))
    assert await state.read_log(ATTEMPT, 4) == LogPiece(b"two\n", is_last=True)
    await logs.write_down()
    keeping.cancel()
    state.runtime = None  # its app is gone; what was kept is there
    assert await state.read_log(ATTEMPT, 2) == LogPiece(b"e\ntwo\n", is_last=True)
    assert await state.read_log(ATTEMPT, 8) == LogPiece(b"", is_last=True)
    await kept.forget([ATTEMPT.run])
    assert await state.read_log(ATTEMPT, 0) == LogPiece(b"", is_last=False), "forgotten meanwhile: not whole"


async def test_a_silent_attempt_has_an_empty_log_and_not_that_of_another_run_of_its_id() -> None:
    logs, at_work = RunLogs(10**6), [ATTEMPT]
    runtime: Any = SimpleNamespace(logs=logs, attempts=SimpleNamespace(has=at_work.__contains__))
    assert Runtime.unwritten(runtime, ATTEMPT, 0) == LogPiece(b"", is_last=False)
    logs.take((ATTEMPT.run, ATTEMPT.number), b"one\n")
    assert Runtime.unwritten(runtime, ATTEMPT, 0) == LogPiece(b"one\n", is_last=False)
    assert Runtime.unwritten(runtime, AttemptId(ATTEMPT.run, 2), 0) is None
    at_work.clear()
    assert Runtime.unwritten(runtime, AttemptId("other/1", 1), 0) is None
