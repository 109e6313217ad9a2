"""Bytes that are not what they should be: whoever decodes them says so, and does not fall over."""

import asyncio
import socket

import msgspec
import pytest

from rota.kit import frames
from rota.kit.decoding import UNREADABLE
from rota.model import codec
from rota.model.errors import Invalid
from rota.model.node import Leader
from rota.relay.process.wire import FrameConnection
from rota.runtime.control_socket import _reply

NO_TEXT, DEEP = b'{"v": "\xff"}', b"[" * 100_000
MSGPACK = [b"\xa1\xff", b"\x91" * 100_000, b"\x92\x01\xa1\xff", b"", b"\xc1"]


@pytest.mark.parametrize("data", MSGPACK)
def test_whatever_msgspec_has_against_bytes_is_among_them(data: bytes) -> None:
    with pytest.raises(UNREADABLE):
        msgspec.msgpack.decode(data, type=list[str])


@pytest.mark.parametrize("data", [NO_TEXT, DEEP, b"", b"7"])
def test_a_record_that_is_none_is_invalid(data: bytes) -> None:
    with pytest.raises(Invalid):
        codec.decode(Leader, data)


@pytest.mark.parametrize("data", [NO_TEXT, DEEP, b"", b"7"])
async def test_a_request_to_the_control_socket_that_is_none_is_answered(data: bytes) -> None:
    assert (await _reply(data, {}))["exit_code"] == 2


@pytest.mark.parametrize("data", MSGPACK)
async def test_a_line_between_relays_ends_and_nothing_else(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    ended = asyncio.Event()
    wire = FrameConnection(ours, lambda _: None, ended.set)
    with theirs:
        theirs.sendall(frames.encode(data, limit=2**20))
        await asyncio.wait_for(ended.wait(), 60)
    assert not wire.is_open
