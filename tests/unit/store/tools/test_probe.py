"""The probes of `rota store check`: a good store passes, a bad one is found out, and nothing is left behind."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from datetime import datetime, timedelta

import pytest

from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.errors import Unavailable
from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.model.node import Incarnation
from rota.store import Commit, Lease, Put, ScanResult, Store, open_store
from rota.store.port import Entry, Expect, Write
from rota.store.tools.probe import PROBES, Finding, check
from tests.kit.virtual_trials import CLOCK


class Flawed:
    """A store that passes everything on."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


class Dreaming(Flawed):
    async def get(self, key: Key) -> Entry | None:
        return Entry(key, b"", Revision(1), Revision(1))


class Standing(Flawed):
    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        return min(Revision(3), await self.store.commit(*writes, expect=expect))


class Careless(Flawed):
    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        return await self.store.commit(*writes)


class Restless(Flawed):
    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        return await self.store.scan(prefix, after=after, limit=limit)


class Skipping(Flawed):
    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        watch = self.store.watch(prefix, after)
        await anext(watch)
        async for commit in watch:
            yield commit


class Silent(Flawed):
    async def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        await asyncio.Event().wait()
        yield Commit(after, ())


class Hasty(Flawed):
    async def grant(self, ttl: timedelta) -> Lease:
        lease = await self.store.grant(ttl / 2)
        return Lease(lease.id, ttl, Instant(lease.deadline + ttl.total_seconds() / 2))


class Eternal(Flawed):
    async def grant(self, ttl: timedelta) -> Lease:
        return await self.store.grant(timedelta(hours=1) + ttl)

    async def renew(self, lease: Lease) -> Instant:
        return Instant(await self.store.renew(lease) - 3600)


class Reviving(Flawed):
    async def renew(self, lease: Lease) -> Instant:
        return CLOCK.monotonic()

    async def revoke(self, lease: LeaseId) -> None:
        await self.store.revoke(lease)


class Wrong(Flawed):
    async def now(self) -> datetime:
        return await self.store.now() - timedelta(hours=1)


class Away(Flawed):
    async def scan(self, *_: object, **__: object) -> ScanResult:
        raise Unavailable("store x: no answer")


async def left_behind(store: Store) -> list[Key]:
    return [entry.key for entry in (await store.scan(keys.CHECK)).entries]


def findings(flaw: type[Flawed] = Flawed) -> list[Finding]:
    """What a check of a store with a flaw tells."""

    async def main() -> list[Finding]:
        found: list[Finding] = []
        async with open_store("memory://", clock=CLOCK) as store:
            await check(flaw(store), CLOCK, found.append)  # type: ignore[arg-type]
            assert await left_behind(store) == []
        return found

    return virtual.run(main())


def test_a_good_store_passes_every_probe() -> None:
    found = findings()
    assert [finding.probe for finding in found] == list(PROBES)
    assert [finding for finding in found if finding.code] == []
    assert {finding.probe: finding.said for finding in found}["lease"] == "a ttl of 2 s ended 0.00 s later"


@pytest.mark.parametrize(
    ("flaw", "probe", "words"),
    [
        (Dreaming, "read", "a key that was never written exists"),
        (Standing, "commit", "revisions do not grow"),
        (Careless, "conflict", "a commit with a stale expectation was not refused: Absent"),
        (Restless, "scan", "pages show /check/"),
        (Skipping, "watch", "instead of"),
        (Silent, "watch", "a watch did not yield a commit within 5 s"),
        (Hasty, "lease", "ended 1.00 s too early"),
        (Eternal, "lease", "a lease did not end within 7 s"),
        (Reviving, "lease", "a lease that has ended was renewed"),
        (Wrong, "clock", "3600.00 s behind this machine; set the clocks"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_flaw_is_found(flaw: type[Flawed], probe: str, words: str) -> None:
    found = {finding.probe: finding for finding in findings(flaw)}
    assert list(found) == list(PROBES)
    assert words in found[probe].said
    assert found[probe].code == 1


def test_a_store_that_goes_away_ends_the_check() -> None:
    found = findings(Away)
    assert [finding.probe for finding in found] == ["read", "commit", "conflict", "scan"]
    assert (found[-1].said, found[-1].code, found[-1].is_last) == ("store x: no answer", 7, True)


async def test_a_half_loaded_store_is_not_well() -> None:
    async with open_store("memory://") as store:
        loading = Incarnation(id="x", since=CLOCK.wall(), is_loading=True)
        await store.commit(Put(keys.INCARNATION, codec.encode(loading)))
        found: list[Finding] = []
        await check(store, CLOCK, found.append)
    assert (found[-1].probe, found[-1].code) == ("incarnation", 1)
    assert "half loaded" in found[-1].said


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 1.9])
def test_an_interrupted_check_leaves_nothing_behind(seconds: float) -> None:
    async def main() -> list[Key]:
        async with open_store("memory://", clock=CLOCK) as store:
            checking = asyncio.create_task(check(store, CLOCK, lambda finding: None))
            await asyncio.sleep(seconds)
            checking.cancel()
            await asyncio.wait([checking])
            await asyncio.sleep(2)  # the lease that the check tries
            return await left_behind(store)

    assert virtual.run(main()) == []
