"""Measuring a node, and telling the fleet only what has changed; in virtual time."""

import asyncio

from rota.fleet.members.load import LoadMeter, machine, publish_load
from rota.fleet.members.session import NodeSession, in_session
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.model.node import NodeLoad
from rota.store import open_store
from tests.kit.identities import identity
from tests.kit.virtual_trials import CLOCK
from tests.kit.waiting import Recorder


def test_the_machine_is_measured_in_shares() -> None:
    cpu, memory = machine()
    assert 0 <= cpu <= 1
    assert 0 < memory <= 1


def test_a_meter_smooths_what_it_sees_and_counts_executors() -> None:
    async def main() -> None:
        seen = [0.0, 0.0]
        meter = LoadMeter(CLOCK, lambda: (8, 2), lambda: (seen[0], seen[1]))
        assert meter.load == NodeLoad(score=0.0, cpu=0, memory=0, executors=8, executors_used=2)
        measuring = asyncio.create_task(meter.run())
        await asyncio.sleep(60.5)
        assert meter.load.score == 8.0, "a quarter of the executors is in use"
        seen[:] = [1.0, 1.0]
        await asyncio.sleep(1)
        assert 8 < meter.load.score < 40
        await asyncio.sleep(60)
        assert meter.load.score == 76.0
        measuring.cancel()
        await asyncio.wait([measuring])

    virtual.run(main())


def test_a_node_without_executors_uses_none_of_them() -> None:
    async def main() -> None:
        meter = LoadMeter(CLOCK, lambda: (0, 0), lambda: (0.5, 0.0))
        meter.measure()
        assert meter.load.score == 32.0

    virtual.run(main())


def test_the_fleet_is_told_at_once_and_then_when_the_score_moved_and_not_too_often() -> None:
    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            cpu = [0.5]
            meter = LoadMeter(CLOCK, lambda: (4, 0), lambda: (cpu[0], 0.0))
            meter.measure()

            async def body(session: NodeSession) -> None:
                key = keys.node_load(NodeId("a"))
                async with Recorder(store, key, await store.revision()) as recorder, asyncio.TaskGroup() as parts:
                    loops = [
                        parts.create_task(meter.run()),
                        parts.create_task(publish_load(store, session, meter, CLOCK)),
                    ]
                    await asyncio.sleep(60)
                    assert len(recorder.commits) == 1, "nothing moved"
                    cpu[0] = 1.0
                    await asyncio.sleep(60)
                    assert 3 < len(recorder.commits) <= 7, "at most each five seconds, until it has settled"
                    entry = await store.get(key)
                    assert entry is not None
                    assert abs(codec.decode(NodeLoad, entry.value).score - 64) < 1
                    for loop in loops:
                        loop.cancel()

            await in_session(store, identity(), CLOCK, body)
            assert await store.get(keys.node_load(NodeId("a"))) is None, "it goes with its node"

    virtual.run(main())
