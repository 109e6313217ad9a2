"""Whose store it is: read before anything is written, and kept by whoever is there first."""

import asyncio
from datetime import timedelta

import pytest

from rota.fleet.core.members.identity import FleetClaim
from rota.fleet.members.identity import check_belonging, keep_app_known
from rota.fleet.members.session import Identity, join
from rota.jobs.core.records import JobRecord, JobSpec, Origin
from rota.kit.record import replace
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.model.node import FleetRecord, Node, Role
from rota.sim.world import EPOCH
from rota.store import Put, Store, open_store
from tests.kit.waiting import eventually

A, B = NodeId("a"), NodeId("b")


async def record(store: Store) -> FleetRecord | None:
    entry = await store.get(keys.FLEET)
    return codec.decode(FleetRecord, entry.value) if entry else None


async def test_of_two_fleets_on_one_store_the_second_does_not_join() -> None:
    identity = Identity(node=A, home="h", role=Role.BOTH, lease_ttl=timedelta(seconds=60), claim=FleetClaim(app="shop"))
    stranger = replace(identity, node=B, home="other", claim=FleetClaim(app="blog"))
    async with open_store("memory://") as store:
        await join(store, identity, SYSTEM)
        with pytest.raises(Invalid, match='the store holds the fleet "shop" with the app shop'):
            await join(store, stranger, SYSTEM)
        nodes = [codec.decode(Node, entry.value).id for entry in (await store.scan(keys.NODES)).entries]
        assert nodes == [A]


async def test_of_two_fleets_that_start_at_the_same_time_one_gets_the_store() -> None:
    async with open_store("memory://") as store:
        tries = [check_belonging(store, node, FleetClaim(app=node), SYSTEM) for node in (A, B)]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        assert [outcome for outcome in outcomes if outcome is None] == [None]
        found = await record(store)
        assert found is not None
        loser = B if found.name == A else A
        with pytest.raises(Invalid, match=f'this node runs the app "{loser}"'):
            await check_belonging(store, loser, FleetClaim(app=loser), SYSTEM)


async def test_an_app_of_an_older_fleet_that_has_only_jobs_is_locked_out_by_no_upgrade() -> None:
    job = JobRecord(spec=JobSpec(name="bill"), origin=Origin.APP, app="office", since=EPOCH, at=EPOCH)
    async with open_store("memory://") as store:
        await store.commit(Put(keys.job("bill"), codec.encode(job)))  # all of its nodes were stopped
        await check_belonging(store, A, FleetClaim(app="shop"), SYSTEM)
        await check_belonging(store, B, FleetClaim(app="office"), SYSTEM)


async def test_a_name_that_a_reload_gives_the_app_is_put_on_record() -> None:
    names = ["shop"]
    async with open_store("memory://") as store:
        await check_belonging(store, A, FleetClaim(app="shop"), SYSTEM)
        keeping = asyncio.create_task(keep_app_known(store, A, lambda: names[-1], SYSTEM, pace=0.001))
        await asyncio.sleep(0)
        names.append("store")

        async def apps() -> bool:
            found = await record(store)
            return found is not None and found.apps == ("shop", "store")

        await eventually(apps)
        keeping.cancel()
        await asyncio.wait([keeping])
