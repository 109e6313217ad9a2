"""TLS on the lines between relays: whatever is sent arrives whole, and only from who has a certificate."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from rota.relay.core.held import Emission
from rota.relay.process.tls import RelayTls, Secured
from rota.relay.process.wire import AckFrame, Any_, BatchFrame, FrameConnection
from tests.kit.certificates import Authority, serial
from tests.kit.sinks import message


def ends() -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    return one, other


async def line(answering: Path, calling: Path, host: str = "127.0.0.1") -> tuple[Secured, Secured]:
    """Both ends of a line: who answers, and who calls."""
    theirs, ours = ends()
    answer, call = await asyncio.gather(
        RelayTls(str(answering)).answer(theirs), RelayTls(str(calling)).call(ours, host), return_exceptions=True
    )
    for end in (answer, call):
        if isinstance(end, BaseException):
            raise end
    assert isinstance(answer, Secured)
    assert isinstance(call, Secured)
    return answer, call


async def test_both_ends_know_each_other(tmp_path: Path) -> None:
    root = Authority(tmp_path)
    one, other = root.issue("n1"), root.issue("n2")
    answer, call = await line(one, other)
    assert (answer.certificate.name, answer.certificate.serial) == ("n2", serial(other))
    assert (call.certificate.name, call.certificate.serial) == ("n1", serial(one))
    answer.close()
    call.close()


async def test_what_is_sent_arrives_whole_and_in_order_however_large(tmp_path: Path) -> None:
    root = Authority(tmp_path)
    answer, call = await line(root.issue("n1"), root.issue("n2"))
    heard: list[int] = []
    acked, over = asyncio.Event(), asyncio.Event()

    def take(record: Any_) -> None:
        assert isinstance(record, BatchFrame)
        heard.append(record.sequence)
        receiving.send(AckFrame(record.sequence))

    def hear(record: Any_) -> None:
        if isinstance(record, AckFrame) and record.sequence == 60:
            acked.set()

    receiving = FrameConnection(answer, take, over.set)
    sending = FrameConnection(call, hear, lambda: None)
    for sequence in range(1, 61):
        body = bytes(200_000 if sequence % 3 == 0 else 10)
        sending.send(BatchFrame(sequence, 0.0, (emission(body),)))
    async with asyncio.timeout(30):
        await acked.wait()
    assert heard == list(range(1, 61))
    assert sending.unsent == 0
    sending.close()
    await asyncio.wait_for(over.wait(), 60)


def emission(body: bytes) -> Emission:
    return Emission(message(1, payload=body), "memory://", 0, 1)


async def test_a_stranger_without_a_certificate_of_ours_is_not_heard(tmp_path: Path) -> None:
    ours, stranger = Authority(tmp_path / "a").issue("n1"), Authority(tmp_path / "b").issue("n2")
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        await line(ours, stranger)
    theirs, plain = ends()
    plain.send(b"\x00\x00\x00\x10 no TLS at all")
    with pytest.raises(ssl.SSLError):
        await RelayTls(str(ours)).answer(theirs)
    plain.close()


async def test_a_relay_must_be_where_its_certificate_says(tmp_path: Path) -> None:
    root = Authority(tmp_path)
    with pytest.raises(ssl.SSLError, match="bad certificate"):
        await line(root.issue("n1", "10.0.0.5"), root.issue("n2"))
