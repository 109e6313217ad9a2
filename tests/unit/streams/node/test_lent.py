"""A store that is lent: the same laws over a socket, and nothing beyond the keys that were lent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from rota.model.errors import Compacted, Conflict, Denied, Invalid, Unavailable, Unknown
from rota.model.ids import LeaseId
from rota.store import Absent, At, Delete, Lease, Put, Store, open_store
from rota.streams.node.lent import MOST_ASKED, OWN, Lender, LentStore
from tests.kit.waiting import eventually


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


class Loan:
    """A lender and a borrower with nothing between them."""

    def __init__(self, store: Store, lease: LeaseId | None) -> None:
        self.store: Store | None = store
        self.lease = lease
        self.lent = LentStore(self._asked)
        self.lender = Lender(lambda: self.store, lambda: self.lease, ("/mine/",), self.lent.heard)

    def _asked(self, frame: bytes) -> None:
        self.lender.heard(frame)


@pytest.fixture
async def lease(store: Store) -> Lease:
    return await store.grant(timedelta(minutes=1))


@pytest.fixture
async def loan(store: Store, lease: Lease) -> AsyncIterator[Loan]:
    loan = Loan(store, lease.id)
    yield loan
    await loan.lender.close()


async def test_it_reads_and_writes_like_the_store(loan: Loan, store: Store) -> None:
    lent = loan.lent
    first = await lent.commit(Put("/mine/a", b"1"), Put("/mine/b", b"2"), expect=[Absent("/mine/a")])
    assert await lent.get("/mine/a") == await store.get("/mine/a")
    assert await lent.get("/mine/c") is None
    second = await lent.commit(Put("/mine/a", b"3"), Delete("/mine/b"), expect=[At("/mine/a", first)])
    assert await lent.scan("/mine/") == await store.scan("/mine/")
    assert await lent.scan("/mine/", at=first, limit=1) == await store.scan("/mine/", at=first, limit=1)
    assert await lent.revision() == second
    assert abs(await lent.now() - await store.now()) < timedelta(seconds=5)


async def test_a_watch_goes_on_until_it_is_left(loan: Loan, store: Store) -> None:
    start = await store.revision()
    async with aclosing(loan.lent.watch("/mine/", start)) as commits:
        for number in range(3):
            revision = await store.commit(Put(f"/mine/{number}", b""))
            assert (await anext(commits)).revision == revision
    await eventually(lambda: not loan.lender._open)


async def test_errors_arrive_as_they_were(loan: Loan, store: Store) -> None:
    await store.commit(Put("/mine/a", b"1"))
    with pytest.raises(Conflict) as conflict:
        await loan.lent.commit(Put("/mine/a", b"2"), expect=[Absent("/mine/a")])
    assert conflict.value.keys == {"/mine/a"}
    with pytest.raises(Invalid, match="writes"):
        await loan.lent.commit()
    newest = await store.commit(Put("/mine/a", b"3"))
    await store.compact(newest)
    with pytest.raises(Compacted):
        async with aclosing(loan.lent.watch("/mine/", 0)) as commits:
            await anext(commits)


@pytest.mark.parametrize(
    "ask",
    [
        lambda lent: lent.get("/other/a"),
        lambda lent: lent.get("/mine"),
        lambda lent: lent.scan("/"),
        lambda lent: lent.commit(Put("/mine/a", b""), Delete("/other")),
        lambda lent: lent.commit(Put("/mine/a", b""), expect=[Absent("/other")]),
        lambda lent: lent.commit(Put("/mine/a", b"", LeaseId("another's"))),
        lambda lent: anext(lent.watch("/", 0)),
    ],
)
async def test_what_was_not_lent_is_denied(loan: Loan, store: Store, ask: Any) -> None:
    with pytest.raises(Denied):
        await ask(loan.lent)
    assert (await store.scan("/")).entries == ()


async def test_what_is_put_under_its_own_lease_goes_with_the_lender(loan: Loan, store: Store, lease: Lease) -> None:
    await loan.lent.commit(Put("/mine/status", b"well", OWN))
    await store.revoke(lease.id)
    assert await store.get("/mine/status") is None
    loan.lease = None
    with pytest.raises(Unavailable, match="no session"):
        await loan.lent.commit(Put("/mine/status", b"well", OWN))


async def test_a_store_that_is_away_is_unavailable(loan: Loan) -> None:
    loan.store = None
    with pytest.raises(Unavailable, match="no store at the moment"):
        await loan.lent.get("/mine/a")


async def test_when_the_lender_is_gone_nobody_waits(loan: Loan, store: Store) -> None:
    silent = LentStore(lambda frame: None)
    reading = asyncio.create_task(silent.get("/mine/a"))
    watching = asyncio.create_task(anext(silent.watch("/mine/", 0)))
    await asyncio.sleep(0)
    silent.lost()
    for task in (reading, watching):
        with pytest.raises(Unknown, match="the agent is gone"):
            await task
    with pytest.raises(Unavailable):
        await silent.get("/mine/a")


async def test_a_question_that_is_given_up_is_let_go(loan: Loan, store: Store) -> None:
    asking = asyncio.create_task(anext(loan.lent.watch("/mine/", await store.revision())))
    await eventually(lambda: loan.lender._open)
    asking.cancel()
    await eventually(lambda: not loan.lender._open)


async def test_questions_are_bounded(loan: Loan, store: Store) -> None:
    start = await store.revision()
    watches = [loan.lent.watch("/mine/", start) for _ in range(MOST_ASKED)]
    waiting = [asyncio.create_task(anext(each)) for each in watches]
    await eventually(lambda: len(loan.lender._open) == MOST_ASKED)
    with pytest.raises(Unavailable, match="questions are open"):
        await loan.lent.get("/mine/a")
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    await eventually(lambda: not loan.lender._open)
    assert await loan.lent.get("/mine/a") is None


@pytest.mark.parametrize("call", ["grant", "renew", "revoke", "compact"])
async def test_leases_and_compaction_are_not_lent(loan: Loan, call: str) -> None:
    with pytest.raises(Invalid, match="a lent store has no"):
        await getattr(loan.lent, call)(timedelta(seconds=5))


async def test_nonsense_from_a_worker_is_refused(loan: Loan) -> None:
    with pytest.raises(Invalid, match="no question"):
        loan.lender.heard(b"\xc1")
