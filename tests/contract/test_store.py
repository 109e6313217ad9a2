"""The laws of the store port, on every adapter: the numbers are those of `rota.store.port.Store`.

No test assumes what a revision is called, only how two compare: an etcd is shared by all tests of a run.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from rota.model.errors import Compacted, Conflict, Invalid, LeaseLost, RotaError, Unavailable, Unknown
from rota.model.ids import Key, LeaseId, Revision
from rota.store import Absent, At, Delete, Entry, Lease, Put, ScanResult, Store, open_store
from rota.store.port import Expect, Write
from tests.contract.stream import Stream
from tests.kit import writer
from tests.kit.counter import count
from tests.kit.faultproxy import FaultProxy
from tests.kit.harness import HARNESSES, SqliteHarness, StoreHarness, params
from tests.kit.process import Script
from tests.kit.servers import free_port
from tests.kit.story import Story
from tests.kit.waiting import Recorder, eventually, renewed

TTL = timedelta(seconds=2)
RENEWED = timedelta(seconds=4)
"""Of a lease that must not end: this process may stand still between two renewals."""

SOON = 30.0
"""Seconds after its end in which a lease must be gone, whatever else the machine does."""

TIMEOUT = 1.0
"""Seconds a call may take in the tests of law 9."""

TO_TELL = 8.0
"""Seconds more until that is told, counted while this process runs: one, and what a busy machine takes."""

MEBIBYTE = 1024 * 1024

on_shared = pytest.mark.parametrize(
    "harness", params(kind for kind in HARNESSES if kind.is_shared), indirect=True
)  # the store in memory lives in one process, so what is said of processes is not said of it
on_sqlite = pytest.mark.parametrize("harness", params([SqliteHarness]), indirect=True)


async def value(store: Store, key: Key) -> bytes | None:
    entry = await store.get(key)
    return entry.value if entry else None


async def state(store: Store) -> dict[Key, bytes]:
    return {entry.key: entry.value for entry in (await store.scan("/")).entries}


def keys(listing: ScanResult) -> list[Key]:
    return [entry.key for entry in listing.entries]


async def fill(store: Store, prefix: Key, count: int, *, size: int = 10) -> Revision:
    """Create `count` keys below `prefix`, a hundred per commit."""
    revision = Revision(0)
    for start in range(0, count, 100):
        numbers = range(start, min(start + 100, count))
        revision = await store.commit(*(Put(f"{prefix}{number:05}", bytes(size)) for number in numbers))
    return revision


@asynccontextmanager
async def leased(store: Store, ttl: timedelta = timedelta(minutes=1)) -> AsyncIterator[Lease]:
    """A lease, revoked in the end."""
    lease = await store.grant(ttl)
    try:
        yield lease
    finally:
        with suppress(Unavailable, Unknown):  # it ends by itself, too
            await store.revoke(lease.id)


# Law 1: a commit is all or nothing and writes each key once; its revision is greater than every earlier one.


async def test_law_1_a_commit_writes_all_of_its_keys_at_its_revision(store: Store) -> None:
    revision = await store.commit(Put("/a", b"1"), Put("/b", b""), Put("/c", bytes(range(256))))
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)
    assert await store.get("/b") == Entry("/b", b"", revision, revision)
    assert await store.get("/c") == Entry("/c", bytes(range(256)), revision, revision)


async def test_law_1_revisions_grow_with_every_commit(store: Store) -> None:
    before = await store.revision()
    revisions = [await store.commit(Put("/a", b"same")) for _ in range(5)]
    assert before < revisions[0]
    assert revisions == sorted(set(revisions))
    assert await store.revision() == revisions[-1]


async def test_law_1_an_absent_key_has_no_entry(store: Store) -> None:
    assert await store.get("/none") is None


async def test_law_1_a_rewrite_keeps_created_and_moves_modified(store: Store) -> None:
    first = await store.commit(Put("/a", b"1"))
    second = await store.commit(Put("/a", b"2"))
    assert await store.get("/a") == Entry("/a", b"2", first, second)


async def test_law_1_a_key_deleted_and_created_again_is_new(store: Store) -> None:
    first = await store.commit(Put("/a", b"1"))
    await store.commit(Delete("/a"))
    assert await store.get("/a") is None
    third = await store.commit(Put("/a", b"3"))
    assert first < third
    assert await store.get("/a") == Entry("/a", b"3", third, third)


async def test_law_1_a_commit_may_put_some_and_delete_others(store: Store) -> None:
    await store.commit(Put("/a", b"1"), Put("/b", b"1"))
    await store.commit(Delete("/a"), Put("/b", b"2"), Put("/c", b"2"), Delete("/none"))
    assert await state(store) == {"/b": b"2", "/c": b"2"}


async def test_law_1_deleting_only_absent_keys_returns_the_present_revision(store: Store) -> None:
    revision = await store.commit(Put("/a", b"1"))
    assert await store.commit(Delete("/none"), Delete("/nothing")) == revision
    assert await store.revision() == revision


async def test_law_1_deleting_only_absent_keys_wakes_no_watcher(store: Store) -> None:
    start = await store.revision()
    async with Recorder(store, "/", start) as seen:
        await store.commit(Delete("/none"))
        last = await store.commit(Put("/a", b"1"), Delete("/none"))
        await seen.reach(last)
    assert seen.changes == [{"/a": b"1"}]


async def test_law_1_commits_of_many_coroutines_get_revisions_of_their_own(store: Store, other: Store) -> None:
    handles = (store, other)
    commits = (handles[number % 2].commit(Put(f"/c/{number}", b"")) for number in range(40))
    revisions = await asyncio.gather(*commits)
    assert len(set(revisions)) == 40
    written = {entry.key: entry.modified for entry in (await store.scan("/c/")).entries}
    assert written == {f"/c/{number}": revision for number, revision in enumerate(revisions)}


async def test_law_1_a_cancelled_commit_is_whole_or_not_at_all(store: Store) -> None:
    tasks = [asyncio.create_task(store.commit(Put(f"/c/{n}/a", b""), Put(f"/c/{n}/b", b""))) for n in range(30)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks[1::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    last = await store.commit(Put("/last", b""))
    found = set(keys(await store.scan("/c/")))
    for number, result in enumerate(results):
        pair = {f"/c/{number}/a", f"/c/{number}/b"}
        assert pair & found in (set(), pair)
        if not isinstance(result, BaseException):
            assert result < last
            assert pair <= found


# Law 2: a commit with a stale expectation raises Conflict, naming the keys, and changes nothing.


async def test_law_2_expectations_that_hold_let_the_commit_pass(store: Store) -> None:
    first = await store.commit(Put("/a", b"1"), Put("/b", b"1"))
    await store.commit(Put("/a", b"2"), Delete("/b"), expect=[At("/a", first), At("/b", first), Absent("/c")])
    assert await state(store) == {"/a": b"2"}


async def test_law_2_a_key_may_be_expected_without_being_written(store: Store) -> None:
    fence = await store.commit(Put("/leader", b"me"))
    await store.commit(Put("/a", b"1"), expect=[At("/leader", fence)])
    await store.commit(Put("/leader", b"you"))
    with pytest.raises(Conflict) as conflict:
        await store.commit(Put("/a", b"2"), expect=[At("/leader", fence)])
    assert conflict.value.keys == {"/leader"}
    assert await value(store, "/a") == b"1"


@pytest.mark.parametrize(
    ("made_stale_by", "expectation"),
    [
        pytest.param(Put("/k", b"2"), At, id="rewritten"),
        pytest.param(Delete("/k"), At, id="deleted"),
        pytest.param(None, Absent, id="present"),
    ],
)
async def test_law_2_a_stale_commit_changes_nothing(
    store: Store, made_stale_by: Write | None, expectation: type
) -> None:
    first = await store.commit(Put("/k", b"1"), Put("/other", b"1"))
    if made_stale_by:
        await store.commit(made_stale_by)
    before, revision = await state(store), await store.revision()
    stale: Expect = At("/k", first) if expectation is At else Absent("/k")
    with pytest.raises(Conflict) as conflict:
        await store.commit(Put("/k", b"x"), Put("/new", b"x"), Delete("/other"), expect=[stale])
    assert conflict.value.keys == {"/k"}
    assert await state(store) == before
    assert await store.revision() == revision


async def test_law_2_a_key_created_again_is_not_the_one_expected(store: Store) -> None:
    first = await store.commit(Put("/k", b"same"))
    await store.commit(Delete("/k"))
    await store.commit(Put("/k", b"same"))
    with pytest.raises(Conflict):
        await store.commit(Put("/k", b"x"), expect=[At("/k", first)])


async def test_law_2_at_the_created_revision_is_stale_after_a_rewrite(store: Store) -> None:
    created = await store.commit(Put("/k", b"1"))
    modified = await store.commit(Put("/k", b"2"))
    with pytest.raises(Conflict):
        await store.commit(Put("/k", b"x"), expect=[At("/k", created)])
    await store.commit(Put("/k", b"3"), expect=[At("/k", modified)])


async def test_law_2_a_key_never_written_is_nowhere_expected(store: Store) -> None:
    revision = await store.commit(Put("/a", b"1"))
    with pytest.raises(Conflict) as conflict:
        await store.commit(Put("/a", b"2"), expect=[At("/none", revision)])
    assert conflict.value.keys == {"/none"}


async def test_law_2_conflict_names_exactly_the_stale_keys(store: Store) -> None:
    first = await store.commit(*(Put(f"/k/{name}", b"1") for name in "abcdef"))
    second = await store.commit(Put("/k/b", b"2"), Delete("/k/d"))
    expect = [
        *(At(f"/k/{name}", first) for name in "abcd"),
        At("/k/e", second),
        *(Absent("/k/f"), Absent("/k/none"), At("/k/never", second)),
    ]
    with pytest.raises(Conflict) as conflict:
        await store.commit(Put("/k/a", b"x"), expect=expect)
    assert conflict.value.keys == {"/k/b", "/k/d", "/k/e", "/k/f", "/k/never"}


async def test_law_2_a_commit_that_would_change_nothing_still_checks(store: Store) -> None:
    await store.commit(Put("/a", b"1"))
    with pytest.raises(Conflict):
        await store.commit(Delete("/none"), expect=[Absent("/a")])


async def test_law_2_watchers_see_nothing_of_a_conflict(store: Store) -> None:
    start = await store.commit(Put("/a", b"1"))
    async with Recorder(store, "/", start) as seen:
        for _ in range(5):
            with pytest.raises(Conflict):
                await store.commit(Put("/a", b"x"), Put("/b", b"x"), expect=[Absent("/a")])
        last = await store.commit(Put("/a", b"2"))
        await seen.reach(last)
    assert seen.changes == [{"/a": b"2"}]


# Law 3: watch(prefix, after) yields each commit past `after` that touches the prefix whole, once and in order.


async def test_law_3_a_watch_yields_commits_whole_and_in_key_order(store: Store) -> None:
    start = await store.revision()
    first = await store.commit(Put("/w/b", b"1"), Put("/w/a", b"1"), Put("/w/c", b"1"))
    second = await store.commit(Delete("/w/c"), Put("/w/a", b"2"))
    async with Recorder(store, "/w/", start) as seen:
        await seen.reach(second)
    one, two = seen.commits
    assert [(change.key, change.entry) for change in one.changes] == [
        (key, Entry(key, b"1", first, first)) for key in ("/w/a", "/w/b", "/w/c")
    ]
    assert [(change.key, change.entry) for change in two.changes] == [
        ("/w/a", Entry("/w/a", b"2", first, second)),
        ("/w/c", None),
    ]
    assert [one.revision, two.revision] == [first, second]


async def test_law_3_a_watcher_there_before_and_one_that_comes_later_see_the_same(store: Store, other: Store) -> None:
    start = await store.revision()
    async with Recorder(other, "/w/", start) as early:
        revisions = [await store.commit(Put("/w/k", b"%d" % number)) for number in range(20)]
        await early.reach(revisions[-1])
        async with Recorder(other, "/w/", start) as late:
            await late.reach(revisions[-1])
    assert early.revisions == revisions
    assert late.commits == early.commits


async def test_law_3_many_watches_of_a_process_each_see_all_of_their_own(store: Store, other: Store) -> None:
    start = await store.revision()
    async with AsyncExitStack() as stack:
        early = [await stack.enter_async_context(Recorder(store, f"/w/{number}/", start)) for number in range(6)]
        whole = await stack.enter_async_context(Recorder(store, "/w/", start))
        revisions: list[tuple[int, Revision]] = []
        for number in range(60):
            who = store if number % 3 else other
            revisions.append((number % 6, await who.commit(Put(f"/w/{number % 6}/k", b"%d" % number))))
            if number == 30:
                await whole.reach(revisions[-1][1])
        late = [await stack.enter_async_context(Recorder(store, f"/w/{number}/", start)) for number in range(6)]
        last = await other.commit(*(Put(f"/w/{number}/last", b"") for number in range(6)))
        for seen in (*early, *late, whole):
            await seen.reach(last)
    for number, (one, two) in enumerate(zip(early, late, strict=True)):
        assert one.revisions == [*(revision for of, revision in revisions if of == number), last]
        assert two.commits == one.commits
    assert whole.revisions == [*(revision for _, revision in revisions), last]


async def test_law_3_a_watch_goes_on_from_any_revision(store: Store) -> None:
    start = await store.revision()
    revisions = [await store.commit(Put(f"/w/{number}", b""), Put("/w/k", b"")) for number in range(8)]
    for index, after in enumerate([start, *revisions[:-1]]):
        async with Recorder(store, "/w/", after) as seen:
            await seen.reach(revisions[-1])
        assert seen.revisions == revisions[index:]


async def test_law_3_a_watch_from_the_newest_revision_waits_for_the_next_commit(store: Store) -> None:
    start = await store.commit(Put("/w/old", b""))
    async with Recorder(store, "/w/", start) as seen:
        last = await store.commit(Put("/w/new", b""))
        await seen.reach(last)
    assert seen.changes == [{"/w/new": b""}]


async def test_law_3_a_watch_shows_only_its_prefix(store: Store) -> None:
    start = await store.revision()
    await store.commit(Put("/a", b""), Put("/a/x", b""), Put("/ab", b""), Put("/A/x", b""))
    await store.commit(Put("/b/x", b""))
    last = await store.commit(Put("/a/last", b""), Put("/ab", b""))
    async with Recorder(store, "/a/", start) as part, Recorder(store, "/a", start) as wide:
        await part.reach(last)
        await wide.reach(last)
    assert part.changes == [{"/a/x": b""}, {"/a/last": b""}]
    assert wide.changes == [{"/a": b"", "/a/x": b"", "/ab": b""}, {"/a/last": b"", "/ab": b""}]


async def test_law_3_a_watched_prefix_is_taken_literally(store: Store) -> None:
    start = await store.revision()
    await store.commit(Put("/w/abc", b""), Put("/w/é", b""))
    last = await store.commit(Put("/w/a_c", b""), Put("/w/a%", b""), Put("/w/a_", b""))
    async with Recorder(store, "/w/a_", start) as seen:
        await seen.reach(last)
    assert seen.changes == [{"/w/a_": b"", "/w/a_c": b""}]


async def test_law_3_a_scan_and_a_watch_from_its_revision_miss_nothing(store: Store, other: Store) -> None:
    """A reader that scans and watches while others write ends with what is there."""
    writing = asyncio.create_task(count(other, "/w/k", 60))
    await eventually(lambda: value(store, "/w/k"))
    listing = await store.scan("/w/")
    view = {entry.key: entry.value for entry in listing.entries}
    await writing
    last = await store.commit(Put("/w/last", b""))
    async with Recorder(store, "/w/", listing.revision) as seen:
        await seen.reach(last)
    numbers = [int(changed["/w/k"] or b"") for changed in seen.changes[:-1]]
    assert numbers == list(range(int(view["/w/k"]) + 1, 61))


async def test_law_3_many_watchers_see_every_commit_once(store: Store, other: Store) -> None:
    start = await store.revision()
    async with AsyncExitStack() as stack:
        watchers = [
            await stack.enter_async_context(Recorder((store, other)[number % 2], "/w/", start)) for number in range(30)
        ]
        revisions = [await store.commit(Put("/w/k", b"%d" % number)) for number in range(10)]
        for watcher in watchers:
            await watcher.reach(revisions[-1])
    assert all(watcher.revisions == revisions for watcher in watchers)


async def test_law_3_a_watch_may_be_closed_and_opened_again(store: Store) -> None:
    after = start = await store.revision()
    revisions = [await store.commit(Put("/w/k", b"%d" % number)) for number in range(6)]
    got = []
    while len(got) < 6:
        async with aclosing(store.watch("/w/", after)) as commits:
            commit = await anext(commits)
        got.append(commit.revision)
        after = commit.revision
    assert got == revisions
    assert start < got[0]


async def test_law_3_a_slow_reader_loses_nothing(store: Store) -> None:
    start = await store.revision()
    async with aclosing(store.watch("/w/", start)) as commits:
        first = await store.commit(Put("/w/k", b"first"))
        assert (await anext(commits)).revision == first
        revisions = [await store.commit(Put("/w/k", b"%d" % number)) for number in range(50)]
        assert [(await anext(commits)).revision for _ in revisions] == revisions


async def test_law_3_a_backlog_of_hundreds_of_commits_comes_whole(store: Store) -> None:
    start = await store.revision()
    revisions = sorted(await asyncio.gather(*(store.commit(Put(f"/w/{n % 7}", b"%d" % n)) for n in range(400))))
    async with Recorder(store, "/w/", start) as seen:
        await seen.reach(revisions[-1], within=30)
    assert seen.revisions == revisions


async def test_law_3_a_backlog_of_many_mebibytes_comes_whole(store: Store) -> None:
    start = await store.revision()
    revisions = [await store.commit(Put("/w/k", bytes([number]) * MEBIBYTE)) for number in range(10)]
    async with Recorder(store, "/w/", start) as seen:
        await seen.reach(revisions[-1], within=30)
    assert seen.revisions == revisions
    assert [changed["/w/k"] for changed in seen.changes] == [bytes([n]) * MEBIBYTE for n in range(10)]


async def test_law_3_history_that_is_gone_raises_compacted(store: Store) -> None:
    revisions = [await store.commit(Put("/w/k", b"%d" % number)) for number in range(6)]
    await store.compact(revisions[3])
    async with aclosing(store.watch("/w/", revisions[0])) as commits:
        with pytest.raises(Compacted) as compacted:
            await anext(commits)
    assert compacted.value.asked == revisions[0]
    assert revisions[0] < compacted.value.oldest <= revisions[4]


async def test_law_3_compaction_keeps_what_came_later_and_the_present_state(store: Store) -> None:
    await store.commit(Put("/w/still", b"here"), Put("/w/gone", b""))
    await store.commit(Delete("/w/gone"))
    revisions = [await store.commit(Put("/w/k", b"%d" % number)) for number in range(6)]
    await store.compact(revisions[3])
    async with Recorder(store, "/w/", revisions[3]) as seen:
        await seen.reach(revisions[5])
    assert seen.revisions == revisions[4:]
    assert await state(store) == {"/w/still": b"here", "/w/k": b"5"}


async def test_law_3_compacting_again_is_fine(store: Store) -> None:
    revisions = [await store.commit(Put("/w/k", b"%d" % number)) for number in range(6)]
    for before in (revisions[3], revisions[3], revisions[1]):
        await store.compact(before)
    async with Recorder(store, "/w/", revisions[3]) as seen:
        await seen.reach(revisions[5])
    assert seen.revisions == revisions[4:]


async def test_law_3_a_live_watch_of_a_quiet_prefix_outlives_compactions(store: Store, other: Store) -> None:
    start = await store.commit(Put("/quiet/k", b"0"))
    async with Recorder(store, "/quiet/", start) as quiet, Recorder(store, "/busy/", start) as busy:
        for _ in range(4):
            round_start = await other.revision()
            await busy.reach(await fill(other, "/busy/", 1_000))
            await other.compact(round_start)
        last = await other.commit(Put("/quiet/k", b"1"))
        await quiet.reach(last)
    assert quiet.changes == [{"/quiet/k": b"1"}]


async def test_law_3_the_end_of_a_lease_is_a_commit_like_any_other(store: Store, other: Store) -> None:
    start = await store.revision()
    async with Recorder(other, "/w/", start) as seen, leased(store) as lease:
        put = await store.commit(Put("/w/b", b"", lease.id), Put("/w/a", b"", lease.id), Put("/w/free", b""))
        await store.revoke(lease.id)
        last = await store.commit(Put("/w/last", b""))
        await seen.reach(last)
    assert seen.changes[1:] == [{"/w/a": None, "/w/b": None}, {"/w/last": b""}]
    assert put < seen.revisions[1] < last


# Law 4: the keys of a lease vanish in one commit, never before its ttl has passed unrenewed, and soon after.


async def test_law_4_an_unrenewed_lease_ends_with_its_keys_after_its_ttl(store: Store, other: Store) -> None:
    start = await store.revision()
    keyless = await store.grant(TTL)
    before = time.monotonic()
    lease = await store.grant(TTL)
    after = time.monotonic()
    assert lease.ttl >= TTL
    assert before + TTL.total_seconds() <= lease.deadline <= after + lease.ttl.total_seconds()
    await store.commit(Put("/l/a", b"", lease.id), Put("/l/b", b"", lease.id), Put("/l/free", b""))
    async with Recorder(other, "/l/", start) as seen:
        await seen.until(lambda: len(seen.commits) == 2)
        ended = time.monotonic()
    assert seen.changes[1] == {"/l/a": None, "/l/b": None}
    assert lease.deadline <= ended <= after + lease.ttl.total_seconds() + SOON
    assert keys(await store.scan("/l/")) == ["/l/free"]
    with pytest.raises(LeaseLost):
        await store.renew(lease)
    with pytest.raises(LeaseLost):
        await store.commit(Put("/l/late", b"", lease.id))
    assert keys(await store.scan("/l/")) == ["/l/free"]
    await ended_unseen(store, keyless)


async def ended_unseen(store: Store, lease: Lease) -> None:
    """Wait until a lease has ended that has no keys to show it; who asks too early renews it."""
    deadline = lease.deadline
    for _ in range(3):
        await eventually(lambda: time.monotonic() > deadline + 2)  # noqa: B023  # it is asked at once
        try:
            deadline = await store.renew(lease)
        except LeaseLost:
            return
    raise AssertionError("the lease did not end")


async def test_law_4_renewing_keeps_a_lease_and_the_ttl_counts_from_the_last_time(store: Store, other: Store) -> None:
    start = await store.revision()
    lease = await store.grant(RENEWED)
    async with Recorder(other, "/l/", start) as seen:
        put = await store.commit(Put("/l/k", b"", lease.id))
        async with renewed(store, lease):
            await eventually(lambda: time.monotonic() > lease.deadline + 1.5)
        before = time.monotonic()
        deadline = await store.renew(lease)
        after = time.monotonic()
        await seen.until(lambda: len(seen.commits) == 2)
        ended = time.monotonic()
    assert before + lease.ttl.total_seconds() <= deadline <= after + lease.ttl.total_seconds()
    assert deadline <= ended <= after + lease.ttl.total_seconds() + SOON
    assert seen.changes == [{"/l/k": b""}, {"/l/k": None}]
    assert seen.revisions[0] == put


async def test_law_4_another_handle_may_renew_and_use_a_lease(store: Store, other: Store) -> None:
    async with leased(store) as lease:
        await other.commit(Put("/l/k", b"", lease.id))
        assert await other.renew(lease) >= lease.deadline
        await store.revoke(lease.id)
        assert await value(other, "/l/k") is None


async def test_law_4_an_entry_says_its_lease(store: Store) -> None:
    async with leased(store) as lease:
        revision = await store.commit(Put("/l/k", b"v", lease.id))
        entry = Entry("/l/k", b"v", revision, revision, lease.id)
        assert await store.get("/l/k") == entry
        assert (await store.scan("/l/")).entries == (entry,)
        async with aclosing(store.watch("/l/", Revision(revision - 1))) as commits:
            assert [change.entry for change in (await anext(commits)).changes] == [entry]


async def test_law_4_revoking_ends_a_lease_at_once(store: Store) -> None:
    lease = await store.grant(timedelta(minutes=1))
    await store.commit(Put("/l/a", b"", lease.id), Put("/l/b", b"", lease.id))
    await store.revoke(lease.id)
    assert await state(store) == {}
    with pytest.raises(LeaseLost) as lost:
        await store.renew(lease)
    assert lost.value.lease == lease.id
    with pytest.raises(LeaseLost):
        await store.commit(Put("/l/free", b""), Put("/l/k", b"", lease.id))
    assert await state(store) == {}


async def test_law_4_revoking_twice_or_an_unknown_lease_is_fine(store: Store) -> None:
    lease = await store.grant(timedelta(minutes=1))
    for _ in range(2):
        await store.revoke(lease.id)
    await store.revoke(LeaseId("404"))


async def test_law_4_a_lease_that_never_was_is_lost(store: Store) -> None:
    with pytest.raises(LeaseLost):
        await store.commit(Put("/l/k", b"", LeaseId("404")))
    assert await state(store) == {}


async def test_law_4_a_key_rewritten_without_a_lease_stays(store: Store) -> None:
    async with leased(store) as lease:
        await store.commit(Put("/l/stays", b"1", lease.id), Put("/l/goes", b"1", lease.id))
        await store.commit(Put("/l/stays", b"2"))
        await store.revoke(lease.id)
        assert await state(store) == {"/l/stays": b"2"}


async def test_law_4_a_key_moved_to_another_lease_follows_that_one(store: Store) -> None:
    async with leased(store) as old, leased(store) as new:
        await store.commit(Put("/l/k", b"1", old.id))
        await store.commit(Put("/l/k", b"2", new.id))
        await store.revoke(old.id)
        assert await state(store) == {"/l/k": b"2"}
        await store.revoke(new.id)
        assert await state(store) == {}


async def test_law_4_a_key_deleted_and_created_again_is_free_of_its_old_lease(store: Store) -> None:
    async with leased(store) as lease:
        await store.commit(Put("/l/k", b"1", lease.id))
        await store.commit(Delete("/l/k"))
        await store.commit(Put("/l/k", b"2"))
        await store.revoke(lease.id)
        assert await state(store) == {"/l/k": b"2"}


async def test_law_4_a_lease_with_more_keys_than_a_commit_ends_in_one_commit(store: Store) -> None:
    async with leased(store) as lease:
        for part in range(3):
            last = await store.commit(*(Put(f"/l/{part}/{number}", b"", lease.id) for number in range(100)))
        async with Recorder(store, "/l/", last) as seen:
            await store.revoke(lease.id)
            await seen.until(lambda: seen.commits)
        assert len(seen.commits[0].changes) == 300


# Law 5: scan returns entries and the revision they were read at; a further page asked `at` that revision fits on.

ALIKE = (
    "/o/a",
    "/o/A",
    "/o/a ",
    "/o/á",
    "/o/a\u0301",
    "/o/ａ",
    "/o/ß",
    "/o/ss",
    "/o/_",
    "/o/%",
    "/o/\\",
    "/o/'",
    '/o/"',
)
"""Keys that a careless collation, a LIKE or a quote would take for each other."""


async def test_law_5_an_empty_store_scans_empty(store: Store) -> None:
    listing = await store.scan("/")
    assert listing == ScanResult((), await store.revision())


async def test_law_5_a_scan_tells_the_revision_it_was_read_at(store: Store) -> None:
    first = await store.commit(Put("/s/a", b"1"), Put("/s/b", b"1"))
    second = await store.commit(Put("/s/b", b"2"))
    assert await store.scan("/s/") == ScanResult(
        (Entry("/s/a", b"1", first, first), Entry("/s/b", b"2", first, second)), second
    )


async def test_law_5_entries_come_in_the_order_of_their_utf8_bytes(store: Store) -> None:
    names = [*ALIKE, "/o/z", "/o/é", "/o/中", "/o/\ufffd", "/o/😀", "/o", "/o/a/b", "/o/a-b", "/o/a0", "/o/~"]
    await store.commit(*(Put(name, name.encode()) for name in names))
    listing = await store.scan("/")
    assert keys(listing) == sorted(names, key=str.encode)
    assert [entry.value.decode() for entry in listing.entries] == keys(listing)


async def test_law_5_a_watch_orders_its_changes_likewise(store: Store) -> None:
    names = [*ALIKE, "/o/\ufffd", "/o/😀"]
    start = await store.revision()
    last = await store.commit(*(Put(name, b"") for name in names))
    async with Recorder(store, "/o/", start) as seen:
        await seen.reach(last)
    assert [change.key for change in seen.commits[0].changes] == sorted(names, key=str.encode)


async def test_law_5_keys_that_look_alike_are_different_keys(store: Store) -> None:
    await store.commit(*(Put(name, name.encode()) for name in ALIKE))
    for name in ALIKE:
        assert await value(store, name) == name.encode()
        assert name in keys(await store.scan(name))
    await store.commit(Delete("/o/a"))
    assert await value(store, "/o/A") == b"/o/A"


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("/", ["/a", "/a/b", "/a/b/c", "/a0", "/ab", "/b"]),
        ("/a", ["/a", "/a/b", "/a/b/c", "/a0", "/ab"]),
        ("/a/", ["/a/b", "/a/b/c"]),
        ("/a/b", ["/a/b", "/a/b/c"]),
        ("/ab", ["/ab"]),
        ("/b/", []),
        ("/c", []),
    ],
)
async def test_law_5_a_prefix_means_its_very_bytes(store: Store, prefix: Key, expected: list[Key]) -> None:
    await store.commit(*(Put(key, b"") for key in ("/a", "/a/b", "/a/b/c", "/ab", "/a0", "/b")))
    assert keys(await store.scan(prefix)) == expected


async def test_law_5_a_prefix_that_ends_in_a_wide_character_works(store: Store) -> None:
    await store.commit(*(Put(key, b"") for key in ("/é", "/éa", "/ê", "/è", "/😀", "/😀x", "/😁")))
    assert keys(await store.scan("/é")) == ["/é", "/éa"]
    assert keys(await store.scan("/😀")) == ["/😀", "/😀x"]


async def test_law_5_a_limit_cuts_and_says_so(store: Store) -> None:
    await fill(store, "/s/", 5)
    everything = keys(await store.scan("/s/"))
    for limit in range(1, 8):
        listing = await store.scan("/s/", limit=limit)
        assert keys(listing) == everything[:limit]
        assert listing.more == (limit < 5)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param("/s/1", ["/s/2", "/s/3"], id="a key"),
        pytest.param("/s/10", ["/s/2", "/s/3"], id="between keys"),
        pytest.param("/s/3", [], id="the last"),
        pytest.param("/a", ["/s/1", "/s/2", "/s/3"], id="before the prefix"),
        pytest.param("/t", [], id="behind the prefix"),
    ],
)
async def test_law_5_a_scan_starts_behind_after(store: Store, after: Key, expected: list[Key]) -> None:
    await store.commit(*(Put(key, b"") for key in ("/r", "/s/1", "/s/2", "/s/3", "/sz")))
    assert keys(await store.scan("/s/", after=after)) == expected


async def pages(store: Store, prefix: Key, limit: int, between: Callable[[int], Awaitable[object]]) -> list[Entry]:
    """Read all pages at the revision of the first; `between` runs after each."""
    listing = await store.scan(prefix, limit=limit)
    revision, entries = listing.revision, list(listing.entries)
    while listing.more:
        await between(len(entries))
        listing = await store.scan(prefix, limit=limit, after=entries[-1].key, at=revision)
        assert listing.revision == revision
        entries.extend(listing.entries)
    return entries


async def test_law_5_pages_hold_still_while_others_write_and_delete(store: Store, other: Store) -> None:
    await fill(store, "/s/", 40)
    await store.commit(Put("/s/00039", b"rewritten"))
    before = (await store.scan("/s/")).entries

    async def disturb(read: int) -> None:
        await other.commit(
            *(Delete(f"/s/{read + 2:05}"), Put(f"/s/{read + 3:05}", b"x"), Put(f"/s/{read + 1:05}x", b"new"))
        )

    assert tuple(await pages(store, "/s/", 7, disturb)) == before


async def test_law_5_a_scan_at_an_earlier_revision_shows_what_was_there(store: Store) -> None:
    first = await store.commit(Put("/s/a", b"1"), Put("/s/b", b"1"))
    second = await store.commit(Put("/s/a", b"2"), Put("/s/c", b"2"))
    third = await store.commit(Delete("/s/b"))
    await store.commit(Put("/s/b", b"4"))
    assert await store.scan("/s/", at=first) == ScanResult(
        (Entry("/s/a", b"1", first, first), Entry("/s/b", b"1", first, first)), first
    )
    assert keys(await store.scan("/s/", at=second)) == ["/s/a", "/s/b", "/s/c"]
    assert keys(await store.scan("/s/", at=third)) == ["/s/a", "/s/c"]
    assert (await store.scan("/s/", at=third, limit=1)).more


async def test_law_5_a_scan_at_a_compacted_revision_raises_compacted(store: Store) -> None:
    revisions = [await store.commit(Put("/s/k", b"%d" % number)) for number in range(5)]
    await store.compact(revisions[3])
    with pytest.raises(Compacted):
        await store.scan("/s/", at=revisions[1])
    assert [entry.value for entry in (await store.scan("/s/", at=revisions[3])).entries] == [b"3"]


async def test_law_5_a_scan_at_a_future_revision_is_invalid(store: Store) -> None:
    revision = await store.commit(Put("/s/k", b""))
    with pytest.raises(Invalid):
        await store.scan("/s/", at=Revision(revision + 1_000))


async def test_law_5_1200_entries_come_in_one_scan_and_in_pages(store: Store) -> None:
    last = await fill(store, "/s/", 1_200, size=100)

    async def nothing(_: int) -> None:
        """Nobody disturbs."""

    listing = await store.scan("/s/")
    assert keys(listing) == [f"/s/{number:05}" for number in range(1_200)]
    assert (listing.revision, listing.more) == (last, False)
    assert tuple(await pages(store, "/s/", 250, nothing)) == listing.entries


async def test_law_5_many_mebibytes_come_in_one_scan(store: Store) -> None:
    for number in range(10):
        await store.commit(Put(f"/s/{number}", bytes([number]) * MEBIBYTE))
    listing = await store.scan("/s/")
    assert [entry.value for entry in listing.entries] == [bytes([number]) * MEBIBYTE for number in range(10)]


@pytest.mark.parametrize("seed", range(5))
async def test_laws_1_to_5_a_random_story_reads_as_it_does_in_memory(store: Store, seed: int) -> None:
    async with open_store("memory://") as model:
        await Story(Random(seed), store, model).tell(steps=150)


# Law 6: 100 writes and 1 MiB of values pass; beyond that, and for a bad key, Invalid, the same on every adapter.

LONGEST = 512

BAD_KEYS = [
    pytest.param("", id="empty"),
    pytest.param("a/b", id="no leading slash"),
    pytest.param("/", id="nothing but a slash"),
    pytest.param("/a/", id="trailing slash"),
    pytest.param("/a//b", id="empty part"),
    pytest.param("//a", id="empty first part"),
    pytest.param("/a\0b", id="NUL"),
    pytest.param("/a\nb", id="line break"),
    pytest.param("/a\x7f", id="DEL"),
    pytest.param("/a\u202eb", id="direction override"),
    pytest.param("/" + "a" * LONGEST, id="too long"),
    pytest.param("/" + "é" * (LONGEST // 2), id="too long in bytes"),
    pytest.param("/\ud800", id="lone surrogate"),
    pytest.param(b"/a", id="bytes"),
]


@pytest.mark.parametrize("key", BAD_KEYS)
async def test_law_6_a_bad_key_is_invalid(store: Store, key: Key) -> None:
    with pytest.raises(Invalid):
        await store.get(key)
    with pytest.raises(Invalid):
        await store.commit(Put("/good", b""), Put(key, b""))
    with pytest.raises(Invalid):
        await store.commit(Put("/good", b""), Delete(key))
    with pytest.raises(Invalid):
        await store.commit(Put("/good", b""), expect=[Absent(key)])
    assert await state(store) == {}


@pytest.mark.parametrize("prefix", ["", "a", "/a//", "/a\0", "/" + "a" * LONGEST, "/\ud800"])
async def test_law_6_a_bad_prefix_is_invalid(store: Store, prefix: Key) -> None:
    with pytest.raises(Invalid):
        await store.scan(prefix)
    with pytest.raises(Invalid):
        async with aclosing(store.watch(prefix, Revision(0))) as commits:
            await anext(commits)


async def test_law_6_the_longest_key_passes(store: Store) -> None:
    longest = "/" + "a" * (LONGEST - 1)
    await store.commit(Put(longest, b"1"))
    assert await state(store) == {longest: b"1"}
    assert keys(await store.scan(longest)) == [longest]


async def test_law_6_100_writes_pass_and_101_are_invalid(store: Store) -> None:
    writes = [Put(f"/n/{number}", b"") for number in range(101)]
    with pytest.raises(Invalid):
        await store.commit(*writes)
    assert await state(store) == {}
    await store.commit(*writes[:100])
    assert len(await state(store)) == 100
    await store.commit(*(Delete(write.key) for write in writes[:100]))
    assert await state(store) == {}


@pytest.mark.parametrize("parts", [1, 100])
async def test_law_6_a_mebibyte_of_values_passes_and_a_byte_more_is_invalid(store: Store, parts: int) -> None:
    sizes = [MEBIBYTE // parts + (number < MEBIBYTE % parts) for number in range(parts)]
    writes = [Put(f"/m/{number:03}", bytes(size)) for number, size in enumerate(sizes)]
    assert sum(sizes) == MEBIBYTE
    with pytest.raises(Invalid):
        await store.commit(*writes[:-1], Put("/m/one-more", bytes(sizes[-1] + 1)))
    assert await state(store) == {}
    await store.commit(*writes)
    assert await state(store) == {write.key: write.value for write in writes}


async def test_law_6_a_commit_at_every_limit_at_once_passes_and_is_watched_whole(store: Store) -> None:
    longest = [f"/{number:03}".ljust(LONGEST, "x") for number in range(128)]
    value = os.urandom(MEBIBYTE // 100)
    start = await store.revision()
    revision = await store.commit(*(Put(key, value) for key in longest[:100]), expect=[Absent(key) for key in longest])
    with pytest.raises(Conflict) as conflict:
        await store.commit(*(Put(key, b"") for key in longest[:100]), expect=[Absent(key) for key in longest])
    assert conflict.value.keys == set(longest[:100])
    async with Recorder(store, "/", start) as seen:
        await seen.reach(revision)
    assert seen.changes == [dict.fromkeys(longest[:100], value)]


@pytest.mark.parametrize(
    ("writes", "expect"),
    [
        pytest.param([], [], id="no writes"),
        pytest.param([Put("/k", b"1"), Put("/k", b"2")], [], id="put twice"),
        pytest.param([Put("/k", b"1"), Delete("/k")], [], id="put and deleted"),
        pytest.param([Put("/k", b"1")], [Absent("/e"), Absent("/e")], id="expected twice"),
        pytest.param([Put("/k", b"1")], [Absent("/e"), At("/e", Revision(1))], id="expected in two ways"),
        pytest.param([Put("/k", b"1")], [Absent(f"/{number}") for number in range(129)], id="129 expectations"),
        pytest.param([Put("/k", "text")], [], id="value of text"),
        pytest.param(["/k"], [], id="no write at all"),
        pytest.param([Put("/k", b"1")], ["/k"], id="no expectation at all"),
    ],
)
async def test_law_6_a_malformed_commit_is_invalid(store: Store, writes: list[Write], expect: list[Expect]) -> None:
    revision = await store.revision()
    with pytest.raises(Invalid):
        await store.commit(*writes, expect=expect)
    assert await state(store) == {}
    assert await store.revision() == revision


@pytest.mark.parametrize("ttl", [timedelta(), timedelta(seconds=-1), timedelta(milliseconds=999), timedelta(days=2)])
async def test_law_6_a_lease_too_short_or_too_long_is_invalid(store: Store, ttl: timedelta) -> None:
    with pytest.raises(Invalid):
        await store.grant(ttl)


async def test_law_6_a_fraction_of_a_second_is_kept_or_rounded_up(store: Store) -> None:
    async with leased(store, timedelta(seconds=1.5)) as lease:
        assert timedelta(seconds=1.5) <= lease.ttl <= timedelta(seconds=3)


async def test_law_6_a_page_of_nothing_is_invalid(store: Store) -> None:
    for limit in (0, -1):
        with pytest.raises(Invalid):
            await store.scan("/", limit=limit)


# Law 7: of concurrent commits expecting the same, one wins.


async def test_law_7_one_of_many_who_expect_the_same_wins(store: Store, other: Store) -> None:
    handles = (store, other)
    attempts = (handles[n % 2].commit(Put("/k", b"%d" % n), expect=[Absent("/k")]) for n in range(20))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    wins = [number for number, result in enumerate(results) if not isinstance(result, BaseException)]
    assert len(wins) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 19
    entry = await store.get("/k")
    assert entry is not None
    assert (entry.value, entry.modified) == (b"%d" % wins[0], results[wins[0]])


async def test_law_7_8_handles_of_50_increments_end_at_400(harness: StoreHarness, store: Store) -> None:
    async with AsyncExitStack() as stack:
        handles = [await stack.enter_async_context(open_store(harness.url())) for _ in range(8)]
        await asyncio.gather(*(count(handle, "/n", 50) for handle in handles))
    assert await value(store, "/n") == b"400"


@on_shared
async def test_law_7_8_processes_of_50_increments_end_at_400(
    harness: StoreHarness, store: Store, tmp_path: Path
) -> None:
    start = await store.revision()
    counters = [
        Script("counter", harness.url(timeout="30s"), "/n", 50, output=tmp_path / f"counter{number}.out")
        for number in range(8)
    ]
    async with AsyncExitStack() as stack:
        for counter in counters:
            stack.enter_context(counter)
        await eventually(lambda: all(counter.has_ended_well for counter in counters), within=120)
    last = await store.commit(Put("/n/last", b""))
    async with Recorder(store, "/n", start) as seen:
        await seen.reach(last)
    assert await value(store, "/n") == b"400"
    assert [changed.get("/n") for changed in seen.changes[:-1]] == [b"%d" % number for number in range(1, 401)]


# Law 8: the server may be killed and restarted at any point: nothing missed, nothing doubled.


async def test_law_8_a_killed_server_loses_and_doubles_nothing(victim: StoreHarness) -> None:
    server = victim.running
    assert server is not None
    async with open_store(victim.url(timeout="1s")) as store:
        start = await store.revision()
        stream, stop = Stream(store, "/s/"), asyncio.Event()
        async with leased(store, timedelta(seconds=20)) as lease, renewed(store, lease):
            held = await store.commit(Put("/held", b"", lease.id))
            async with Recorder(store, "/s/", start) as seen:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(stream.run(stop))
                    for _ in range(3):
                        await stream.grown(50)
                        server.kill()
                        await asyncio.to_thread(server.start)
                    await stream.grown(50)
                    stop.set()
                await seen.reach(stream.last, within=30)
            entry = await store.get("/held")
            assert entry is not None
            assert entry.modified == held
    stream.check(seen.commits)
    assert any(isinstance(said, RotaError) for said in stream.said.values())


async def test_law_8_a_lease_outlives_its_server_and_ends_when_its_holder_stops(victim: StoreHarness) -> None:
    server = victim.running
    assert server is not None
    async with open_store(victim.url(timeout="1s")) as store:
        lease = await store.grant(timedelta(seconds=6))  # longer than a server takes to come back
        start = await store.commit(Put("/held", b"", lease.id))
        async with Recorder(store, "/held", start) as seen:
            async with renewed(store, lease):
                await asyncio.to_thread(server.restart)
                await eventually(lambda: time.monotonic() > lease.deadline + 1)
                assert seen.commits == []
            deadline = await store.renew(lease)
            await seen.until(lambda: seen.commits, within=lease.ttl.total_seconds() + SOON)
            assert time.monotonic() >= deadline
        assert seen.changes == [{"/held": None}]


@on_shared
async def test_law_8_a_killed_writer_leaves_whole_commits_and_nothing_else(
    harness: StoreHarness, store: Store, tmp_path: Path
) -> None:
    start = await store.revision()
    promised: dict[int, list[Revision]] = {}
    async with Recorder(store, "/w/", start) as seen:
        for life in range(4):
            script = Script("writer", harness.url(), f"/w/{life}/", 100_000, output=tmp_path / f"writer{life}.out")
            with script:
                await eventually(lambda script=script, life=life: len(script.lines()) > 20 + 7 * life, within=30)
                script.kill()
            promised[life] = [Revision(int(line.split()[1])) for line in script.lines()]
        await seen.reach(await store.commit(Put("/w/last", b"")))
    for life, revisions in promised.items():
        mine = [commit for commit in seen.commits if commit.changes[0].key.startswith(f"/w/{life}/")]
        assert [commit.revision for commit in mine][: len(revisions)] == revisions
        assert len(mine) <= len(revisions) + 1, "only the commit under way may have happened unannounced"
        changes = [{change.key: change.entry.value if change.entry else None for change in c.changes} for c in mine]
        assert changes == [writer.changes(f"/w/{life}/", number) for number in range(len(mine))]
    assert seen.revisions == sorted(set(seen.revisions))


@on_shared
async def test_law_8_the_lease_of_a_killed_process_ends_after_its_ttl(
    harness: StoreHarness, store: Store, tmp_path: Path
) -> None:
    start = await store.revision()
    async with Recorder(store, "/held", start) as seen:
        with Script("holder", harness.url(), "/held", "3s", output=tmp_path / "holder.out") as holder:
            await eventually(lambda: len(holder.lines()) > 8)
            await seen.until(lambda: seen.commits)
            holder.kill()
            killed = time.monotonic()
        assert [*map(set, seen.changes)] == [{"/held"}], "the lease held while its process lived"
        await seen.until(lambda: len(seen.commits) == 2)
        ended = time.monotonic()
    assert seen.changes == [{"/held": b"held"}, {"/held": None}]
    assert float(holder.lines()[-1]) <= ended <= killed + 3.0 + SOON


# Law 9: an unreachable, frozen or half cut server gives Unavailable or Unknown within the time-out, and the store
# works again by itself when the server does.


async def break_off(proxy: FaultProxy, _: StoreHarness) -> None:
    await proxy.refuse()


async def freeze_network(proxy: FaultProxy, _: StoreHarness) -> None:
    proxy.freeze()


async def hold_requests(proxy: FaultProxy, _: StoreHarness) -> None:
    proxy.hold_requests()


async def hold_answers(proxy: FaultProxy, _: StoreHarness) -> None:
    proxy.hold_answers()


async def freeze_server(_: FaultProxy, victim: StoreHarness) -> None:
    assert victim.running is not None
    victim.running.freeze()


async def kill_server(_: FaultProxy, victim: StoreHarness) -> None:
    assert victim.running is not None
    victim.running.kill()


FAULTS = [break_off, freeze_network, hold_requests, hold_answers, freeze_server, kill_server]
Fault = Callable[[FaultProxy, StoreHarness], Awaitable[None]]


async def heal(proxy: FaultProxy, victim: StoreHarness) -> None:
    assert victim.running is not None
    await asyncio.to_thread(victim.running.recover)
    await proxy.heal()


async def told(call: Awaitable[object]) -> RotaError:
    """The error a call raises, in time; however long this process stands still, that counts as a tenth of a second."""
    asked = asyncio.ensure_future(call)
    for _ in range(round((TIMEOUT + TO_TELL) * 10)):
        if asked.done():
            break
        await asyncio.wait([asked], timeout=0.1)
    if not asked.done():
        asked.cancel()
        raise AssertionError("nothing was told in time")
    with pytest.raises((Unavailable, Unknown)) as error:
        await asked
    return error.value


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_law_9_a_fault_is_told_in_time_and_healed_by_itself(
    victim: StoreHarness, proxy: FaultProxy, fault: Fault
) -> None:
    async with open_store(victim.url(port=proxy.port, timeout=f"{TIMEOUT}s")) as store:
        stream = Stream(store, "/s/")
        start = await store.revision()
        async with Recorder(store, "/s/", start) as seen, leased(store) as lease:
            await stream.get_through()
            await fault(proxy, victim)
            reads = (store.get("/s/lost"), store.scan("/s/"), store.revision(), store.now())
            writes = (
                store.commit(Put("/s/lost", b""), expect=[Absent("/s/lost")]),
                store.renew(lease),
                store.grant(TTL),
            )
            stream.said["/s/lost"], _, _, *answers = await asyncio.gather(*map(told, (*writes, *reads)))
            await heal(proxy, victim)
            first = next(iter(stream.acknowledged))
            await eventually(lambda: store.get(first), despite=(Unavailable,))
            await eventually(lambda: store.renew(lease), despite=(Unavailable, Unknown))
            await stream.get_through()
            await seen.reach(stream.last, within=30)
    assert all(isinstance(answer, Unavailable) for answer in answers), "reading changes nothing"
    stream.check(seen.commits)


async def ask_in_vain(store: Store) -> dict[Key, RotaError]:
    """What 150 who commit at once are told, all in time."""
    keys = [f"/s/{number}" for number in range(150)]
    errors = await asyncio.gather(*(told(store.commit(Put(key, b""))) for key in keys))
    return dict(zip(keys, errors, strict=True))


async def check_what_happened(store: Store, start: Revision, said: dict[Key, RotaError]) -> None:
    """AssertionError unless the store works again, and did only what it had not denied."""
    last = await eventually(lambda: store.commit(Put("/last", b"")), despite=(Unavailable, Unknown))
    async with Recorder(store, "/", start) as seen:
        await seen.reach(last)
    happened = {key for changes in seen.changes for key in changes} - {"/last"}
    assert happened <= {key for key, error in said.items() if isinstance(error, Unknown)}


async def test_law_9_many_who_ask_at_once_are_all_told_in_time(victim: StoreHarness, proxy: FaultProxy) -> None:
    async with open_store(victim.url(port=proxy.port, timeout=f"{TIMEOUT}s")) as store:
        start = await store.commit(Put("/s/before", b""))
        proxy.freeze()
        said, *_ = await asyncio.gather(ask_in_vain(store), *(told(store.get("/s/before")) for _ in range(30)))
        await proxy.heal()
        await check_what_happened(store, start, said)


async def test_law_9_a_reset_connection_is_made_anew(victim: StoreHarness, proxy: FaultProxy) -> None:
    async with open_store(victim.url(port=proxy.port, timeout=f"{TIMEOUT}s")) as store:
        stream = Stream(store, "/s/")
        start = await store.revision()
        async with Recorder(store, "/s/", start) as seen:
            for _ in range(5):
                proxy.cut()
                await stream.get_through()
            await seen.reach(stream.last)
    stream.check(seen.commits)


async def test_law_9_a_watch_on_a_connection_gone_silent_finds_another(victim: StoreHarness, proxy: FaultProxy) -> None:
    """The trap of a firewall that forgets a connection: nobody is told, and new connections are fine."""
    async with open_store(victim.url(port=proxy.port, timeout=f"{TIMEOUT}s")) as store:
        start = await store.revision()
        async with Recorder(store, "/s/", start) as seen:
            await seen.reach(await store.commit(Put("/s/before", b"")))
            proxy.strand()
            async with open_store(victim.url()) as other:
                last = await other.commit(Put("/s/after", b""))
            await seen.reach(last, within=30)
            await eventually(lambda: store.get("/s/after"), despite=(Unavailable,))
    assert seen.changes == [{"/s/before": b""}, {"/s/after": b""}]


async def test_law_9_a_slow_network_is_only_slow(victim: StoreHarness, proxy: FaultProxy) -> None:
    async with open_store(victim.url(port=proxy.port)) as store:
        proxy.latency = 0.05
        start = await store.revision()
        async with Recorder(store, "/s/", start) as seen:
            revisions = [await store.commit(Put("/s/k", b"")) for _ in range(3)]
            await seen.reach(revisions[-1])
        assert seen.revisions == revisions


async def test_law_9_nobody_there_to_open(victim: StoreHarness) -> None:
    port = free_port()
    url = victim.url(port=port, timeout=f"{TIMEOUT}s", login="someone:secret")
    error = await told(open_store(url).__aenter__())
    assert isinstance(error, Unavailable)
    assert f"{victim.name}://someone@127.0.0.1:{port}" in str(error)
    assert "secret" not in str(error)
    assert "\n" not in str(error)


async def unlock_by_death(locker: Script) -> None:
    locker.kill()


async def unlock_by_waking(locker: Script) -> None:
    locker.thaw()
    locker.send(signal.SIGUSR1)
    await eventually(lambda: locker.has_ended_well)


@on_sqlite
@pytest.mark.parametrize("unlock", [unlock_by_death, unlock_by_waking], ids=lambda unlock: unlock.__name__)
async def test_law_9_a_frozen_process_with_the_write_lock_delays_only_writes(
    harness: SqliteHarness, tmp_path: Path, unlock: Callable[[Script], Awaitable[None]]
) -> None:
    async with open_store(harness.url(timeout=f"{TIMEOUT}s")) as store:
        start = await store.commit(Put("/s/k", b"1"))
        with Script("locker", harness.path(), output=tmp_path / "locker.out") as locker:
            async with Recorder(store, "/s/", start) as seen, leased(store) as lease:
                await eventually(locker.lines)
                locker.freeze()
                calls = (store.commit(Put("/s/k", b"2")), store.renew(lease), store.grant(TTL))
                said, *_ = [await told(call) for call in calls]
                assert await state(store) == {"/s/k": b"1"}
                await unlock(locker)
                last = await eventually(lambda: store.commit(Put("/s/k", b"3")), despite=(Unavailable, Unknown))
                await eventually(lambda: store.renew(lease), despite=(Unavailable, Unknown))
                await seen.reach(last)
        # What took longer than the second it has may happen after it; then nobody was told that it did not.
        may_happen = [b"3", b"2"] if isinstance(said, Unknown) else [b"3"]
        assert all(changed["/s/k"] in may_happen for changed in seen.changes)
        assert seen.changes[-1] == {"/s/k": b"3"}


@on_sqlite
async def test_law_9_many_who_wait_for_a_frozen_process_are_all_told_in_time(
    harness: SqliteHarness, tmp_path: Path
) -> None:
    async with open_store(harness.url(timeout=f"{TIMEOUT}s")) as store:
        start = await store.commit(Put("/s/before", b""))
        with Script("locker", harness.path(), output=tmp_path / "locker.out") as locker:
            await eventually(locker.lines)
            locker.freeze()
            said = await ask_in_vain(store)
            locker.kill()
            await check_what_happened(store, start, said)


# Law 10: all this holds between processes as between coroutines.


@on_shared
async def test_law_10_one_process_watches_what_another_commits(
    harness: StoreHarness, store: Store, tmp_path: Path
) -> None:
    start = await store.revision()
    watcher = Script("watcher", harness.url(), "/w/", start, output=tmp_path / "watcher.out")
    committer = Script("writer", harness.url(), "/w/", 200, output=tmp_path / "writer.out")
    with watcher, committer:
        await eventually(lambda: committer.has_ended_well, within=30)
        await eventually(lambda: len(watcher.lines()) >= 200, within=30)
        last = await store.commit(Put("/w/last", b"end"))
        await eventually(lambda: len(watcher.lines()) >= 201)
    promised = [Revision(int(line.split()[1])) for line in committer.lines()]
    expected = [(revision, writer.changes("/w/", number)) for number, revision in enumerate(promised)]
    seen = [json.loads(line) for line in watcher.lines()]
    assert seen == [
        *(
            [rev, {key: v.decode() if v is not None else None for key, v in changes.items()}]
            for rev, changes in expected
        ),
        [last, {"/w/last": "end"}],
    ]


@on_shared
async def test_law_10_a_conflict_knows_the_commits_of_other_processes(
    harness: StoreHarness, store: Store, tmp_path: Path
) -> None:
    mine = await store.commit(Put("/n", b"0"))
    with Script("counter", harness.url(), "/n", 3, output=tmp_path / "counter.out") as counter:
        await eventually(lambda: counter.has_ended_well, within=30)
    with pytest.raises(Conflict) as conflict:
        await store.commit(Put("/n", b"0"), expect=[At("/n", mine)])
    assert conflict.value.keys == {"/n"}
    assert await value(store, "/n") == b"3"


@on_shared
async def test_law_10_a_lease_revoked_here_is_lost_there(harness: StoreHarness, store: Store, tmp_path: Path) -> None:
    with Script("holder", harness.url(), "/held", "4s", output=tmp_path / "holder.out") as holder:
        entry = await eventually(lambda: store.get("/held"))
        await store.revoke(entry.lease)
        assert await store.get("/held") is None
        await eventually(lambda: not holder.is_running)
    assert "LeaseLost" in holder.complaint()


# What no law says in so many words.


async def test_the_clock_of_the_store_is_about_right(store: Store) -> None:
    now = await store.now()
    assert now.tzinfo is not None
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


async def test_stores_with_similar_names_are_apart(harness: StoreHarness, store: Store) -> None:
    start = await store.revision()
    async with open_store(harness.url(beside="x")) as neighbour, Recorder(store, "/", start) as seen:
        await neighbour.commit(Put("/theirs", b""))
        last = await store.commit(Put("/ours", b""))
        await seen.reach(last)
        assert await state(neighbour) == {"/theirs": b""}
    assert await state(store) == {"/ours": b""}
    assert seen.changes == [{"/ours": b""}]


async def test_a_store_opened_again_has_everything_still(harness: StoreHarness, store: Store) -> None:
    revision = await store.commit(Put("/k", b"v"))
    async with open_store(harness.url()) as again:
        assert await again.get("/k") == Entry("/k", b"v", revision, revision)
        assert await again.revision() == revision


async def test_an_unknown_option_is_invalid(harness: StoreHarness) -> None:
    with pytest.raises(Invalid, match="colour") as error:
        await open_store(harness.url(colour="blue")).__aenter__()
    assert f"{harness.shown}: " in str(error.value)
    assert "\n" not in str(error.value)


async def test_an_unknown_scheme_is_invalid() -> None:
    with pytest.raises(Invalid, match="ftp://someone@host/path") as error:
        await open_store("ftp://someone:secret@host/path").__aenter__()
    assert "secret" not in str(error.value)
    assert "sqlite://" in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        *("memory://a/b", "memory://a,b", "sqlite://", "sqlite:///no/such/folder/rota.db", "etcd://"),
        *("postgresql://", "postgresql://127.0.0.1", "postgresql://127.0.0.1/", "postgresql://a,b/rota"),
        *("mysql://", "mysql://127.0.0.1", "mysql://127.0.0.1/", "mysql://a,b/rota"),
    ],
)
async def test_what_cannot_be_a_store_is_invalid(url: str) -> None:
    with pytest.raises(Invalid, match=f"store {url}") as error:
        await open_store(url).__aenter__()
    assert "\n" not in str(error.value)


async def test_opening_a_store_leaves_other_drivers_alone() -> None:
    """A laptop needs no gRPC, and no driver of a database."""
    program = (
        "import asyncio, sys; from rota.store import open_store\n"
        "async def main():\n"
        "    async with open_store('memory://'):\n"
        "        return sorted({'grpc', 'sqlite3', 'asyncpg', 'asyncmy'} & sys.modules.keys())\n"
        "print(asyncio.run(main()))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert output == b"[]\n"
