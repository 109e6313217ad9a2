"""Duties, on the memory store in virtual time: one node per beat, the idlest first."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

from rota.fleet.leading.duties import Duties
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.ids import NodeId, SessionId
from rota.model.peers import DutyHeld
from rota.store import Put, Store, incarnation, open_store
from tests.kit.virtual_trials import CLOCK

SECOND = timedelta(seconds=1)
BEAT = 10 * SECOND


def play(story: Callable[[Store, Callable[..., Awaitable[Duties]]], Awaitable[None]]) -> None:
    """A story with a store, and a way to get nodes with a load score."""

    async def main() -> None:
        async with AsyncExitStack() as up:
            store = await up.enter_async_context(open_store("memory://s", clock=CLOCK))

            async def node(name: str, score: float = 0.0) -> Duties:
                joined = await incarnation.current(store, CLOCK)
                return Duties(store, NodeId(name), SessionId(f"{name}1"), joined, CLOCK, lambda: score)

            await story(store, node)

    virtual.run(main())


def test_a_beat_is_claimed_once_and_numbers_only_grow() -> None:
    async def story(store: Store, node: Callable[..., Awaitable[Duties]]) -> None:
        a, b = await node("a"), await node("b")
        assert await asyncio.gather(a.claim("sweep", 5), b.claim("sweep", 5)) in ([True, False], [False, True])
        assert not await a.claim("sweep", 5)
        assert not await b.claim("sweep", 4)
        assert await b.claim("sweep", 6)
        assert await a.claim("other", 1), "each duty has beats of its own"

    play(story)


def test_each_beat_is_done_once_by_the_idlest() -> None:
    async def story(store: Store, node: Callable[..., Awaitable[Duties]]) -> None:
        done: list[tuple[int, str]] = []

        def chore(name: str) -> Callable[[int], Awaitable[None]]:
            async def do(beat: int) -> None:
                done.append((beat, name))

            return do

        loops = [
            asyncio.create_task((await node(name, score)).every("sweep", BEAT, chore(name)))
            for name, score in (("a", 80.0), ("b", 3.0), ("c", 40.0))
        ]
        await asyncio.sleep(65)
        assert [name for _, name in done] == ["b"] * 6
        assert len({beat for beat, _ in done}) == 6
        loops[1].cancel()
        await asyncio.sleep(30)
        assert [name for _, name in done[6:]] == ["c"] * 3, "the next idlest takes over"
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)

    play(story)


def test_a_duty_goes_on_when_the_clock_went_back() -> None:
    async def story(store: Store, node: Callable[..., Awaitable[Duties]]) -> None:
        future = DutyHeld(beat=10**12, node=NodeId("z"), session=SessionId("z"))
        await store.commit(_put(future))
        done: list[int] = []

        async def chore(beat: int) -> None:
            done.append(beat)

        loop = asyncio.create_task((await node("a")).every("sweep", BEAT, chore))
        await asyncio.sleep(60)
        assert done == [10**12 + 1]
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    play(story)


def _put(held: DutyHeld) -> Put:
    return Put(keys.duty("sweep"), codec.encode(held))
