"""Sessions on the memory store, in virtual time."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from rota.fleet.members.session import Identity, NodeSession, in_session, join
from rota.kit.record import replace
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, LeaseLost
from rota.model.ids import NodeId, SessionId
from rota.model.node import Incarnation, Node, Role
from rota.store import Absent, At, Delete, Put, Store, incarnation, open_store
from rota.store.tools import backup
from tests.kit.identities import identity
from tests.kit.virtual_trials import CLOCK


async def present(store: Store, name: str = "a") -> Node | None:
    entry = await store.get(keys.node(NodeId(name)))
    return codec.decode(Node, entry.value) if entry else None


def test_a_node_is_there_while_its_body_runs_and_gone_after() -> None:
    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:

            async def body(session: NodeSession) -> None:
                await asyncio.sleep(60)
                assert await present(store) == session.node

            await in_session(store, identity(), CLOCK, body)
            assert await present(store) is None
            assert asyncio.get_running_loop().time() == pytest.approx(60)

    virtual.run(main())


def test_a_lost_lease_ends_the_body_and_begins_a_new_session() -> None:
    async def main() -> list[NodeSession]:
        lives: list[NodeSession] = []
        async with open_store("memory://s", clock=CLOCK) as store:

            async def body(session: NodeSession) -> None:
                lives.append(session)
                if len(lives) == 1:
                    await asyncio.sleep(1)
                    await store.revoke(session.keeper.lease)
                    await asyncio.sleep(1000)

            await in_session(store, identity(), CLOCK, body)
        return lives

    first, second = virtual.run(main())
    assert first.node.session != second.node.session
    assert first.node.id == second.node.id


def test_a_member_of_the_body_that_finds_the_lease_lost_begins_a_new_session_too() -> None:
    async def main() -> int:
        lives: list[NodeSession] = []
        async with open_store("memory://s", clock=CLOCK) as store:

            async def lose(session: NodeSession) -> None:
                await asyncio.sleep(1)
                raise LeaseLost(session.keeper.lease)

            async def body(session: NodeSession) -> None:
                lives.append(session)
                async with asyncio.TaskGroup() as members:  # which only waits for them, as a node's does
                    if len(lives) < 3:
                        members.create_task(lose(session))

            await in_session(store, identity(), CLOCK, body)
        return len(lives)

    assert virtual.run(main()) == 3


def test_a_restart_on_the_same_folder_does_not_wait_for_its_old_lease() -> None:
    async def main() -> float:
        async with open_store("memory://s", clock=CLOCK) as store:
            await join(store, identity(), CLOCK)
            await join(store, identity(), CLOCK)
            return asyncio.get_running_loop().time()

    assert virtual.run(main()) < 1


def test_another_folder_waits_until_the_name_is_free() -> None:
    async def main() -> float:
        async with open_store("memory://s", clock=CLOCK) as store:
            await join(store, identity(), CLOCK)  # and then dies: nobody renews
            await join(store, identity(home="h2"), CLOCK)
            return asyncio.get_running_loop().time()

    assert 10 <= virtual.run(main()) < 13


def test_a_name_in_use_is_refused_in_the_end() -> None:
    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            holder = await join(store, identity(), CLOCK)
            keeping = asyncio.create_task(holder.keeper.keep())
            try:
                await join(store, identity(home="h2"), CLOCK)
            finally:
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping

    with pytest.raises(Conflict, match='node id "a" is in use by pid'):
        virtual.run(main())


def test_the_first_to_join_begins_the_incarnation_and_the_others_find_it() -> None:
    async def main() -> list[At]:
        async with open_store("memory://s", clock=CLOCK) as store:
            names = [identity(name, home=name) for name in "abc"]
            found = [session.incarnation for session in await asyncio.gather(*(join(store, n, CLOCK) for n in names))]
            entry = await store.get(found[0].key)
            assert entry is not None
            assert entry.modified == found[0].revision
            assert len((await store.scan(keys.INCARNATIONS)).entries) == 1
            return found

    first, *others = virtual.run(main())
    assert others == [first, first]


def test_nobody_joins_a_store_that_is_half_loaded() -> None:
    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            loading = Incarnation(id="x", since=CLOCK.wall(), is_loading=True)
            await store.commit(Put(keys.INCARNATION, codec.encode(loading)), expect=[Absent(keys.INCARNATION)])
            with pytest.raises(Invalid, match="the store is half loaded"):
                await join(store, identity(), CLOCK)
            assert await present(store) is None

    virtual.run(main())


def test_nobody_joins_an_incarnation_that_ended_while_it_did() -> None:
    """Between looking and joining a load begins: the commit is refused, and the next look says why."""

    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            await incarnation.current(store, CLOCK)
            grant = store.grant

            async def grant_while_a_load_begins(ttl: timedelta) -> object:
                before = await store.get(keys.INCARNATION)
                assert before is not None
                new = replace(codec.decode(Incarnation, before.value), id="new")
                await backup._declare(store, new, before)
                return await grant(ttl)

            store.grant = grant_while_a_load_begins  # type: ignore[assignment,method-assign]
            with pytest.raises(Invalid, match="the store is half loaded"):
                await join(store, identity(), CLOCK)
            assert await present(store) is None

    virtual.run(main())


def test_a_node_whose_key_was_deleted_begins_a_new_session() -> None:
    async def main() -> list[NodeSession]:
        lives: list[NodeSession] = []
        async with open_store("memory://s", clock=CLOCK) as store:

            async def body(session: NodeSession) -> None:
                lives.append(session)
                if len(lives) == 1:
                    await store.commit(Delete(keys.node(session.node.id)))
                    await asyncio.sleep(1000)

            await in_session(store, identity(), CLOCK, body)
        return lives

    first, second = virtual.run(main())
    assert first.node.session != second.node.session


def test_a_holder_that_waits_longer_than_we_do_is_waited_for() -> None:
    async def main() -> float:
        async with open_store("memory://s", clock=CLOCK) as store:
            slow = Identity(node=NodeId("a"), home="h1", role=Role.BOTH, lease_ttl=timedelta(seconds=60))
            await join(store, slow, CLOCK)  # and then dies
            quick = Identity(node=NodeId("a"), home="h2", role=Role.BOTH, lease_ttl=timedelta(seconds=2))
            await join(store, quick, CLOCK)
            return asyncio.get_running_loop().time()

    assert 60 <= virtual.run(main()) < 65


def here(name: str = "a", network: str = "this") -> Identity:
    """A node that only its own machine can call."""
    return replace(identity(name, home=name), network=network, grpc="127.0.0.1:7701")


def test_records_of_nodes_that_died_with_the_machine_only_make_a_node_wait() -> None:
    async def main() -> float:
        async with open_store("memory://s", clock=CLOCK) as store:
            await join(store, here("b", network="before the restart"), CLOCK)  # and then dies
            await join(store, here("a"), CLOCK)
            return asyncio.get_running_loop().time()

    assert 10 <= virtual.run(main()) < 13


def test_a_node_that_a_living_one_cannot_call_is_refused() -> None:
    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            there = await join(store, here("b", network="another"), CLOCK)
            keeping = asyncio.create_task(there.keeper.keep())
            try:
                await join(store, here("a"), CLOCK)
            finally:
                assert await present(store, "a") is None
                keeping.cancel()
                with suppress(asyncio.CancelledError):
                    await keeping

    with pytest.raises(Invalid, match=r"node b on .* cannot reach it there"):
        virtual.run(main())


def test_a_node_that_was_in_the_fleet_is_not_ended_because_of_one_that_came_later() -> None:
    async def main() -> list[SessionId]:
        lives: list[SessionId] = []
        async with open_store("memory://s", clock=CLOCK) as store:

            async def body(session: NodeSession) -> None:
                lives.append(session.node.session)
                if len(lives) == 1:
                    other = replace(here("b", network="another"), grpc="10.0.0.12:7701")
                    later.append(asyncio.create_task((await join(store, other, CLOCK)).keeper.keep()))
                    await store.revoke(session.keeper.lease)
                    await asyncio.sleep(1000)

            later: list[asyncio.Task[None]] = []
            await in_session(store, here("a"), CLOCK, body)
            for keeping in later:
                keeping.cancel()
        return lives

    first, second = virtual.run(main())
    assert first != second
