"""Tickets: spent once, in time by the store's clock, and by nobody without the secret."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.kit.clock import SYSTEM
from rota.kit.sealing import seal, unseal
from rota.model import keys
from rota.model.errors import Conflict, Denied, Invalid, NotFound
from rota.model.ids import NodeId
from rota.model.ticket import Admission
from rota.store import Store, open_store, tickets
from rota.store.audit import AuditedStore
from rota.store.port import Put
from rota.store.tickets import Ticket

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
