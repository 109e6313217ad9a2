"""Streams over gRPC that end while a message is on its way."""

import asyncio
from typing import Any

import pytest

from rota.doors.grpc import refusals
from rota.doors.grpc.pb import health_pb2
from rota.doors.grpc.refusals import send

MESSAGE = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


class Caller:
    """The context of a call whose caller takes what is written when `takes` is set."""

    def __init__(self) -> None:
        self.takes = asyncio.Event()
        self.was_cut = False
        self.taken: list[bytes] = []

    async def write(self, content: bytes) -> None:
        try:
            await self.takes.wait()
        except asyncio.CancelledError:
            self.was_cut = True
            raise
        self.taken.append(content)


async def began(caller: Any) -> "asyncio.Task[None]":
    """A message on its way."""
    sending = asyncio.create_task(send(caller, MESSAGE))
    for _ in range(3):
        await asyncio.sleep(0)
    return sending


async def test_a_message_that_is_on_its_way_is_written_whole_before_its_stream_ends() -> None:
    """Or gRPC refuses the status: too many operations."""
    caller = Caller()
    sending = await began(caller)
    sending.cancel()
    await asyncio.sleep(0)
    assert not sending.done()
    caller.takes.set()
    await asyncio.wait([sending])
    assert sending.cancelled()
    assert caller.taken == [MESSAGE.SerializeToString()]
    assert not caller.was_cut


async def test_a_caller_that_reads_nothing_does_not_keep_a_stream_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "LAST_WRITE", 0.01)
    caller = Caller()
    sending = await began(caller)
    sending.cancel()
    await asyncio.wait([sending])
    assert sending.cancelled()
    await asyncio.sleep(0)
    assert caller.was_cut
