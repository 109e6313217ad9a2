"""Changes that say who made them, and notes of refusals."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from rota.fleet.audit.trail import MOST_NOTES, SHOWN, AuditedStore, AuditNotes, unsealed
from rota.fleet.core.audit.record import Changed
from rota.model import keys
from rota.model.errors import Conflict, Unavailable
from rota.model.ids import Key
from rota.store import At, Delete, Put, Store, open_store
from rota.store.port import Entry, Write
from rota.store.rules import MAX_VALUE_BYTES, MAX_WRITES
from tests.kit.hand_clock import HandClock

CLOCK = HandClock()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


def audited(store: Store) -> AuditedStore:
    return AuditedStore(store, CLOCK, by="ada", origin="http 10.0.0.7", what="cordon_node")


async def test_a_change_and_its_entry_are_one_commit(store: Store) -> None:
    revision = await audited(store).commit(Put("/k", b"1"))
    (entry,) = await unsealed(store)
    assert (entry.by, entry.origin, entry.what, entry.refused) == ("ada", "http 10.0.0.7", "cordon_node", "")
    assert entry.changes == [Changed(key="/k", before=None, after="1")]
    written = await store.get(keys.audit_open(entry.id))
    assert written is not None
    assert written.modified == revision


async def test_an_entry_has_what_was_there_before_and_after(store: Store) -> None:
    await store.commit(Put("/a", b"1"), Put("/b", b"2"))
    await audited(store).commit(Put("/a", b"3"), Delete("/b"), Delete("/c"))
    (entry,) = await unsealed(store)
    assert entry.changes == [
        Changed(key="/a", before="1", after="3"),
        Changed(key="/b", before="2", after=None),
        Changed(key="/c", before=None, after=None),
    ]


async def test_what_is_refused_by_the_store_leaves_no_entry(store: Store) -> None:
    revision = await store.commit(Put("/a", b"1"))
    await store.commit(Put("/a", b"2"))
    with pytest.raises(Conflict):
        await audited(store).commit(Put("/a", b"3"), expect=[At("/a", revision)])
    assert await unsealed(store) == []


class Busy:
    """A store in which somebody else changes a key just after it was read, a few times."""

    def __init__(self, store: Store, times: int) -> None:
        self._store, self._times = store, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: Key) -> Entry | None:
        found = await self._store.get(key)
        if self._times > 0:
            self._times -= 1
            await self._store.commit(Put(key, str(self._times).encode()))
        return found


async def test_before_is_true_although_others_write_at_the_same_time(store: Store) -> None:
    await audited(Busy(store, 3)).commit(Put("/a", b"mine"))  # type: ignore[arg-type]  # it is one by delegation
    (entry,) = await unsealed(store)
    assert entry.changes == [Changed(key="/a", before="0", after="mine")]
    with pytest.raises(Conflict, match="all the time"):
        await audited(Busy(store, 1000)).commit(Put("/a", b"mine"))  # type: ignore[arg-type]


async def test_a_commit_without_room_for_its_entry_comes_after_it(store: Store) -> None:
    await audited(store).commit(*(Put(f"/k/{number}", b"1") for number in range(MAX_WRITES)))
    await audited(store).commit(Put("/large", b"x" * MAX_VALUE_BYTES))
    many, large = await unsealed(store)
    assert sorted([len(many.changes), len(large.changes)]) == [1, MAX_WRITES]
    assert await store.get("/large") is not None
    assert await store.get("/k/99") is not None


async def test_long_values_are_cut_and_passwords_left_out(store: Store) -> None:
    sink, hook = b'{"sink": "amqp://rota:pass:word@box/v"}', b'{"url":"https://chat.example/T0/secret?x=1","n":1}'
    await audited(store).commit(Put("/a", b"x" * 5000), Put("/b", sink), Put("/c", hook))
    (entry,) = await unsealed(store)
    long, secret, called = (changed.after for changed in entry.changes)
    assert long == f"{'x' * SHOWN}… (5000 bytes)"
    assert secret == '{"sink": "amqp://rota:…@box/v"}'
    assert called == '{"url":"https://chat.example/…","n":1}'


# Notes


def note(notes: AuditNotes, what: str = "GET /v1/nodes") -> None:
    notes.note(by="", origin="http 10.0.0.7", what=what, refused="this needs a token")


async def test_the_same_refusals_are_counted_in_one_line(store: Store) -> None:
    notes = AuditNotes(CLOCK)
    for _ in range(5):
        note(notes)
    note(notes, "GET /metrics")
    await notes.flush(store)
    written = {entry.what: entry.count for entry in await unsealed(store)}
    assert written == {"GET /v1/nodes": 5, "GET /metrics": 1}
    await notes.flush(store)
    assert len(await unsealed(store)) == 2


async def test_a_flood_of_refusals_is_a_bounded_number_of_lines(store: Store) -> None:
    notes = AuditNotes(CLOCK)
    for number in range(MOST_NOTES + 500):
        note(notes, f"GET /{number}")
    await notes.flush(store)
    entries = await unsealed(store)
    assert len(entries) == MOST_NOTES + 1
    assert {entry.count for entry in entries if entry.what == "several"} == {500}


class Away:
    """A store that is not reached for a while, and hears a refusal while it is asked."""

    def __init__(self, store: Store, notes: AuditNotes) -> None:
        self._store, self._notes, self.is_away = store, notes, True

    async def commit(self, *writes: Put) -> None:
        note(self._notes)
        if self.is_away:
            raise Unavailable("the store is away")
        await self._store.commit(*writes)


async def test_what_the_store_does_not_take_is_kept_and_what_comes_meanwhile_too(store: Store) -> None:
    notes = AuditNotes(CLOCK)
    away = Away(store, notes)
    note(notes)
    await notes.flush(away)  # type: ignore[arg-type]  # it only commits
    assert await unsealed(store) == []
    away.is_away = False
    await notes.flush(away)  # type: ignore[arg-type]
    assert [entry.count for entry in await unsealed(store)] == [2]
    await notes.flush(store)
    assert sorted(entry.count for entry in await unsealed(store)) == [1, 2]


class Stuck:
    """A store whose commits never end."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()

    async def commit(self, *writes: Write) -> None:
        self.is_asked.set()
        await asyncio.Event().wait()


async def test_notes_are_kept_when_their_writing_is_cancelled(store: Store) -> None:
    """A session that ends must not take along what was refused in it; the next one writes it."""
    notes, stuck = AuditNotes(CLOCK), Stuck()
    note(notes)
    writing = asyncio.create_task(notes.flush(cast(Store, stuck)))
    await stuck.is_asked.wait()
    writing.cancel()
    await asyncio.wait([writing])
    assert writing.cancelled()
    await notes.flush(store)
    assert len(await unsealed(store)) == 1
