"""A worker's way out: it waits when it is full, and says what it could not get rid of."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from rota.model.errors import Rejected
from rota.relay.core.held import Emission, RefusedMessage
from rota.relay.node.emitting import Emitter, EmitterThread
from rota.relay.process.wire import AckFrame, Any_, BatchFrame, FrameConnection, OpeningFrame
from rota.runtime.pipes.brief import Emitting
from rota.runtime.pipes.channel import pair
from tests.kit.sinks import message, numbers
from tests.kit.waiting import eventually

TERMS = Emitting(messages=10, flush=0.2)


class Peer:
    """A relay of the test's own, which acks what it is told to."""

    def __init__(self, sock: socket.socket) -> None:
        self.batches: list[BatchFrame] = []
        self.openings: list[OpeningFrame] = []
        self.wire = FrameConnection(sock, self._heard, lambda: None)

    def _heard(self, record: Any_) -> None:
        match record:
            case BatchFrame():
                self.batches.append(record)
            case OpeningFrame():
                self.openings.append(record)

    @property
    def numbers(self) -> list[int]:
        return numbers(one.message for batch in self.batches for one in batch.emissions)

    def ack(self, *refused: int) -> None:
        last = self.batches[-1].sequence
        self.wire.send(
            AckFrame(last, tuple(RefusedMessage(last, message(number).id, "no queue") for number in refused))
        )


def emissions(count: int, first: int = 0) -> list[Emission]:
    return [Emission(message(number), "memory://", 0, 1) for number in range(first, first + count)]


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a line."""
    ends = pair()
    yield ends
    for end in ends:
        end.close()


async def test_emit_waits_while_the_outbox_is_full(sockets: tuple[socket.socket, socket.socket]) -> None:
    emitter, relay = Emitter(TERMS, lambda: None), Peer(sockets[1])
    emitter.connect(sockets[0])
    emitting = asyncio.create_task(emitter.emit(emissions(25), confirm=0))
    await eventually(lambda: len(relay.numbers) == 10)
    assert not emitting.done()
    relay.ack()
    await eventually(lambda: len(relay.numbers) == 20)
    assert not emitting.done()
    relay.ack()
    await asyncio.wait_for(emitting, 60)
    await eventually(lambda: relay.numbers == list(range(25)))
    emitter.close()
    relay.wire.close()


async def test_what_has_no_ack_goes_again_on_the_next_line_and_tells_its_age(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    lost: list[int] = []
    emitter, first = Emitter(TERMS, lambda: lost.append(1)), Peer(sockets[1])
    emitter.connect(sockets[0])
    await emitter.emit(emissions(3), confirm=0)
    await eventually(lambda: first.numbers == [0, 1, 2])
    assert first.openings[0].age is None
    first.wire.close()
    await eventually(lambda: lost)
    mine, theirs = pair()
    second = Peer(theirs)
    emitter.connect(mine)
    await eventually(lambda: second.numbers == [0, 1, 2])
    age = second.openings[0].age
    assert age is not None
    assert age >= 0
    emitter.close()
    second.wire.close()


async def test_flush_says_how_many_messages_have_no_ack(sockets: tuple[socket.socket, socket.socket]) -> None:
    emitter, relay = Emitter(TERMS, lambda: None), Peer(sockets[1])
    emitter.connect(sockets[0])
    await emitter.emit(emissions(4), confirm=0)
    assert await emitter.flush() == 4
    relay.ack()
    assert await emitter.flush() == 0
    emitter.close()
    relay.wire.close()


async def test_a_cancelled_emit_leaves_the_others_waiting_in_peace(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    emitter, relay = Emitter(TERMS, lambda: None), Peer(sockets[1])
    emitter.connect(sockets[0])
    await emitter.emit(emissions(10), confirm=0)
    one, other = (asyncio.create_task(emitter.emit(emissions(1, first), confirm=1)) for first in (100, 200))
    await asyncio.sleep(0)
    one.cancel()
    await eventually(lambda: len(relay.numbers) == 10)
    relay.ack()
    await eventually(lambda: relay.numbers[10:] == [200])
    relay.ack()
    await asyncio.wait_for(other, 60)
    emitter.close()
    relay.wire.close()


async def test_a_message_that_was_refused_raises_where_its_confirmation_is_waited_for(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    emitter, relay = Emitter(TERMS, lambda: None), Peer(sockets[1])
    emitter.connect(sockets[0])
    await emitter.emit(emissions(1), confirm=0)
    one = asyncio.create_task(emitter.emit(emissions(3, first=10), confirm=3))
    other = asyncio.create_task(emitter.emit(emissions(1, first=20), confirm=1))
    await eventually(lambda: len(relay.numbers) == 5)
    relay.ack(0, 11)
    with pytest.raises(Rejected, match=r"1 of 3 messages were rejected, .*: no queue \(1\); emit them again") as error:
        await asyncio.wait_for(one, 60)
    assert error.value.reasons == {1: "no queue"}
    await asyncio.wait_for(other, 60)
    assert emitter.held == 0
    emitter.close()
    relay.wire.close()


async def test_a_thread_emits_for_sync_code(sockets: tuple[socket.socket, socket.socket]) -> None:
    aside, relay = EmitterThread(TERMS, lambda: None), Peer(sockets[1])
    aside.start()
    aside.connect(sockets[0].dup())
    emitting = asyncio.create_task(asyncio.to_thread(aside.call, aside.emitter.emit(emissions(5), confirm=5)))
    await eventually(lambda: len(relay.numbers) == 5)
    assert not emitting.done()
    relay.ack()
    await asyncio.wait_for(emitting, 60)
    assert await asyncio.to_thread(aside.flush) == 0
    aside.stop()
    relay.wire.close()
