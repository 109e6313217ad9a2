"""Messages arrive whole and in order, descriptors come along, and a peer that does not read is given up."""

import asyncio
import importlib
import os
import pkgutil
import resource
import socket

import pytest

from rota.resources.pipe import StartTask, TaskEnded
from rota.runtime import pipes as conversations
from rota.runtime.pipes import channel as channels
from rota.runtime.pipes.brief import Brief, Deadline, Order
from rota.runtime.pipes.channel import Channel, Pipe
from rota.runtime.pipes.loader import Fork
from rota.runtime.pipes.worker import Finish
from tests.kit.waiting import eventually


async def test_messages_arrive_whole_and_in_order() -> None:
    ours, theirs = channels.pair()
    heard: list[object] = []
    ended = asyncio.Event()
    channel = Channel(ours, heard.append, ended.set)
    peer = Pipe(theirs)
    sent = [
        StartTask(Order("room/1#0", 7, "room", "1", 0, b'{"a": 1}', is_exclusive=True)),
        TaskEnded("room/1#0", 7, False, "ValueError: ß"),
        Deadline(1.5, 2.5),
        *(TaskEnded(f"t{number}", number, True) for number in range(1000)),
    ]
    await asyncio.to_thread(lambda: [peer.send(message) for message in sent])
    await eventually(lambda: len(heard) >= len(sent))
    assert heard == sent
    for message in sent:
        channel.send(message)
    assert await asyncio.to_thread(lambda: [peer.receive() for _ in sent]) == sent
    peer.close()
    async with asyncio.timeout(60):
        await ended.wait()
    assert not channel.is_open
    channel.send(Finish())  # to nobody, and nothing happens


async def test_descriptors_travel_with_their_message() -> None:
    ours, theirs = channels.pair()
    channel, peer = Channel(ours, print, lambda: None), Pipe(theirs)
    wanted = []
    for number in range(20):
        reading, writing = os.pipe()
        os.write(writing, str(number).encode())
        os.close(writing)
        brief = Brief(worker=number, role="host", pool="host", slot=0, generation=1, node="a")
        channel.send(Fork(brief), [reading])
        wanted.append(number)
    for number in wanted:
        message = peer.receive()
        assert isinstance(message, Fork)
        fd = peer.fds.popleft()
        assert (message.brief.worker, os.read(fd, 10), os.get_inheritable(fd)) == (number, str(number).encode(), False)
        os.close(fd)
    channel.close()
    peer.close()


async def test_a_peer_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "LIMIT", 1_000_000)
    ours, theirs = channels.pair()
    ended = asyncio.Event()
    channel = Channel(ours, print, ended.set)
    text = "x" * 100_000
    for _ in range(100):
        channel.send(TaskEnded("t", 1, False, text))
    assert ended.is_set()
    assert not channel.is_open
    theirs.close()


async def test_a_sender_that_waits_for_room_loses_nothing_and_is_not_called_for_a_lost_peer() -> None:
    ours, theirs = channels.pair()
    called: list[str] = []
    channel, peer = Channel(ours, print, lambda: called.append("ended")), Pipe(theirs)
    text, sent = "x" * 1_000_000, 0
    while channel.has_room:
        channel.send(TaskEnded("t", 1, False, text))
        sent += 1
    channel.when_room(lambda: called.append("room"))
    flushing = asyncio.create_task(channel.flush())
    await asyncio.sleep(0)
    assert (called, flushing.done()) == ([], False), "the peer has read nothing"
    assert len(await asyncio.to_thread(lambda: [peer.receive() for _ in range(sent)])) == sent
    await flushing
    await eventually(lambda: called == ["room"])
    while channel.has_room:
        channel.send(TaskEnded("t", 1, False, text))
    channel.when_room(lambda: called.append("room"))
    flushing = asyncio.create_task(channel.flush())
    await asyncio.sleep(0)
    peer.close()
    await flushing
    await eventually(lambda: called == ["room", "ended"])
    assert not channel.has_room


async def test_the_end_of_a_peer_is_told_once() -> None:
    ours, theirs = channels.pair()
    ends: list[int] = []
    channel = Channel(ours, print, lambda: ends.append(1))
    theirs.close()
    channel.send(Finish())
    channel.send(Finish())
    await asyncio.sleep(0.01)
    assert ends == [1]


def test_a_pipe_without_a_peer_receives_nothing() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    pipe = Pipe(ours)
    pipe.send(Finish())
    assert pipe.receive() is None
    pipe.close()


def test_a_pipe_that_has_no_room_for_a_descriptor_ends() -> None:
    ours, theirs = channels.pair()
    pipe, spare = Pipe(theirs), os.dup(0)
    socket.send_fds(ours, [channels.encode(Finish())], [spare])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(spare)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        assert not pipe.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not pipe.fds
    pipe.close()
    ours.close()


class LateWord(channels.PipeMessage, frozen=True):
    """A message that is declared when others were decoded already."""

    number: int


def test_a_message_is_understood_as_soon_as_it_is_declared() -> None:
    ours, theirs = channels.pair()
    sender, receiver = Pipe(ours), Pipe(theirs)
    sender.send(Finish())
    assert receiver.receive() == Finish()

    class LatestWord(channels.PipeMessage, frozen=True):
        number: int

    for message in (LateWord(1), LatestWord(2)):
        sender.send(message)
        assert receiver.receive() == message
    sender.close()
    receiver.close()


def test_every_message_of_every_conversation_has_a_tag_of_its_own() -> None:
    for module in pkgutil.iter_modules(conversations.__path__, f"{conversations.__name__}."):
        importlib.import_module(module.name)
    tags = [kind.__struct_config__.tag for kind in channels.PipeMessage.__subclasses__()]
    assert sorted(tags) == sorted(set(tags))
