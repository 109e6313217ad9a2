"""Leading, on the memory store in virtual time."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from rota.fleet.leading.term import Term
from rota.fleet.members.roster import keep_roster
from rota.kit.time.virtual import CallbackGroup
from rota.model import codec, keys
from rota.model.errors import TermOver, Unavailable
from rota.model.ids import NodeId, SessionId
from rota.model.node import Incarnation, Leader, Roster
from rota.sim.world import EPOCH
from rota.store import Delete, Put, Store, incarnation
from tests.kit.elections import forever, leader, play
from tests.kit.identities import TTL
from tests.kit.virtual_trials import CLOCK

SOMEBODY = Leader(node=NodeId("z"), session=SessionId("z"), since=EPOCH)


def test_one_of_two_leads_and_the_other_takes_over_at_once_when_it_leaves() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        tasks = {"a": node("a"), "b": node("b")}
        await asyncio.sleep(1)
        first = await leader(store)
        assert first is not None
        tasks[first].cancel()
        await asyncio.sleep(0.5)
        assert await leader(store) not in (None, first)

    play(story)


def test_a_crashed_leader_is_replaced_when_its_lease_ends() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        groups = {name: CallbackGroup(name) for name in "ab"}
        for name, group in groups.items():
            node(name, forever, group)
        await asyncio.sleep(1)
        first = await leader(store)
        assert first is not None
        groups[first].freeze()
        await asyncio.sleep(TTL.total_seconds() + 1)
        assert await leader(store) not in (None, first)
        groups[first].thaw()

    play(story)


def test_writes_of_a_term_that_is_over_are_refused() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        terms: list[Term] = []

        async def lead(term: Term) -> None:
            terms.append(term)
            await forever(term)

        first = node("a", lead)
        await asyncio.sleep(1)
        await terms[0].commit(Put("/x", b"1"))
        first.cancel()
        node("b", lead)
        await asyncio.sleep(2)
        with pytest.raises(TermOver):
            await terms[0].insist(Put("/x", b"2"))
        await asyncio.sleep(TTL.total_seconds())
        with pytest.raises(TermOver, match="nothing was sent"):
            await terms[0].commit(Put("/x", b"3"))
        await terms[1].commit(Put("/x", b"4"))
        entry = await store.get("/x")
        assert entry is not None
        assert entry.value == b"4"

    play(story)


def test_a_term_that_gives_up_is_begun_again_after_a_while() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        tries: list[float] = []

        async def lead(term: Term) -> None:
            tries.append(asyncio.get_running_loop().time())
            raise Unavailable("the store is away")

        node("a", lead)
        await asyncio.sleep(20)
        assert 5 < len(tries) < 30

    play(story)


def test_a_bug_in_a_term_is_not_hidden() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        async def lead(term: Term) -> None:
            raise ZeroDivisionError

        with pytest.raises(BaseExceptionGroup) as caught:
            await node("a", lead)
        assert caught.value.subgroup(ZeroDivisionError) is not None
        assert await leader(store) is None

    play(story)


def test_a_leader_of_a_restored_store_joins_again_in_the_new_incarnation() -> None:
    """Restored under its feet: the leader key is as it was, but the incarnation is another."""

    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        terms: list[Term] = []

        async def lead(term: Term) -> None:
            terms.append(term)
            while True:
                await term.commit(Put("/x", b""))
                await asyncio.sleep(1)

        node("a", lead)
        await asyncio.sleep(2)
        await restore(store)
        with pytest.raises(TermOver):
            await terms[0].insist(Put("/x", b"late"))
        await asyncio.sleep(2)
        assert len(terms) == 2
        assert terms[1].number > terms[0].number
        assert terms[1].incarnation == await incarnation.current(store, CLOCK)
        await terms[1].commit(Put("/x", b""))

    play(story)


def test_a_candidate_is_not_elected_into_another_incarnation() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        terms: list[Term] = []

        async def lead(term: Term) -> None:
            terms.append(term)
            await forever(term)

        lease = await store.grant(TTL)
        await store.commit(Put(keys.LEADER, codec.encode(SOMEBODY), lease.id))
        node("a", lead)
        await asyncio.sleep(1)
        await restore(store)
        await store.revoke(lease.id)
        await asyncio.sleep(2)
        assert [term.incarnation for term in terms] == [await incarnation.current(store, CLOCK)]

    play(story)


async def restore(store: Store) -> None:
    """What a load does to the incarnation."""
    before = await store.get(keys.INCARNATION)
    assert before is not None
    old = codec.decode(Incarnation, before.value)
    await store.commit(Delete(keys.INCARNATION), Delete(keys.incarnation(old.id)))
    await incarnation.current(store, CLOCK)


def test_the_roster_is_written_down() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        node("a", keep_roster)
        await asyncio.sleep(1)
        other = node("b", keep_roster)
        await asyncio.sleep(1)
        assert await roster(store) == ("a", "b")
        other.cancel()
        with suppress(asyncio.CancelledError):
            await other
        await asyncio.sleep(1)
        assert await roster(store) == ("a",)

    async def roster(store: Store) -> tuple[str, ...]:
        entry = await store.get(keys.ROSTER)
        assert entry is not None
        return tuple(codec.decode(Roster, entry.value).nodes)

    play(story)


def test_a_node_record_of_a_newer_release_does_not_stop_the_leader() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        running = node("a", keep_roster)
        await asyncio.sleep(1)
        await store.commit(Put("/nodes/newer", b'{"v":99,"id":"newer"}'), Put(keys.ROSTER, b"no roster"))
        node("b", keep_roster)
        await asyncio.sleep(5)
        assert not running.done()
        assert await leader(store) == "a"

    play(story)


def test_a_leader_of_a_newer_release_is_followed() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        await store.commit(Put(keys.LEADER, b'{"v":99}'))
        running = node("a")
        await asyncio.sleep(30)
        assert not running.done()
        await store.commit(Delete(keys.LEADER))
        await asyncio.sleep(5)
        assert await leader(store) == "a"

    play(story)


def test_nothing_of_a_term_outlives_it_however_often_one_hurries() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        ended: list[float] = []

        async def slow(term: Term) -> None:
            try:
                await forever(term)
            finally:
                await asyncio.sleep(2)
                ended.append(asyncio.get_running_loop().time())

        running = node("a", slow)
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.sleep(0.5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert ended == [pytest.approx(asyncio.get_running_loop().time(), abs=0.1)]

    play(story)


def test_what_fails_while_a_term_is_stopped_is_not_hidden() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        async def clumsy(term: Term) -> None:
            try:
                await forever(term)
            finally:
                raise ZeroDivisionError

        running = node("a", clumsy)
        await asyncio.sleep(1)
        await store.commit(Delete(keys.LEADER))
        with pytest.raises(BaseExceptionGroup) as caught:
            await running
        assert caught.value.subgroup(ZeroDivisionError) is not None

    play(story)
