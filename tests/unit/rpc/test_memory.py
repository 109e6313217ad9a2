"""The link in memory, in virtual time, with a network that delays, loses and cuts, and with nodes that freeze."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import pytest

from rota.kit import virtual
from rota.kit.virtual import Group
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import NodeId
from rota.model.link import Accepted, Batch, Chunk
from rota.rpc.memory import Mesh
from rota.rpc.port import Link
from tests.kit.link_server import ATTEMPT, MAP, Desk, batch, report, start

T = TypeVar("T")
A = NodeId("a")


class Weather:
    """A network that takes a while, and that can be cut one way."""

    def __init__(self, seed: int = 1) -> None:
        self.delay = (0.001, 0.050)
        self.cut: set[tuple[str, str]] = set()
        self._random = Random(seed)

    def carry(self, sender: str, receiver: str, deliver: Callable[[], None]) -> None:
        if (sender, receiver) not in self.cut:
            asyncio.get_running_loop().call_later(self._random.uniform(*self.delay), deliver)


class Pair:
    """Node a, a link, and node b that can be frozen."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.group = Group("b")
        self.desk = Desk()
        self.mesh = Mesh(weather)
        with self.group.enter():
            self.door = self.mesh.serve("b", self.desk)
        self.link: Link = self.mesh.link("b", sender="a")


def on_a_pair(story: Callable[[Pair], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    """What a story returns, told in virtual time."""

    async def tell() -> T:
        pair = Pair(Weather(seed))
        result = await story(pair)
        await pair.link.close()
        await pair.door.close(timedelta())
        return result

    return virtual.run(tell())


def now() -> float:
    return asyncio.get_running_loop().time()


async def each(*batches: Batch) -> AsyncIterator[Batch]:
    for one in batches:
        yield one


async def acks_of(link: Link, *batches: Batch) -> list[int]:
    async with aclosing(link.hand_over(A, MAP, each(*batches))) as acks:
        return [acked async for acked in acks]


async def read(link: Link) -> list[Chunk]:
    async with aclosing(link.follow_log(ATTEMPT)) as chunks:
        return [chunk async for chunk in chunks]


def test_a_call_takes_the_networks_time_and_no_real_one() -> None:
    async def story(pair: Pair) -> float:
        pair.weather.delay = (0.5, 0.5)
        assert await pair.link.check() == pair.desk.is_at
        return now()

    assert on_a_pair(story) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_a_network_that_shuffles_does_not_shuffle_streams(seed: int) -> None:
    async def story(pair: Pair) -> None:
        batches = [batch(number, bytes([number])) for number in range(1, 100)]
        assert (await acks_of(pair.link, *batches))[-1] == 99
        assert pair.desk.batches == batches
        pair.desk.write(bytes(range(250)) * 4000, is_last=True)
        assert b"".join(chunk.data for chunk in await read(pair.link)) == pair.desk.log

    on_a_pair(story, seed)


@pytest.mark.parametrize("seed", range(20))
def test_reports_that_overtake_each_other_are_taken_in_order(seed: int) -> None:
    async def story(pair: Pair) -> list[int]:
        await asyncio.gather(*(pair.link.report(report(sequence)) for sequence in range(1, 21)))
        return [each.sequence for each in pair.desk.reports]

    sequences = on_a_pair(story, seed)
    assert sequences == sorted(set(sequences))
    assert sequences[-1] == 20


@pytest.mark.parametrize(("way", "starts"), [(("a", "b"), 0), (("b", "a"), 1)])
def test_a_cut_is_unknown_after_the_time_out_whether_the_start_arrived_or_not(way: Any, starts: int) -> None:
    async def story(pair: Pair) -> None:
        pair.weather.cut.add(way)
        with pytest.raises(Unknown):
            await pair.link.dispatch(start())
        assert now() == pytest.approx(5.0)
        with pytest.raises(Unavailable):
            await pair.link.check()
        assert now() == pytest.approx(7.0)
        assert len(pair.desk.starts) == starts
        pair.weather.cut.clear()
        assert isinstance(await pair.link.dispatch(start()), Accepted)
        assert len(pair.desk.starts) == 1

    on_a_pair(story)


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_both_ends_of_a_stream_notice_a_cut(way: Any) -> None:
    async def story(pair: Pair) -> None:
        reading = asyncio.ensure_future(read(pair.link))
        await asyncio.sleep(60)
        assert pair.desk.readers == 1  # a quiet log is not a silent peer
        pair.weather.cut.add(way)
        with pytest.raises(Unavailable, match=r"not a word for 15 s|is gone"):
            await reading
        assert now() < 60 + 2 * 15 + 1
        await asyncio.sleep(16)
        assert pair.desk.readers == 0

    on_a_pair(story)


def test_a_frozen_node_answers_nobody_and_goes_on_when_it_thaws() -> None:
    async def story(pair: Pair) -> None:
        handing = asyncio.ensure_future(acks_of(pair.link, *map(batch, range(1, 4))))
        reading = asyncio.ensure_future(read(pair.link))
        pair.desk.open.clear()
        await asyncio.sleep(1)
        pair.group.freeze()
        with pytest.raises(Unknown):
            await pair.link.dispatch(start())
        with pytest.raises(Unknown, match="broke off after batch 0"):
            await handing
        with pytest.raises(Unavailable):
            await reading
        assert pair.desk.starts == []
        pair.group.thaw()
        pair.desk.open.set()
        await asyncio.sleep(1)
        assert len(pair.desk.starts) == 1  # what was under way arrives: that is what Unknown means
        assert pair.desk.safe == [1, 2, 3]
        assert pair.desk.readers == 0
        assert await pair.link.check() == pair.desk.is_at

    on_a_pair(story)


def test_a_node_that_froze_while_it_called_is_not_waited_for() -> None:
    async def story(pair: Pair) -> None:
        caller = Group("a")
        with caller.enter():
            reading = asyncio.ensure_future(read(pair.link))
        await asyncio.sleep(1)
        assert pair.desk.readers == 1
        caller.freeze()
        await asyncio.sleep(20)
        assert pair.desk.readers == 0
        caller.thaw()
        with pytest.raises(Unavailable):
            await reading

    on_a_pair(story)


def test_a_door_that_is_taken_away_refuses_and_its_successor_answers() -> None:
    async def story(pair: Pair) -> None:
        pair.mesh.remove("b")
        with pytest.raises(Unavailable, match="no node listens there"):
            await pair.link.dispatch(start())
        successor = Desk()
        door = pair.mesh.serve("b", successor)
        assert isinstance(await pair.link.dispatch(start()), Accepted)
        assert (len(pair.desk.starts), len(successor.starts)) == (0, 1)
        await door.close(timedelta())

    on_a_pair(story)


def test_the_same_seed_tells_the_same_story() -> None:
    async def story(pair: Pair) -> tuple[float, list[int]]:
        acks = await acks_of(pair.link, *map(batch, range(1, 50)))
        return now(), acks

    assert on_a_pair(story, 3) == on_a_pair(story, 3)
