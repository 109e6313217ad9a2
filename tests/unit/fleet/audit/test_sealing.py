"""Sealing the audit trail: all that is written gets its place, and old links go without breaking the rest."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from rota.fleet.audit.sealing import keep_audit
from rota.fleet.audit.trail import AuditedStore, unsealed
from rota.fleet.core.audit.record import AuditLink
from rota.fleet.doors.audit import read_audit, verify_audit
from rota.fleet.leading.term import Term
from rota.model import codec, keys
from rota.model.errors import Invalid
from rota.model.ids import Key
from rota.store import Delete, Put, Store
from tests.kit.elections import play
from tests.kit.virtual_trials import CLOCK, LoopClock

DAY = timedelta(days=1)


def sealing(keep: timedelta = 365 * DAY) -> Callable[[Term], Awaitable[None]]:
    """What a leader does that only looks after the trail."""
    return lambda term: keep_audit(term, keep)


async def change(store: Store, first: int, count: int) -> None:
    for number in range(first, first + count):
        await AuditedStore(store, CLOCK, by="ada", origin="command box", what="try").commit(Put(f"/k/{number}", b"1"))


def test_what_was_written_before_and_during_a_term_gets_its_place() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        await change(store, 0, 100)
        node("a", sealing())
        await asyncio.sleep(30)
        await change(store, 100, 5)
        await asyncio.sleep(30)
        verdict = await verify_audit(store)
        assert (verdict.is_whole, verdict.links, verdict.waiting) == (True, 105, 0)
        lines = (await read_audit(store, limit=1000)).entries
        assert [line.number for line in lines] == list(range(1, 106))
        assert {line.entry.changes[0].key for line in lines} == {f"/k/{number}" for number in range(105)}

    play(story)


def test_the_trail_is_read_back_to_its_beginning_page_by_page_while_it_is_sealed() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        leading = node("a", sealing())
        await asyncio.sleep(30)
        await change(store, 0, 25)
        await asyncio.sleep(30)
        leading.cancel()
        await change(store, 25, 12)
        for by in ("", "ada"):
            seen: list[str] = []
            token: str | None = None
            for number in range(20):
                page = await read_audit(store, limit=5, token=token, by=by)
                seen = [line.entry.changes[0].key for line in page.entries] + seen
                token = page.next
                if token is None:
                    break
                if number == 0 and by:
                    node("b", sealing())  # what had no place when the first page was read gets one
                    await asyncio.sleep(30)
            assert seen == [f"/k/{number}" for number in range(37)], by
        assert (await read_audit(store, limit=37)).next is None
        assert (await read_audit(store, limit=36)).next == "2"
        with pytest.raises(Invalid, match="must be the next of a page"):
            await read_audit(store, token="x")
        with pytest.raises(Invalid, match="begin again"):
            await read_audit(store, token="0:gone")

    play(story)


def test_a_new_leader_goes_on_where_the_old_one_ended() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        first = node("a", sealing())
        await asyncio.sleep(30)
        await change(store, 0, 3)
        await asyncio.sleep(5)
        first.cancel()
        await change(store, 3, 3)
        assert len(await unsealed(store)) == 3
        node("b", sealing())
        await asyncio.sleep(30)
        verdict = await verify_audit(store)
        assert (verdict.is_whole, verdict.links, verdict.waiting) == (True, 6, 0)

    play(story)


def test_old_links_go_and_what_is_left_is_whole() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        node("a", sealing(keep=DAY))
        await asyncio.sleep(30)
        await change(store, 0, 120)
        await asyncio.sleep(DAY.total_seconds() / 2)
        noted = (await verify_audit(store)).head
        await change(store, 120, 5)
        await asyncio.sleep(DAY.total_seconds() * 0.6)
        verdict = await verify_audit(store, noted=noted)
        assert (verdict.is_whole, verdict.links) == (True, 5), verdict
        await asyncio.sleep(DAY.total_seconds())
        assert (await verify_audit(store)).links == 1  # the last one stays, for the next to follow on

    play(story)


def test_who_meddles_with_the_trail_in_the_store_is_found() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        node("a", sealing())
        await asyncio.sleep(30)
        await change(store, 0, 3)
        await asyncio.sleep(5)
        entry = await store.get(keys.audit_link(2))
        assert entry is not None
        link = codec.decode(AuditLink, entry.value)
        meddled = entry.value.replace(b'"ada"', b'"bob"')  # not in a hash
        await store.commit(Put(entry.key, meddled))
        assert (await verify_audit(store)).flaw == "link 2 was changed: its hash does not fit what it says"
        await store.commit(Put(entry.key, codec.encode(link)))
        assert (await verify_audit(store)).is_whole
        await store.commit(Delete(keys.audit_link(3)))
        assert (await verify_audit(store)).flaw == "the chain should end with link 3, and ends with 2"

    play(story)


def test_a_wrong_clock_of_a_node_erases_nothing() -> None:
    """Neither that of the leader, nor that of the one who wrote an entry down."""

    class Skewed(LoopClock):
        def wall(self) -> datetime:
            return super().wall() - 400 * DAY

    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        node("a", sealing())
        await AuditedStore(store, Skewed(), by="ada", origin="command box", what="try").commit(Put("/k/late", b"1"))
        await change(store, 0, 3)
        await asyncio.sleep(2 * DAY.total_seconds())
        assert (await verify_audit(store)).links == 4

    play(story)


def test_what_a_newer_rota_wrote_is_left_to_it_and_the_rest_is_sealed() -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        newer = b'{"v":99}'
        for number in range(50):  # more than one commit takes
            await store.commit(Put(keys.audit_open(f"0-{number}"), newer))
        leading = node("a", sealing())
        await change(store, 0, 3)
        await asyncio.sleep(30)
        assert (await verify_audit(store)).links == 3
        assert (await store.scan(keys.AUDIT_OPEN)).entries[0].value == newer
        assert not leading.done()

    play(story)


@pytest.mark.parametrize("key", [keys.AUDIT_HEAD, keys.audit_link(1)])
def test_a_chain_of_a_newer_rota_is_left_alone(key: Key) -> None:
    async def story(store: Store, node: Callable[..., asyncio.Task[None]]) -> None:
        await change(store, 0, 1)
        first = node("a", sealing())
        await asyncio.sleep(30)
        first.cancel()
        newer = b'{"v":99}'
        await store.commit(Put(key, newer))
        leading = node("b", sealing(keep=DAY))
        await change(store, 1, 3)
        await asyncio.sleep(2 * DAY.total_seconds())
        entry = await store.get(key)
        assert entry is not None
        assert entry.value == newer
        assert not leading.done()

    play(story)
