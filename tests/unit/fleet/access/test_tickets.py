"""Tickets: spent once, in time by the store's clock, and by nobody without the secret."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import pytest

from rota.fleet.access import tickets
from rota.fleet.access.tickets import Ticket
from rota.fleet.audit.trail import AuditedStore
from rota.fleet.core.access.ticket import Admission
from rota.kit.crypto.sealing import seal, unseal
from rota.kit.record import replace
from rota.kit.time.clock import SYSTEM
from rota.model import keys
from rota.model.errors import Conflict, Denied, Invalid, NotFound, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, Revision
from rota.store import Store, open_store
from rota.store.around import StoreAround
from rota.store.port import Expect, Put, Write

ADMISSION = Admission(token="rota_the-token-of-the-fleet", files={"key.pem": "the key"})
QUARTER = timedelta(minutes=15)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


def audited(store: Store) -> Store:
    return AuditedStore(store, SYSTEM, by="ada", origin="test", what="rota ticket")


async def ticket_in(store: Store, expires_in: timedelta = QUARTER) -> Ticket:
    made = tickets.fresh(store="etcd://10.0.0.5", node=NodeId("b"))
    await tickets.create(audited(store), store, made, ADMISSION, by="ada", expires_in=expires_in)
    return made


async def spend(store: Store, ticket: Ticket, by: str = "bob") -> Admission:
    return await tickets.spend(audited(store), store, ticket, by=by)


async def test_a_ticket_is_spent_once(store: Store) -> None:
    ticket = await ticket_in(store)
    assert await spend(store, tickets.read(ticket.line())) == ADMISSION
    with pytest.raises(Denied, match="used by bob"):
        await spend(store, ticket, by="mallory")
    assert await store.get(keys.sealed(ticket.id)) is None


async def test_of_many_who_come_at_once_one_gets_in(store: Store) -> None:
    ticket = await ticket_in(store)
    came = await asyncio.gather(*(spend(store, ticket, f"caller {n}") for n in range(10)), return_exceptions=True)
    assert len([each for each in came if each == ADMISSION]) == 1
    assert len([each for each in came if isinstance(each, Denied)]) == 9


async def test_its_time_is_that_of_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = await ticket_in(store)
    later = await store.now() + QUARTER

    async def now() -> object:
        return later

    monkeypatch.setattr(store, "now", now)
    with pytest.raises(Denied, match="was good until"):
        await spend(store, ticket)


async def test_one_that_was_revoked_opens_nothing(store: Store) -> None:
    ticket = await ticket_in(store)
    await tickets.revoke(audited(store), store, ticket.id)
    with pytest.raises(Denied, match="was revoked"):
        await spend(store, ticket)
    assert await store.get(keys.sealed(ticket.id)) is None
    with pytest.raises(NotFound, match="rota ticket ls"):
        await tickets.revoke(audited(store), store, "nosuch")
    used = await ticket_in(store)
    await spend(store, used)
    with pytest.raises(Conflict, match="was used by bob"):
        await tickets.revoke(audited(store), store, used.id)


async def test_a_wrong_secret_spends_nothing(store: Store) -> None:
    ticket = await ticket_in(store)
    wrong = replace(ticket, secret=tickets.fresh(store="", node=NodeId("b")).secret)
    with pytest.raises(Denied, match="secret is not the right one"):
        await spend(store, wrong)
    assert await spend(store, ticket) == ADMISSION


async def test_what_was_changed_in_the_store_is_not_taken(store: Store) -> None:
    ticket = await ticket_in(store)
    entry = await store.get(keys.sealed(ticket.id))
    assert entry is not None
    await store.commit(Put(entry.key, entry.value[:-1] + bytes([entry.value[-1] ^ 1])))
    with pytest.raises(Denied):
        await spend(store, ticket)


async def test_neither_the_store_nor_its_audit_trail_sees_the_token_or_the_secret(store: Store) -> None:
    ticket = await ticket_in(store)
    sealed = await store.get(keys.sealed(ticket.id))
    assert sealed is not None
    before = (await store.scan("/")).entries
    await spend(store, ticket)
    after = (await store.scan("/")).entries
    everything = b"".join(entry.value for entry in (*before, *after))
    assert b"the-token" not in everything
    assert ticket.secret.encode() not in everything
    trail = [entry for entry in after if entry.key.startswith("/audit")]
    assert len(trail) == 2
    assert all(sealed.value.hex().encode() not in entry.value for entry in trail)
    assert all(keys.SEALED.encode() not in entry.value for entry in trail)


class Failing(StoreAround):
    """A store that says something else of its next commit, which it carries out or does not."""

    def __init__(self, store: Store, error: RotaError, *, takes: bool) -> None:
        super().__init__(store)
        self._error, self._takes = error, takes

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        if self._takes:
            await self._store.commit(*writes, expect=expect)
        raise self._error


async def test_what_it_opens_is_handed_out_although_it_cannot_be_cleared_away(store: Store) -> None:
    ticket = await ticket_in(store)
    raw = Failing(store, Unavailable("gone"), takes=False)
    assert await tickets.spend(audited(store), raw, ticket, by="bob") == ADMISSION
    with pytest.raises(Denied, match="used by bob"):
        await spend(store, ticket)
    await ticket_in(store)
    assert await store.get(keys.sealed(ticket.id)) is None


@pytest.mark.parametrize("takes", [True, False])
async def test_whether_it_was_spent_is_looked_up_if_the_store_does_not_say(store: Store, takes: bool) -> None:
    ticket = await ticket_in(store)
    silent = audited(Failing(store, Unknown("no answer"), takes=takes))
    if takes:
        assert await tickets.spend(silent, store, ticket, by="bob") == ADMISSION
        with pytest.raises(Denied, match="used by bob"):
            await spend(store, ticket)
    else:
        with pytest.raises(Unknown):
            await tickets.spend(silent, store, ticket, by="bob")
        assert await spend(store, ticket) == ADMISSION


async def test_a_look_at_what_it_opens_spends_nothing(store: Store) -> None:
    ticket = await ticket_in(store)
    assert await tickets.opened(store, ticket) == ADMISSION
    assert await spend(store, ticket) == ADMISSION
    with pytest.raises(Denied, match="used by bob"):
        await tickets.opened(store, ticket)


@pytest.mark.parametrize("node", ["../../.ssh", "/etc/cron.d", ".", ""])
def test_a_node_that_would_be_a_path_is_refused(node: str) -> None:
    with pytest.raises(Invalid, match="no whole ticket"):
        tickets.read(tickets.fresh(store="etcd://10.0.0.5", node=NodeId(node)).line())


@pytest.mark.parametrize("line", ["", "rota-ticket-", "rota-ticket-!!!", "eyJ", "rota-ticket-e30"])
def test_what_is_no_ticket_is_refused(line: str) -> None:
    with pytest.raises(Invalid, match="no whole ticket"):
        tickets.read(line)


async def test_a_ticket_has_a_short_life(store: Store) -> None:
    with pytest.raises(Invalid, match="7 days"):
        await ticket_in(store, timedelta(days=8))


def test_sealing_hides_and_shows_what_was_changed() -> None:
    sealed = seal(b"s" * 32, b"hello")
    assert b"hello" not in sealed
    assert unseal(b"s" * 32, sealed) == b"hello"
    for wrong, text in ((b"t" * 32, sealed), (b"s" * 32, sealed[:-1]), (b"s" * 32, b"")):
        with pytest.raises(ValueError, match="another secret"):
            unseal(wrong, text)
