"""Probes: does a store keep its laws, here and now, and how fast is it?

`check` runs one probe after the other on keys of its own below `/check/` and reports what it found. Those keys are
under a lease, which is revoked in the end; if that fails, they vanish when it expires. A store that goes out of reach
ends the check, since every further probe would only wait.

This is a look at one store in use. The proof that an adapter keeps the laws is `tests/contract`.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from statistics import median
from typing import TypeAlias

import msgspec

from rota.kit.time.clock import Clock
from rota.model import keys
from rota.model.errors import Conflict, Denied, LeaseLost, RotaError, Unavailable, Unknown
from rota.model.ids import Instant, Key, LeaseId, Revision
from rota.store import history, incarnation
from rota.store.port import Absent, At, Commit, Expect, Lease, Put, ScanResult, Store, Write
from rota.store.tools import backup

ROUNDS = 10
"""How often a timed call is made."""

TTL = timedelta(seconds=2)
SOON = 5.0
"""Seconds within which a watch must yield a commit, and an expired lease must end."""

SCRATCH = timedelta(minutes=5)
"""How long scratch keys outlive a check that was killed."""

LEAVE = 3.0
"""Seconds spent on deleting the scratch keys."""

CLOCK_MAY_DIFFER = 10.0
"""Seconds by which the clocks may differ; only ages on a screen depend on it, so only hours are reported."""


class Finding(msgspec.Struct, frozen=True):
    """What one probe showed."""

    probe: str
    said: str
    figures: Mapping[str, float | str | None] = msgspec.field(default_factory=dict)
    code: int = 0
    """0: the probe passed. Otherwise the exit code."""

    is_last: bool = False
    """The store is out of reach; nothing more was tried."""


class Failed(RotaError):
    """A law did not hold."""


class Scratch(msgspec.Struct, frozen=True):
    """A place for probes in a store."""

    store: Store
    clock: Clock
    prefix: Key
    lease: LeaseId

    def put(self, name: str, value: bytes = b"") -> Put:
        """A write to a key of that name."""
        return Put(self.prefix + name, value, self.lease)

    async def refuses(self, write: Write, expect: Expect) -> bool:
        """Is the commit refused for that expectation, and for no other?"""
        try:
            await self.store.commit(write, expect=[expect])
        except Conflict as conflict:
            return conflict.keys == {expect.key}
        return False


Said: TypeAlias = tuple[str, dict[str, float | str | None]]
Probe: TypeAlias = Callable[[Scratch], Awaitable[Said]]


async def check(store: Store, clock: Clock, tell: Callable[[Finding], None]) -> None:
    """Run all probes, and yield each finding."""
    async with _scratch(store, clock) as scratch:
        for name, probe in PROBES.items():
            finding = await _try(name, probe, scratch)
            tell(finding)
            if finding.is_last:
                return


@asynccontextmanager
async def _scratch(store: Store, clock: Clock) -> AsyncIterator[Scratch]:
    async with _lease_of(store, SCRATCH) as lease:
        yield Scratch(store, clock, f"{keys.CHECK}{secrets.token_hex(8)}/", lease.id)


@asynccontextmanager
async def _lease_of(store: Store, ttl: timedelta) -> AsyncIterator[Lease]:
    """A lease that is revoked at the end."""
    lease = await store.grant(ttl)
    try:
        yield lease
    finally:
        with suppress(TimeoutError, Unavailable, Unknown):  # then it expires by itself
            async with asyncio.timeout(LEAVE):
                await store.revoke(lease.id)


async def _try(name: str, probe: Probe, scratch: Scratch) -> Finding:
    try:
        return Finding(name, *await probe(scratch))
    except (Unavailable, Unknown, Denied) as error:
        return Finding(name, str(error), code=error.exit_code, is_last=True)
    except RotaError as error:
        return Finding(name, str(error), code=Failed.exit_code)


async def _read(scratch: Scratch) -> Said:
    async def read() -> None:
        if await scratch.store.get(scratch.prefix + "nothing") is not None:
            raise Failed("a key that was never written exists")

    return _times([await _timed(scratch.clock, read) for _ in range(ROUNDS)])


async def _commit(scratch: Scratch) -> Said:
    revisions: list[Revision] = []

    async def commit() -> None:
        revisions.append(await scratch.store.commit(scratch.put("commit", str(len(revisions)).encode())))

    times = [await _timed(scratch.clock, commit) for _ in range(ROUNDS)]
    if sorted(set(revisions)) != revisions:
        raise Failed(f"revisions do not grow: {revisions}")
    return _times(times)


async def _conflict(scratch: Scratch) -> Said:
    """Laws 1 and 2: a key is written, rewritten, and then expected at the old revision."""
    store, put = scratch.store, scratch.put("conflict", b"1")
    first = await store.commit(put, expect=[Absent(put.key)])
    second = await store.commit(put, expect=[At(put.key, first)])
    late = scratch.put("conflict", b"2")
    for expect in (Absent(put.key), At(put.key, first)):
        if not await scratch.refuses(late, expect):
            raise Failed(f"a commit with a stale expectation was not refused: {type(expect).__name__}")
    entry = await store.get(put.key)
    if entry is None or (entry.value, entry.created, entry.modified) != (b"1", first, second):
        raise Failed("a refused commit left something behind")
    return "stale writes are refused, and change nothing", {}


async def _scan(scratch: Scratch) -> Said:
    """Law 5: pages fit together although there are writes in between."""
    store, names = scratch.store, [f"scan/{number}" for number in range(5)]
    revision = await store.commit(*(scratch.put(name) for name in names))
    first = await store.scan(scratch.prefix + "scan/", limit=2)
    await store.commit(scratch.put("scan/1+"), scratch.put("scan/4", b"later"))
    pages = [first]
    while pages[-1].more:
        after = pages[-1].entries[-1].key
        pages.append(await store.scan(scratch.prefix + "scan/", after=after, limit=2, at=first.revision))
    _check_pages(pages, [scratch.prefix + name for name in names], revision)
    return f"{len(pages)} pages of one revision fit together", {"pages": len(pages)}


def _check_pages(pages: Sequence[ScanResult], wanted: list[Key], revision: Revision) -> None:
    entries = [entry for page in pages for entry in page.entries]
    if [entry.key for entry in entries] != wanted:
        raise Failed(f"pages show {', '.join(entry.key for entry in entries)}; wanted are {', '.join(wanted)}")
    if any(entry.modified != revision for entry in entries):
        raise Failed("a page shows what was written after its revision")


async def _watch(scratch: Scratch) -> Said:
    """Law 3: a watch yields each commit, once and in order."""
    store, times = scratch.store, []
    start = await store.revision()
    backlog = [await store.commit(scratch.put("watch/0")), await store.commit(scratch.put("watch/0"))]
    watch = aclosing(store.watch(scratch.prefix + "watch/", start))
    async with _patience("a watch did not yield a commit"), watch as commits:
        for revision in backlog:
            _check_commit(await anext(commits), revision)
        for number in range(ROUNDS):
            asked = scratch.clock.monotonic()
            revision = await store.commit(scratch.put(f"watch/{number}"))
            _check_commit(await anext(commits), revision)
            times.append(scratch.clock.monotonic() - asked)
    return _times(times)


def _check_commit(commit: Commit, revision: Revision) -> None:
    if commit.revision != revision:
        raise Failed(f"a watch yielded revision {commit.revision} instead of {revision}")


async def _lease(scratch: Scratch) -> Said:
    """Law 4: a lease holds until its ttl has passed since it was renewed, and ends soon after."""
    store = scratch.store
    async with _lease_of(store, TTL) as lease:
        written = await store.commit(Put(scratch.prefix + "lease", b"", lease.id))
        late = await _wait_for_the_end(scratch, written, await store.renew(lease))
        with suppress(LeaseLost):
            await store.renew(lease)
            raise Failed("a lease that has ended was renewed")
        ttl = lease.ttl.total_seconds()
        return f"a ttl of {ttl:.0f} s ended {late:.2f} s later", {"ttl_s": ttl, "late_s": round(late, 3)}


async def _wait_for_the_end(scratch: Scratch, written: Revision, deadline: Instant) -> float:
    """How many seconds after its deadline a lease ended."""
    monotonic = scratch.clock.monotonic
    watch = aclosing(scratch.store.watch(scratch.prefix + "lease", written))
    async with _patience("a lease did not end", deadline - monotonic()), watch as commits:
        await anext(commits)
    late = monotonic() - deadline
    if late < 0:
        raise Failed(f"a lease ended {-late:.2f} s too early")
    return late


async def _clock(scratch: Scratch) -> Said:
    before = scratch.clock.wall()
    now = await scratch.store.now()
    skew = (now - before - (scratch.clock.wall() - before) / 2).total_seconds()
    side = "ahead of" if skew >= 0 else "behind"
    said = f"the store is {abs(skew):.2f} s {side} this machine"
    if abs(skew) > CLOCK_MAY_DIFFER:
        raise Failed(f"{said}; set the clocks")
    return said, {"skew_s": round(skew, 3)}


async def _history(scratch: Scratch) -> Said:
    start, end = await history.history_start(scratch.store), await scratch.store.revision()
    return f"revision {end}, history from {start}", {"revision": end, "from": start}


async def _keys(scratch: Scratch) -> Said:
    count = 0
    async with aclosing(backup.entries(scratch.store)) as entries:
        async for entry in entries:
            count += not entry.key.startswith(scratch.prefix)
    return f"{count} keys", {"keys": count}


async def _incarnation(scratch: Scratch) -> Said:
    entry = await scratch.store.get(keys.INCARNATION)
    if entry is None:
        return "none yet; the first node to join begins one", {"id": None}
    found = incarnation.whole(entry)
    return f"{found.id} since {found.since:%Y-%m-%d %H:%M:%S} UTC", {"id": found.id}


PROBES: Mapping[str, Probe] = {
    "read": _read,
    "commit": _commit,
    "conflict": _conflict,
    "scan": _scan,
    "watch": _watch,
    "lease": _lease,
    "clock": _clock,
    "history": _history,
    "keys": _keys,
    "incarnation": _incarnation,
}


async def _timed(clock: Clock, call: Callable[[], Awaitable[None]]) -> float:
    """How many seconds a call takes."""
    asked = clock.monotonic()
    await call()
    return clock.monotonic() - asked


def _times(seconds: Sequence[float]) -> Said:
    middle, worst = median(seconds) * 1000, max(seconds) * 1000
    said = f"median {middle:.2f} ms, worst {worst:.2f} ms of {len(seconds)}"
    return said, {"median_ms": round(middle, 3), "worst_ms": round(worst, 3)}


@asynccontextmanager
async def _patience(failure: str, seconds: float = 0.0) -> AsyncIterator[None]:
    """Raise Failed if the block takes SOON longer than it should."""
    try:
        async with asyncio.timeout(seconds + SOON):
            yield
    except TimeoutError:
        raise Failed(f"{failure} within {seconds + SOON:.0f} s") from None
