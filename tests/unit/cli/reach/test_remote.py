"""The command line as a client of the doors: which request each operation is, and what answers and failures become."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rota.cli.reach import remote
from rota.cli.reach.remote import DoorFleet, _query, way_of
from rota.cli.reach.targets import ServerTarget
from rota.fleet.doors.nodes.operations import list_nodes
from rota.jobs.doors.operations import get_job
from rota.jobs.doors.run_operations import run_job
from rota.jobs.doors.run_output import follow_log
from rota.model.errors import Conflict, Denied, Invalid, NotFound, RotaError, Unavailable, Unknown
from tests.kit.listening import stop_listening


def test_what_is_not_given_is_not_asked() -> None:
    given = {"states": ("failed", "lost"), "job": None, "limit": 3, "token": ""}
    runs, streams = way_of("list_runs"), way_of("list_streams")
    assert runs is not None
    assert streams is not None
    assert _query(runs, given) == (("state", "failed"), ("state", "lost"), ("limit", "3"))
    assert _query(streams, {"with_past": True}) == (("all", "true"),)


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[DoorFleet]:
    """A server that answers requests so, the last all others, and hangs up; nothing: it hangs up at once."""
    coming = iter(answers)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(next(coming, answers[-1]))
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with DoorFleet(ServerTarget(f"http://127.0.0.1:{port}", "rota_token")) as fleet:
            yield fleet
    finally:
        await stop_listening(server)


def said(status: int, body: str, *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in (f"content-length: {len(body)}", "connection: close", *headers))
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n{body}".encode()


@pytest.mark.parametrize(
    ("status", "family", "code"),
    [(401, Denied, 4), (403, Denied, 4), (404, NotFound, 3), (409, Conflict, 5), (422, Invalid, 2),
     (503, Unavailable, 7), (504, Unknown, 6), (429, Unavailable, 7), (500, RotaError, 1)],
)  # fmt: skip
async def test_a_refusal_keeps_its_sentence_and_its_exit_code(status: int, family: type[RotaError], code: int) -> None:
    async with answering(said(status, '{"error": "the sentence"}')) as fleet:
        with pytest.raises(family, match=r"^the sentence$") as refused:
            await fleet.do(get_job, "x")
    assert refused.value.exit_code == code


async def test_a_change_without_an_answer_is_unknown_and_a_look_is_unavailable() -> None:
    async with answering(b"") as fleet:
        with pytest.raises(Unknown, match="check before you retry"):
            await fleet.do(run_job, "x", by="me")
        with pytest.raises(Unavailable, match="try again"):
            await fleet.do(list_nodes)


async def test_a_server_that_is_no_node_is_one_sentence() -> None:
    async with answering(said(200, "<html>")) as fleet:
        with pytest.raises(RotaError, match="is it a node, and of the same version"):
            await fleet.do(list_nodes)
    async with answering(said(502, "<html>")) as fleet:
        with pytest.raises(RotaError, match="answered 502 without a sentence"):
            await fleet.do(list_nodes)


async def test_nobody_there_is_unavailable() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await stop_listening(server)
    async with DoorFleet(ServerTarget(f"http://127.0.0.1:{port}", "rota_token")) as fleet:
        with pytest.raises(Unavailable, match="is a node running there"):
            await fleet.do(list_nodes)


async def test_output_is_followed_past_a_moment_without_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LOOK", 0.01)
    away = said(503, '{"error": "its node is away"}')
    one, two, end = (
        said(200, text, "rota-attempt: 1", f"rota-next: {at}", *more)
        for text, at, more in (("one", 3, ()), ("two", 6, ()), ("", 6, ("rota-whole: true",)))
    )
    async with answering(one, away, away, two, away, end) as fleet:
        assert [part.data async for part in fleet.each(follow_log, fleet.logs, "job/1")] == [b"one", b"two"]
    async with answering(away) as fleet:
        with pytest.raises(Unavailable, match="its node is away"):
            await anext(fleet.each(follow_log, fleet.logs, "job/1"))
    monkeypatch.setattr(remote, "AWAY", 0.05)
    async with answering(one, away) as fleet:
        parts = fleet.each(follow_log, fleet.logs, "job/1")
        assert (await anext(parts)).data == b"one"
        with pytest.raises(Unavailable, match="its node is away"):
            await anext(parts)
