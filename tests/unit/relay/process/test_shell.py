"""The relay's shell on real sockets, without processes: lines of workers, ways between relays, epochs, moves."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from rota.fleet.core.access.gate import digest
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Rejected
from rota.model.ids import NodeId
from rota.relay.core.held import Emission, RefusedMessage
from rota.relay.core.records import RelayMap, RelayStatus
from rota.relay.node.emitting import Emitter
from rota.relay.process import works
from rota.relay.process.pipe import AskRest, AskTallies, BeRelay, Fences, RelayIs, RelaysAre, Tokens
from rota.relay.process.shell import Shell
from rota.relay.process.spool import Spool, SpoolRefused
from rota.relay.process.wire import AckFrame, Any_, BatchFrame, FrameConnection, OpeningFrame, encode
from rota.relay.process.works import left_behind
from rota.runtime.pipes.brief import Emitting
from rota.runtime.pipes.channel import PipeMessage, pair
from rota.sinks import memory
from tests.kit.disks import BadSectors
from tests.kit.sinks import message, numbers
from tests.kit.waiting import eventually

TOKEN = "a-token-that-both-of-them-know"
A, B = NodeId("a"), NodeId("b")
ALONE, BOTH = RelayMap(version=1, nodes=(A,)), RelayMap(version=2, nodes=(A, B), before=(A,))
THEIRS = next(name for name in map(str, range(100)) if BOTH.home("room", name) == B)


class Relay:
    """A shell with a door, and an agent that writes down what it says."""

    def __init__(self, node: NodeId, folder: Path, parts: asyncio.TaskGroup, token: str, window: int) -> None:
        self.node = node
        self.door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.door.getsockname()[1]}"
        self.status: RelayStatus | None = None
        brief = BeRelay(
            node=node, address=self.address, folder=str(folder / node), token=token, spool_bytes=2**20, window=window,
            held_messages=1000, held_bytes=2**20,
        )  # fmt: skip
        self.shell = Shell(brief, self._say, parts, SYSTEM, SYSTEM.wall())
        self._parts = parts
        self._workers: list[Emitter] = []
        parts.create_task(self.shell.run())
        parts.create_task(self._admit())

    def _say(self, told: PipeMessage) -> None:
        assert isinstance(told, RelayIs)
        self.status = told.status

    async def _admit(self) -> None:
        self.door.setblocking(False)
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self.door)
            self.shell.take_stranger(sock)

    def worker(self, name: str) -> Emitter:
        """A worker with a line."""
        emitter = Emitter(Emitting(), lambda: None)
        mine, theirs = pair()
        self.shell.take_worker(name, theirs)
        emitter.connect(mine)
        self._parts.create_task(emitter.run())
        self._workers.append(emitter)
        return emitter

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Have this done until the relay ends."""
        self._parts.create_task(work)

    def close(self) -> None:
        self.shell.close()
        self.door.close()
        for worker in self._workers:
            worker.close()


@asynccontextmanager
async def relays(
    folder: Path, *nodes: NodeId, tokens: dict[NodeId, str] | None = None, window: int = 100
) -> AsyncIterator[list[Relay]]:
    others = asyncio.all_tasks()
    async with asyncio.TaskGroup() as parts:
        found = [Relay(node, folder, parts, (tokens or {}).get(node, TOKEN), window) for node in nodes]
        try:
            yield found
        finally:
            for task in asyncio.all_tasks() - others:
                task.cancel()
            for relay in found:
                relay.close()


@pytest.fixture
def sink() -> str:
    """The URL of an empty broker."""
    return f"memory://{uuid4().hex}"


def broker(sink: str) -> memory.MemoryBroker:
    return memory.broker(sink.removeprefix("memory://"))


def emission(
    number: int, sink: str, resource: str = THEIRS, *, slot: int = 0, epoch: int = 1, exclusive: bool = False
) -> Emission:
    return Emission(message(number, resource), sink, slot, epoch, exclusive)


def tell(relay_map: RelayMap, found: list[Relay]) -> None:
    for relay in found:
        relay.shell.follow(RelaysAre(relay_map, {str(each.node): each.address for each in found}))


async def test_what_a_worker_emits_is_published_and_acked(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        worker = relay.worker("1")
        await worker.emit([emission(number, sink) for number in range(1200)], confirm=1200)
        assert numbers(broker(sink).messages) == list(range(1200))
        assert worker.held == 0
        await eventually(lambda: relay.shell.answer(AskRest(1)).is_idle)


async def test_who_waits_for_a_message_that_the_sink_rejects_hears_of_it(tmp_path: Path, sink: str) -> None:
    """Also on the node that is not the home, and a message that is emitted again is tried again."""
    async with relays(tmp_path, A, B) as (a, b):
        tell(BOTH, [a, b])
        here, there = a.worker("1"), b.worker("1")
        broker(sink).objection = lambda message: "no queue" if message.id == (1).to_bytes(16) else None
        for worker in (here, there):
            with pytest.raises(Rejected, match="no queue"):
                await asyncio.wait_for(worker.emit([emission(1, sink), emission(2, sink)], confirm=2), 60)
        broker(sink).objection = lambda message: None
        await asyncio.wait_for(here.emit([emission(1, sink)], confirm=1), 60)
        assert sorted(numbers(broker(sink).messages)) == [1, 2]


def test_an_ack_of_an_earlier_release_refuses_nothing() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([4, 7]), type=Any_) == AckFrame(7)
    longer = msgspec.msgpack.encode([4, 7, [[3, b"id", "why", "what a later release adds"]], "and more"])
    assert msgspec.msgpack.decode(longer, type=Any_) == AckFrame(7, (RefusedMessage(3, b"id", "why"),))


async def test_a_relay_that_died_knows_what_it_had_published(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        await relay.worker("1").emit([emission(number, sink) for number in range(300)], confirm=300)
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        late = [emission(number, sink, slot=1) for number in range(200, 400)]
        await relay.worker("2").emit(late, confirm=200)
        assert numbers(broker(sink).messages) == list(range(400))
        (tally,) = relay.shell.answer(AskTallies(1, "room", THEIRS)).tallies
        assert (tally.unique, tally.duplicates) == (100, 100)


async def test_messages_wait_for_a_map(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A) as [relay]:
        worker = relay.worker("1")
        emitting = asyncio.create_task(worker.emit([emission(1, sink)], confirm=1))
        await eventually(lambda: not relay.shell.answer(AskRest(1)).is_safe)
        assert not emitting.done()
        tell(ALONE, [relay])
        await asyncio.wait_for(emitting, 60)


async def test_copies_of_two_nodes_meet_at_the_home(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A, B) as found:
        tell(BOTH, found)
        here, there = (relay.worker("1") for relay in found)
        for slot, worker in enumerate((here, there)):
            copies = [emission(number, sink, slot=slot) for number in range(300)]
            await asyncio.wait_for(worker.emit(copies, confirm=300), 60)
        assert numbers(broker(sink).messages) == list(range(300))
        [tally] = found[1].shell.answer(AskTallies(1, "room", THEIRS)).tallies
        assert (tally.unique, tally.duplicates) == (300, 300)
        assert found[0].shell.answer(AskTallies(1, "room")).tallies == ()


async def test_a_planned_move_takes_what_is_known_along(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A, B) as found:
        tell(ALONE, found)
        worker = found[0].worker("1")
        await worker.emit([emission(number, sink) for number in range(50)], confirm=50)
        tell(BOTH, found)
        again = [emission(number, sink, slot=1) for number in range(51)]
        await asyncio.wait_for(worker.emit(again, confirm=51), 60)
        assert numbers(broker(sink).messages) == list(range(51)), "what was known before the move was published again"
        await eventually(lambda: all(relay.status and not relay.status.is_moving for relay in found))
        assert [relay.status.map_version for relay in found if relay.status] == [2, 2]


async def test_a_relay_that_is_started_again_after_a_move_does_not_wait_for_what_its_earlier_life_was_shipped(
    tmp_path: Path, sink: str
) -> None:
    async with relays(tmp_path, A) as (giver,):
        tell(ALONE, [giver])
        worker = giver.worker("1")
        await worker.emit([emission(1, sink)], confirm=1)
        for number in (2, 3):  # two lives of the taker
            async with relays(tmp_path, B) as (taker,):
                tell(BOTH, [giver, taker])
                await asyncio.wait_for(worker.emit([emission(number, sink)], confirm=1), 60)
        assert numbers(broker(sink).messages) == [1, 2, 3]


async def test_an_exclusive_task_of_an_earlier_epoch_is_refused_and_counted(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        relay.shell.fence(Fences((("room", THEIRS, 7),)))
        worker = relay.worker("1")
        with pytest.raises(Rejected, match="earlier epoch: a later task of room has taken over"):
            await worker.emit([emission(1, sink, epoch=6, exclusive=True)], confirm=1)
        await worker.emit([emission(2, sink, epoch=7, exclusive=True)], confirm=1)
        assert numbers(broker(sink).messages) == [2]
        await eventually(lambda: relay.status and relay.status.refused == {"earlier epoch": 1})


async def test_a_line_that_is_replaced_hands_over_again_and_nothing_is_repeated(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        worker = relay.worker("1")
        broker(sink).stop()
        emitting = asyncio.create_task(worker.emit([emission(number, sink) for number in range(10)], 10))
        await eventually(lambda: not relay.shell.answer(AskRest(1)).is_idle)
        mine, theirs = pair()
        relay.shell.take_worker("1", theirs)
        worker.connect(mine)
        broker(sink).start()
        await asyncio.wait_for(emitting, 60)
        await eventually(lambda: relay.shell.answer(AskRest(2)).is_idle)
        assert numbers(broker(sink).messages) == list(range(10))


async def test_a_worker_that_has_not_said_what_it_holds_is_waited_for(tmp_path: Path) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        mine, theirs = pair()
        relay.shell.take_worker("1", theirs)
        assert not relay.shell.answer(AskRest(1)).is_idle
        mine.send(encode(OpeningFrame(None)))
        await eventually(lambda: relay.shell.answer(AskRest(2)).is_idle)
        mine.close()


async def test_a_worker_that_ended_with_two_lines_is_not_waited_for(tmp_path: Path) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        ends = []
        for _ in range(2):
            mine, theirs = pair()
            relay.shell.take_worker("1", theirs)
            mine.send(encode(OpeningFrame(3.0)))
            ends.append(mine)
        await eventually(lambda: relay.status and relay.status.lines == 2)
        relay.shell.sender_gone("1")
        for end in ends:
            end.close()
            await eventually(lambda: relay.status and relay.status.lines == len(ends) - 1 - ends.index(end))  # noqa: B023
        assert relay.shell.answer(AskRest(1)).is_idle


async def test_a_line_on_which_a_batch_is_missing_is_ended(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        mine, theirs = pair()
        relay.shell.take_worker("1", theirs)
        reader, writer = await asyncio.open_connection(sock=mine)
        writer.write(
            encode(OpeningFrame(None)) + encode(BatchFrame(1, None)) + encode(BatchFrame(3, 0.0, (emission(3, sink),)))
        )
        answer = await asyncio.wait_for(reader.read(), 60)
        assert b"batch 3 follows 1" in answer
        assert broker(sink).messages == []
        writer.close()


async def test_messages_for_a_sink_that_is_down_are_spooled_and_published_by_the_next_life(
    tmp_path: Path, sink: str
) -> None:
    broker(sink).stop()
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        await asyncio.wait_for(relay.worker("1").emit([emission(number, sink) for number in range(20)], 20), 60)
        await eventually(lambda: relay.shell.answer(AskRest(1)).is_safe)
        assert not relay.shell.answer(AskRest(2)).is_idle
        assert left_behind(tmp_path / A) == [sink]
    broker(sink).start()
    async with relays(tmp_path, A) as [relay]:
        await eventually(lambda: relay.shell.answer(AskRest(1)).is_idle)
        assert numbers(broker(sink).messages) == list(range(20))


async def test_a_spool_that_cannot_be_read_holds_up_no_live_message_and_is_published_when_it_can(
    tmp_path: Path, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker(sink).stop()
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        worker = relay.worker("1")
        for number in range(6):  # each is a write of its own, and a quarter of the spool's bytes is a segment
            large = Emission(message(number, THEIRS, payload=bytes(100_000)), sink, 0, 1)
            await asyncio.wait_for(worker.emit([large], confirm=1), 60)
    disk = BadSectors(monkeypatch)
    disk.hurt(sorted(tmp_path.glob("a/*/*.segment"))[1])
    broker(sink).start()
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        await asyncio.wait_for(relay.worker("2").emit([emission(9, sink)], confirm=1), 60)
        assert numbers(broker(sink).messages) == [9]
        await eventually(lambda: relay.status and "Input/output error" in relay.status.sinks[0].last_error)
        disk.heal()
        await eventually(lambda: numbers(broker(sink).messages) == [9, *range(6)])


async def test_a_spool_that_refuses_is_logged_once_until_it_has_taken_something(
    tmp_path: Path, sink: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append, tries, is_full = Spool.append, list[int](), [True]

    def refused(self: Spool, messages: Sequence[Any]) -> int:
        tries.append(len(messages))
        if is_full[0]:
            raise SpoolRefused(f"the disk is full, try {len(tries)}")
        return append(self, messages)

    monkeypatch.setattr(Spool, "append", refused)
    monkeypatch.setattr(works, "DISK_RETRY", 0.01)
    broker(sink).stop()
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        worker = relay.worker("1")
        for times in (1, 2):
            is_full[0], before = True, len(tries)
            waiting = asyncio.create_task(worker.emit([emission(times, sink)], confirm=1))
            await eventually(lambda before=before: len(tries) >= before + 5)
            is_full[0] = False
            await asyncio.wait_for(waiting, 60)
            said = [record.why for record in caplog.records if record.message == "spool refuses"]  # type: ignore[attr-defined]
            assert len(said) == times
    broker(sink).start()


async def test_a_spool_is_published_however_small_the_window_is(tmp_path: Path, sink: str) -> None:
    broker(sink).stop()
    async with relays(tmp_path, A, window=10) as [relay]:
        tell(ALONE, [relay])
        await asyncio.wait_for(relay.worker("1").emit([emission(number, sink) for number in range(300)], 300), 60)
        broker(sink).start()
        await eventually(lambda: relay.shell.answer(AskRest(1)).is_idle)
        assert numbers(broker(sink).messages) == list(range(300))


@pytest.mark.parametrize(
    ("opening", "words"),
    [
        pytest.param(OpeningFrame(None, node="b", version=1, token="a guess"), "token is not known", id="wrong token"),
        pytest.param(
            OpeningFrame(None, node="b", version=9, token=TOKEN), "version 9 of the relay map", id="other map"
        ),
        pytest.param(OpeningFrame(None, protocol=9, node="b", token=TOKEN), "version 1 of the relays", id="other Rota"),
    ],
)
async def test_who_is_not_let_in_hears_why(tmp_path: Path, opening: OpeningFrame, words: str) -> None:
    async with relays(tmp_path, A) as [relay]:
        tell(ALONE, [relay])
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.door.getsockname()[1])
        writer.write(encode(opening))
        answer = await asyncio.wait_for(reader.read(), 60)
        assert words.encode() in answer
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_relay_with_another_token_gets_nothing_through(tmp_path: Path, sink: str) -> None:
    async with relays(tmp_path, A, B, tokens={A: "another token than the other one has"}) as found:
        tell(BOTH, found)
        worker = found[0].worker("1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.emit([emission(1, sink)], confirm=1), 0.5)
        assert broker(sink).messages == []
        assert worker.held == 1
        told = await eventually(lambda: found[0].status and found[0].status.unreached)
        assert "this token is not known to node b" in told[B]
        assert found[0].status
        assert found[0].status.waiting == 1
        assert not found[0].status.is_idle


async def test_a_line_ends_with_its_token_and_comes_again_with_the_new_one(tmp_path: Path, sink: str) -> None:
    new = "a-token-that-was-made-by-a-rotation"
    old_digest, new_digest = digest(TOKEN).hex(), digest(new).hex()
    async with relays(tmp_path, A, B) as found:
        tell(BOTH, found)
        worker = found[0].worker("1")
        await asyncio.wait_for(worker.emit([emission(1, sink)], confirm=1), 60)
        found[1].shell.admit(Tokens(TOKEN, [new_digest]))  # the old one was taken back, and a has no new one yet
        told = await eventually(lambda: found[0].status and found[0].status.unreached)
        assert "this token is not known to node b" in told[B]
        found[0].shell.admit(Tokens(new, [old_digest, new_digest]))
        await asyncio.wait_for(worker.emit([emission(2, sink)], confirm=1), 60)
        assert len(broker(sink).messages) == 2


class Stub:
    """A home that lets another relay in and says only what it is told to."""

    def __init__(self) -> None:
        self.door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.door.getsockname()[1]}"
        self.batches: list[BatchFrame] = []
        self.wire: FrameConnection | None = None

    async def admit(self) -> None:
        """Let everybody in, the last one for good."""
        self.door.setblocking(False)
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self.door)
            self.wire = FrameConnection(sock, self._heard, lambda: None)
            self.wire.send(AckFrame(0))

    def _heard(self, record: Any_) -> None:
        if isinstance(record, BatchFrame) and record.emissions:
            self.batches.append(record)


async def test_an_ack_that_comes_with_another_map_acks_nothing_of_what_goes_again(tmp_path: Path, sink: str) -> None:
    home = Stub()
    async with relays(tmp_path, A) as [relay]:
        relay.background(home.admit())
        members = {A: relay.address, B: home.address}
        relay.shell.follow(RelaysAre(BOTH, members))
        worker = relay.worker("1")
        await worker.emit([emission(1, sink)], 0)
        await eventually(lambda: home.batches)
        await worker.emit([emission(2, sink)], 0)
        await eventually(lambda: len(home.batches) == 2)
        # In one turn of its loop the relay hears of another map, and the ack of the first message.
        mine, agents = pair()
        loop, line = asyncio.get_running_loop(), home.wire
        assert line is not None
        later = RelayMap(version=3, nodes=(A, B))
        loop.add_reader(mine, lambda: (loop.remove_reader(mine), relay.shell.follow(RelaysAre(later, members))))
        agents.send(b"!")
        line.send(AckFrame(home.batches[0].sequence))
        await eventually(lambda: home.wire is not line and len(home.batches) >= 3)
        again = [one.message for batch in home.batches[2:] for one in batch.emissions]
        assert worker.held == 2, "a message was acked that nobody has"
        assert numbers(again) == [1, 2]
        mine.close()
        agents.close()
        home.door.close()
