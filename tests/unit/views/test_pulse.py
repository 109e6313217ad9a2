"""The pulse: which parts of a fleet have changed."""

import asyncio
from contextlib import aclosing

import pytest

from rota.model import keys
from rota.model.ids import NodeId
from rota.store import Put, open_store
from rota.views.pulse import PACE, PARTS, PulseBeat, parts_of, watch_pulse


@pytest.mark.parametrize(
    ("key", "part"),
    [
        (keys.node(NodeId("a")), "nodes"),
        (keys.LEADER, "nodes"),
        (keys.resource_status("room", "1"), "resources"),
        (keys.assignment(NodeId("a"), "room/1#0"), "tasks"),
        (keys.live_run("tick/20260101T000000.000000Z"), "runs"),
        (keys.run("tick/20260101T000000.000000Z"), "runs"),
        (keys.RELAY_MAP, "relays"),
        (keys.event("1"), "events"),
        (keys.EVENTS_CURSOR, None),
        ("/saved/room/1#0", None),
    ],
)
def test_a_key_belongs_to_one_part_or_none(key: str, part: str | None) -> None:
    assert parts_of([key]) == ({part} if part else set())


async def test_the_first_beat_names_everything_and_the_next_what_has_changed() -> None:
    waits: list[float] = []
    may_go_on = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await may_go_on.wait()

    async with open_store("memory://") as store, aclosing(watch_pulse(store, sleep)) as beats:
        (first,) = await anext(beats)
        assert first == PulseBeat(parts=tuple(sorted(PARTS)), revision=await store.revision())
        await store.commit(Put(keys.job("tick"), b"1"))
        (second,) = await anext(beats)
        assert second.parts == ("jobs",)
        coming = asyncio.ensure_future(anext(beats))
        await store.commit(Put(keys.node(NodeId("a")), b"1"))
        await store.commit(Put("/saved/x", b"1"))
        last = await store.commit(Put(keys.live_run("tick/1"), b"1"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not coming.done()
        may_go_on.set()
        (third,) = await coming
        assert third == PulseBeat(parts=("nodes", "runs"), revision=last)
        assert waits == [PACE]
