"""The link in memory, in virtual time, with a network that delays, loses and cuts, and with nodes that freeze."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import pytest

from rota.kit.time import virtual
from rota.kit.time.virtual import CallbackGroup
from rota.link.memory import Mesh
from rota.link.port import NodeLink
from rota.link.records import Accepted
from rota.model.errors import Unavailable, Unknown
from tests.kit.link_server import ATTEMPT, Desk, dispatch, start

T = TypeVar("T")


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
        self.group = CallbackGroup("b")
        self.desk = Desk()
        self.mesh = Mesh(weather)
        with self.group.enter():
            self.door = self.mesh.serve("b", self.desk)
        self.link: NodeLink = self.mesh.link("b", sender="a")


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


def test_a_call_takes_the_networks_time_and_no_real_one() -> None:
    async def story(pair: Pair) -> float:
        pair.weather.delay = (0.5, 0.5)
        assert await pair.link.check() == pair.desk.is_at
        return now()

    assert on_a_pair(story) == pytest.approx(1.0)


@pytest.mark.parametrize(("way", "asked"), [(("a", "b"), 0), (("b", "a"), 1)])
def test_a_cut_costs_the_time_out_whether_the_call_arrived_or_not(way: Any, asked: int) -> None:
    async def story(pair: Pair) -> None:
        pair.weather.cut.add(way)
        with pytest.raises(Unknown):
            await dispatch(pair.link, start())
        assert now() == pytest.approx(5.0)
        with pytest.raises(Unavailable):
            await pair.link.check()
        assert now() == pytest.approx(7.0)
        with pytest.raises(Unavailable):
            await pair.link.read_log(ATTEMPT)
        assert now() == pytest.approx(12.0)
        assert (len(pair.desk.starts), len(pair.desk.reads)) == (asked, asked)
        pair.weather.cut.clear()
        assert await dispatch(pair.link, start()) == Accepted()
        assert len(pair.desk.starts) == 1

    on_a_pair(story)


def test_a_frozen_node_answers_nobody_and_goes_on_when_it_thaws() -> None:
    async def story(pair: Pair) -> None:
        pair.group.freeze()
        with pytest.raises(Unknown):
            await dispatch(pair.link, start())
        with pytest.raises(Unavailable):
            await pair.link.read_log(ATTEMPT)
        assert not pair.desk.was_asked
        pair.group.thaw()
        await asyncio.sleep(1)
        assert len(pair.desk.starts) == 1  # what was under way arrives: that is what Unknown means
        assert await pair.link.check() == pair.desk.is_at

    on_a_pair(story)


def test_a_door_that_is_taken_away_refuses_and_its_successor_answers() -> None:
    async def story(pair: Pair) -> None:
        pair.mesh.remove("b")
        with pytest.raises(Unavailable, match="no node listens there"):
            await dispatch(pair.link, start())
        successor = Desk()
        door = pair.mesh.serve("b", successor)
        assert await dispatch(pair.link, start()) == Accepted()
        assert (len(pair.desk.starts), len(successor.starts)) == (0, 1)
        await door.close(timedelta())

    on_a_pair(story)


def test_the_same_seed_tells_the_same_story() -> None:
    async def story(pair: Pair) -> float:
        await asyncio.gather(*(dispatch(pair.link, start(f"r/{number}")) for number in range(50)))
        return now()

    assert on_a_pair(story, 3) == on_a_pair(story, 3) != on_a_pair(story, 4)
