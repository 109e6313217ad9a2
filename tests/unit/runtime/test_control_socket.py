"""The control socket answers, refuses in the node's own words, and can be reached however long its path is."""

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from rota.model.errors import Conflict, Unavailable
from rota.runtime import control_socket
from rota.runtime.control_socket import ControlError, Verb, call, serve


async def shout(request: dict[str, Any]) -> Any:
    return {"said": request["what"].upper()}


async def refuse(_: dict[str, Any]) -> Any:
    raise Conflict("a reload is under way")


async def break_down(_: dict[str, Any]) -> Any:
    raise ZeroDivisionError("by nobody")


async def sleep(_: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


VERBS: dict[str, Verb] = {"shout": shout, "refuse": refuse, "break": break_down, "sleep": sleep}


async def test_it_answers_and_is_gone_with_its_node(tmp_path: Path) -> None:
    async with serve(tmp_path, VERBS):
        assert await call(tmp_path, "shout", 60, what="hey") == {"said": "HEY"}
        assert (tmp_path / control_socket.NAME).stat().st_mode & 0o777 == 0o600
    with pytest.raises(Unavailable, match="no node is running on"):
        await call(tmp_path, "shout", 60)
    assert not (tmp_path / control_socket.NAME).exists()


async def test_no_other_user_can_connect_even_before_its_mode_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[int] = []
    monkeypatch.setattr(Path, "chmod", lambda path, mode: before.append(path.stat().st_mode & 0o077))
    umask = os.umask(0)
    try:
        async with serve(tmp_path, VERBS):
            assert before == [0]
            assert os.umask(0) == 0, "the process keeps its own"
    finally:
        os.umask(umask)


async def test_refusals_keep_their_words_and_their_exit_code(tmp_path: Path) -> None:
    async with serve(tmp_path, VERBS):
        with pytest.raises(ControlError, match="a reload is under way") as refused:
            await call(tmp_path, "refuse", 60)
        assert refused.value.exit_code == 5
        with pytest.raises(
            ControlError, match="no such verb: 'dance'; there are break, refuse, shout, sleep"
        ) as unknown:
            await call(tmp_path, "dance", 60)
        assert unknown.value.exit_code == 2
        with pytest.raises(ControlError, match="ZeroDivisionError: by nobody") as broken:
            await call(tmp_path, "break", 60)
        assert broken.value.exit_code == 1


async def test_a_node_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    async with serve(tmp_path, VERBS):
        with pytest.raises(Unavailable, match=r"did not answer within 0\.1 s"):
            await call(tmp_path, "sleep", 0.1)


async def test_a_node_that_ends_with_the_question_unread_is_gone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as node:
        with control_socket.short(tmp_path / control_socket.NAME) as name:
            node.bind(str(name))
        node.listen()
        asking = asyncio.create_task(asyncio.to_thread(asyncio.run, call(tmp_path, "shout", 60)))
        line, _ = await asyncio.to_thread(node.accept)
        await asyncio.to_thread(line.recv, 1, socket.MSG_PEEK)
        line.close()
        with pytest.raises(Unavailable, match="ended before it answered"):
            await asking


async def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    async with serve(folder, VERBS):
        assert await call(folder, "shout", 60, what="hey") == {"said": "HEY"}


async def test_a_socket_left_by_a_dead_node_is_replaced(tmp_path: Path) -> None:
    (tmp_path / control_socket.NAME).touch()
    async with serve(tmp_path, VERBS):
        assert await call(tmp_path, "shout", 60, what="hey") == {"said": "HEY"}


@pytest.mark.parametrize("line", [b"hello\n", b"[1]\n", b"{}\n", b"\n", b'{"do": 5}\n', b"x" * 2_000_000 + b"\n"])
async def test_nonsense_is_refused_and_harms_nobody(tmp_path: Path, line: bytes) -> None:
    async with serve(tmp_path, VERBS):
        reader, writer = await asyncio.open_unix_connection(tmp_path / control_socket.NAME)
        writer.write(line)
        try:
            answer = await reader.read()
        except ConnectionResetError:  # hung up on, for a line without end
            answer = b""
        assert b'"exit_code":2' in answer or answer == b"", answer
        writer.close()
        assert await call(tmp_path, "shout", 60, what="hey") == {"said": "HEY"}
