"""What only the SQL servers have: a log of revisions, a clock that steps, locks, logins, schemas, group commit.

Tried on PostgreSQL and MariaDB. The tables are looked at, and hurt, behind the store's back.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import asyncmy.errors
import asyncpg
import pytest

import rota.store.sql.log
from rota.model.errors import Conflict, Denied, Invalid, LeaseLost, RotaError, Unavailable, Unknown
from rota.model.ids import Key, LeaseId, Revision
from rota.store import Absent, At, Commit, Delete, Entry, Put, Store, open_store
from rota.store.sql import transactions
from rota.store.sql.dialect import MYSQL
from rota.store.sql.log import LogStore
from rota.store.sql.steps import Steps
from rota.store.sql.sweep import LeaseRow
from tests.contract.stream import Stream
from tests.kit.counter import count
from tests.kit.harness import MysqlHarness, PostgresHarness, SqlHarness, SqliteHarness, params
from tests.kit.process import Script
from tests.kit.servers import GUARDED, PASSWORD, USER
from tests.kit.waiting import Recorder, eventually, renewed

on_sql = pytest.mark.parametrize("harness", params([PostgresHarness, MysqlHarness]), indirect=True)
on_postgresql = pytest.mark.parametrize("harness", params([PostgresHarness]), indirect=True)
on_all_sql = pytest.mark.parametrize("harness", params([SqliteHarness, PostgresHarness, MysqlHarness]), indirect=True)
on_mysql = pytest.mark.parametrize("harness", params([MysqlHarness]), indirect=True)
on_victims = pytest.mark.parametrize("victim", params([PostgresHarness, MysqlHarness]), indirect=True)

T = TypeVar("T")

TTL = timedelta(seconds=3)
SOON = 30.0
"""Seconds after its end in which a lease must be gone, whatever else the machine does."""

HOUR = 3_600_000

LOCK_COUNTER = "SELECT revision FROM rota_counter WHERE id = 1 FOR UPDATE"


async def logged(harness: SqlHarness) -> list[int]:
    """The revisions in the log."""
    return [revision for (revision,) in await harness.rows("SELECT DISTINCT revision FROM rota_log ORDER BY revision")]


async def assert_no_holes(harness: SqlHarness, store: Store) -> None:
    assert await logged(harness) == list(range(1, await store.revision() + 1))


def refused(results: Iterable[object], kind: type[object]) -> int:
    return sum(isinstance(result, kind) for result in results)


# The log


@on_sql
async def test_revisions_have_no_holes_under_8_writers_with_conflicts_and_rollbacks(
    harness: SqlHarness, store: Store
) -> None:
    async def stumble(writer: Store, number: int) -> list[object]:
        """Commits that end in a conflict, in a lost lease, in nothing and, now and then, well."""
        said: list[object] = []
        for turn in range(10):
            said += await asyncio.gather(
                writer.commit(Put("/stale", b""), expect=[At("/n", Revision(10**9))]),
                writer.commit(Put("/leased", b"", LeaseId("404"))),
                writer.commit(Delete("/none")),
                writer.commit(Put(f"/own/{number}", b"%d" % turn)),
                return_exceptions=True,
            )
        return said

    async with AsyncExitStack() as stack:
        writers = [await stack.enter_async_context(open_store(harness.url())) for _ in range(8)]
        counting = asyncio.gather(*(count(writer, "/n", 10) for writer in writers))
        said = [one for part in await asyncio.gather(*map(stumble, writers, range(8))) for one in part]
        await counting
    assert (refused(said, Conflict), refused(said, LeaseLost)) == (80, 80)
    assert sum(not isinstance(one, BaseException) for one in said) == 160
    assert await store.revision() == 160  # 80 increments, and 80 that ended well
    await assert_no_holes(harness, store)


@on_sql
async def test_a_watch_beside_4_writing_processes_sees_revisions_grow_and_misses_none(
    harness: SqlHarness, store: Store, tmp_path: Path
) -> None:
    writers = [Script("writer", harness.url(), f"/w/{n}/", 60, output=tmp_path / f"{n}.out") for n in range(4)]
    looks: list[tuple[Revision, int]] = []
    async with Recorder(store, "/w/", await store.revision()) as seen, AsyncExitStack() as stack:
        for writer in writers:
            stack.enter_context(writer)
        while not all(writer.has_ended_well for writer in writers):
            listing = await store.scan("/w/")
            looks.append((listing.revision, sum(entry.modified for entry in listing.entries)))
        last = Revision(4 * 60)
        await seen.reach(last)
    promised = [int(line.split()[1]) for writer in writers for line in writer.lines()]
    assert sorted(promised) == list(range(1, last + 1))
    assert seen.revisions == list(range(1, last + 1))
    assert looks == sorted(looks)
    assert len({revision for revision, _ in looks}) == len(set(looks)), "one revision, one content"


@on_sql
async def test_compaction_beside_writers_disturbs_neither_them_nor_a_watch(
    harness: SqlHarness, store: Store, other: Store
) -> None:
    async def write(number: int) -> None:
        for turn in range(60):
            await store.commit(Put(f"/w/{number}", b"%d" % turn), Put(f"/w/{number}/{turn % 3}", b""))
            await store.commit(Delete(f"/w/{number}/{turn % 3}"))

    async with Recorder(store, "/w/", await store.revision()) as seen:
        writing = asyncio.gather(*(write(number) for number in range(6)))
        while not writing.done():
            known = len(seen.commits)
            if seen.commits:
                await other.compact(seen.commits[-1].revision)
            await eventually(lambda known=known: len(seen.commits) > known or writing.done())
        await writing
        await seen.reach(await store.revision())
        await other.compact(await store.revision())
    assert seen.revisions == list(range(1, 721))
    assert {entry.value for entry in (await store.scan("/w/")).entries} == {b"59"}
    assert await harness.rows("SELECT COUNT(*) FROM rota_log") == [(6,)]


@on_all_sql
async def test_a_scan_without_a_limit_is_read_page_by_page_and_shows_one_revision(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is, each query ends within the time it has."""
    assert isinstance(store, LogStore)
    monkeypatch.setattr(rota.store.sql.log, "SCAN", 4)
    start = await store.commit(*(Put(f"/p/{number}", b"old") for number in range(10)))
    read, asked = store.driver.read, 0

    async def meddled(steps: Callable[[], Steps[T]], *, alone: bool = False) -> T:
        nonlocal asked
        asked += not alone
        found = await read(steps, alone=alone)
        if not alone and asked == 1:
            await store.commit(Put("/p/9", b"new"), Put("/p/99", b"new"), Delete("/p/5"))
        if not alone and asked == 2:
            await store.compact(await store.revision())
        return found

    monkeypatch.setattr(store.driver, "read", meddled)
    listing = await store.scan("/p/")
    assert listing.revision > start, "its history was compacted meanwhile, so it began anew"
    assert not listing.more
    assert [entry.key for entry in listing.entries] == [f"/p/{each}" for each in (0, 1, 2, 3, 4, 6, 7, 8, 9, 99)]
    assert {entry.value for entry in listing.entries[-2:]} == {b"new"}
    assert asked > 4


# Isolation


@asynccontextmanager
async def isolated(victim: SqlHarness, level: str) -> AsyncIterator[None]:
    """Inside, the server's owner wishes new transactions to be isolated so."""
    if isinstance(victim, PostgresHarness):
        change, back = (
            f"ALTER ROLE {USER} SET default_transaction_isolation = '{level}'",
            f"ALTER ROLE {USER} RESET default_transaction_isolation",
        )
    else:
        change, back = (f"SET GLOBAL TRANSACTION ISOLATION LEVEL {one}" for one in (level, "repeatable read"))
    victim.url()  # its database is there from now on
    async with victim.raw() as run:
        await run(change)
        try:
            yield
        finally:
            await run(back)


@on_victims
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
async def test_it_does_not_matter_how_the_server_isolates_by_default(victim: SqlHarness, level: str) -> None:
    async def write(store: Store) -> None:
        for _ in range(20):
            await store.commit(Put("/k", b""))

    async with isolated(victim, level), AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(victim.url())) for _ in range(4)]
        watchers = [await stack.enter_async_context(Recorder(store, "/", Revision(0))) for store in stores * 3]
        await asyncio.gather(*map(write, stores), *(count(store, "/n", 10) for store in stores))
        for seen in watchers:
            await seen.reach(Revision(120))
    for seen in watchers:
        assert seen.revisions == list(range(1, 121))
        numbers = [changes["/n"] for changes in seen.changes if "/n" in changes]
        assert numbers == [b"%d" % number for number in range(1, 41)]


# The clock


@on_sql
@pytest.mark.parametrize("step", [pytest.param(-HOUR, id="forward"), pytest.param(HOUR, id="backward")])
async def test_a_step_of_the_clock_ends_no_live_lease_and_spares_no_dead_one(
    harness: SqlHarness, store: Store, step: int
) -> None:
    """An expiry an hour too early is what a clock that was set forward leaves behind."""
    dead, live = await store.grant(TTL), await store.grant(TTL)
    start = await store.commit(Put("/dead", b"", dead.id), Put("/live", b"", live.id))
    async with Recorder(store, "/", start) as seen:
        async with renewed(store, live):
            await harness.rows(f"UPDATE rota_lease SET expires_ms = expires_ms + ({step})")
            await seen.until(lambda: seen.commits)
            assert dead.deadline <= time.monotonic() <= dead.deadline + SOON
            assert seen.changes == [{"/dead": None}]
            await harness.rows(f"UPDATE rota_lease SET expires_ms = expires_ms + ({step})")
            await eventually(lambda: time.monotonic() > live.deadline + 1)
            assert len(seen.commits) == 1
        deadline = await store.renew(live)
        await harness.rows(f"UPDATE rota_lease SET expires_ms = expires_ms + ({step})")
        await seen.until(lambda: len(seen.commits) == 2)
        assert deadline <= time.monotonic() <= deadline + SOON
    assert seen.changes == [{"/dead": None}, {"/live": None}]


AUTUMN = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in range(3)]
"""Around the hour that comes twice where the server stands: 2:30 in the morning, 2:30 again, 3:30."""

PLAIN = "plain"
"""A user with rights on its tables alone, for whom `init_connect` counts."""


@asynccontextmanager
async def time_held(harness: MysqlHarness, at: datetime) -> AsyncIterator[str]:
    """Inside, MariaDB's clock stands still at an instant for the user whose login comes back."""
    harness.url()  # its database is there from now on
    async with harness.raw() as run:
        await run(f"CREATE USER IF NOT EXISTS '{PLAIN}'@'%' IDENTIFIED BY '{PASSWORD}'")
        await run(f"GRANT ALL ON `{harness.space}`.* TO '{PLAIN}'@'%'")
        await run(f"SET GLOBAL init_connect = 'SET timestamp = {at.timestamp()}'")
        try:
            yield f"{PLAIN}:{PASSWORD}"
        finally:
            await run("SET GLOBAL init_connect = ''")


@on_mysql
@pytest.mark.parametrize("at", AUTUMN, ids=str)
async def test_the_clock_is_right_in_the_hour_that_comes_twice(harness: MysqlHarness, at: datetime) -> None:
    async with time_held(harness, at) as login, open_store(harness.url(login=login)) as store:
        assert await harness.rows("SELECT @@system_time_zone") in ([("CET",)], [("CEST",)])
        assert await store.now() == at


@on_mysql
async def test_looking_for_news_makes_no_temporary_table(harness: MysqlHarness, store: Store) -> None:
    """Values are blobs, so it would be one on disk."""
    await store.commit(Put("/k", b"v"))
    plan = await harness.rows("EXPLAIN " + MYSQL.queries["tail"] % (0, "'/'", "'0'", 1000))
    words = " ".join(str(word) for row in plan for word in row).lower()
    assert "rota_log" in words
    assert "temporary" not in words
    assert "derived" not in words


@on_sql
async def test_the_clock_does_not_depend_on_the_zone_of_the_server(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert before <= await store.now() <= datetime.now(UTC) + timedelta(seconds=1)


# Locks


@on_sql
async def test_a_held_lock_delays_only_writes_and_leaves_nothing_behind(harness: SqlHarness) -> None:
    async with open_store(harness.url(timeout="1s")) as store, harness.raw() as run:
        lease = await store.grant(timedelta(minutes=1))
        start = await store.commit(Put("/k", b"1"))
        await run("BEGIN")
        await run(LOCK_COUNTER)
        async with Recorder(store, "/", start) as seen:
            for _ in range(3):
                begun = time.monotonic()
                calls = (*(store.commit(Put("/k", b"2")) for _ in range(4)), store.revoke(LeaseId("404")))
                results = await asyncio.gather(*calls, return_exceptions=True)
                assert refused(results, Unavailable) + refused(results, Unknown) == len(results), results
                assert time.monotonic() - begun <= 30, "the time-out, not the server's own, which is 50 s"
            assert await store.get("/k") == Entry("/k", b"1", start, start)
            await store.renew(lease)
            await eventually(lambda: nobody_waits(harness), within=30)
            await run("ROLLBACK")
            last = await eventually(lambda: store.commit(Put("/k", b"3")), despite=(Unavailable, Unknown))
            await seen.reach(last)
        # A try that took longer than the second it has may have happened, and then it happened twice.
        assert seen.changes == [{"/k": b"3"}] * len(seen.changes)
        assert seen.revisions == list(range(start + 1, last + 1))


@on_sql
async def test_law_4_a_lease_whose_renewal_was_answered_is_not_ended_by_an_earlier_look(
    harness: SqlHarness, store: Store
) -> None:
    """The renewal is under way, and not yet to be seen, when another process begins to end the lease."""
    assert isinstance(store, LogStore)
    lease = await store.grant(timedelta(minutes=1))
    await store.commit(Put("/k", b"", lease.id))
    await harness.rows(f"UPDATE rota_lease SET expires_ms = expires_ms - {HOUR}")
    async with harness.raw() as run:
        await run("BEGIN")
        await run(f"UPDATE rota_lease SET renewals = renewals + 1, expires_ms = expires_ms + {HOUR}")
        seen = LeaseRow(lease.id, renewals=0, ttl=60.0, is_overdue=True)
        steps = partial(transactions.expire, seen, store.driver.keys_parameter)
        ending = asyncio.create_task(store.driver.write(steps))
        await eventually(lambda: somebody_waits(harness), within=30)
        await run("COMMIT")
        assert await asyncio.gather(ending, return_exceptions=True) == [None]
    assert await store.get("/k") is not None
    await store.renew(lease)


async def somebody_waits(harness: SqlHarness) -> bool:
    return not await nobody_waits(harness)


async def nobody_waits(harness: SqlHarness) -> bool:
    """Whether no connection waits for a lock on the server any more."""
    waiting = {
        "postgresql": "pg_stat_activity WHERE wait_event_type = 'Lock'",
        # Not by innodb_trx, which shows the same for as long as it is asked more often than each tenth of a second.
        "mysql": "information_schema.global_status "
        "WHERE variable_name = 'Innodb_row_lock_current_waits' AND variable_value > 0",
    }
    return await harness.rows(f"SELECT COUNT(*) FROM {waiting[harness.name]}") == [(0,)]


@on_sql
async def test_a_writer_frozen_in_the_middle_of_a_commit_does_not_stop_the_others_for_ever(
    harness: SqlHarness, tmp_path: Path
) -> None:
    """A frozen leader would otherwise keep the others from electing a new one."""
    async with open_store(harness.url(timeout="1s")) as store:
        with Script("writer", harness.url(timeout="1s"), "/w/", 100_000, output=tmp_path / "writer.out") as writer:
            await eventually(writer.lines)
            while True:
                writer.freeze()
                if not await is_lock_free(harness):
                    break
                writer.thaw()
                written = len(writer.lines())
                await eventually(lambda written=written: len(writer.lines()) > written)
            unsure = 0
            while True:  # the lock may come free in the moment of the time-out: Unknown is then the true answer
                try:
                    await eventually(lambda: store.commit(Put("/k", b"")), despite=(Unavailable,), within=60)
                    break
                except Unknown:
                    unsure += 1
            promised = [int(line.split()[1]) for line in writer.lines()]
            assert await logged(harness) == list(range(1, await store.revision() + 1))
            assert await store.revision() <= len(promised) + 2 + unsure
            writer.kill()


async def is_lock_free(harness: SqlHarness) -> bool:
    async with harness.raw() as run:
        await run("BEGIN")
        with suppress(asyncpg.LockNotAvailableError, asyncmy.errors.OperationalError):
            await run(f"{LOCK_COUNTER} NOWAIT")
            return True
    return False


@on_sql
async def test_connections_the_server_closed_while_idle_are_not_noticed(harness: SqlHarness) -> None:
    """Servers do so with what nobody used for hours."""
    async with open_store(harness.url()) as store, harness.raw() as run:
        await asyncio.gather(*(store.scan("/") for _ in range(20)))  # many connections
        number, sessions, end = {
            "postgresql": (
                *("pid", "pg_stat_activity WHERE application_name LIKE 'rota %'"),
                "SELECT pg_terminate_backend({})",
            ),
            "mysql": (
                *("id", f"information_schema.processlist WHERE db = '{harness.space}' AND id <> CONNECTION_ID()"),
                "KILL {}",
            ),
        }[harness.name]
        ended = await run(f"SELECT {number} FROM {sessions}")
        for (session,) in ended:
            with suppress(asyncmy.errors.OperationalError):  # it is gone already
                await run(end.format(session))

        async def are_gone() -> bool:
            return not set(ended) & set(await run(f"SELECT {number} FROM {sessions}"))

        await eventually(are_gone)
        for turn in range(6):
            await asyncio.gather(store.get("/k"), store.scan("/"), store.commit(Put("/k", b"%d" % turn)))


# Logins, databases, schemas


async def opening(url: str) -> RotaError:
    """The error that opening a store raises, on one line."""
    with pytest.raises(RotaError) as error:
        async with open_store(url):
            pass
    assert "\n" not in str(error.value)
    return error.value


@on_sql
async def test_only_the_right_password_opens(
    harness: SqlHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = GUARDED if isinstance(harness, PostgresHarness) else USER
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    async with open_store(harness.url(login=f"{user}:{PASSWORD}")) as store:
        await store.commit(Put("/k", b""))
    async with open_store(harness.url(login=user, password_file=str(secret))) as store:
        assert await store.get("/k")
    for login in (f"{user}:battery-staple", f"nobody-{user}:battery-staple", user):
        error = await opening(harness.url(login=login))
        assert isinstance(error, Denied), error
        assert "battery-staple" not in str(error)
        assert f"{harness.name}://{login.split(':')[0]}@127.0.0.1" in str(error)
    monkeypatch.setenv("ROTA_STORE_PASSWORD", PASSWORD)
    async with open_store(harness.url(login=user)) as store:
        assert await store.get("/k")


@on_postgresql
async def test_a_user_without_rights_is_denied(harness: PostgresHarness) -> None:
    user = f"u{harness.space}"
    await harness.rows(f"CREATE ROLE {user} LOGIN")
    assert isinstance(await opening(harness.url(login=user)), Denied)
    async with open_store(harness.url()) as store:
        await store.commit(Put("/k", b""))
    assert isinstance(await opening(harness.url(login=user)), Denied)


@on_sql
async def test_a_missing_database_is_named_and_not_made(harness: SqlHarness) -> None:
    space = f"no{harness.space}"
    url = harness.url().replace("/postgres?", f"/{space}?").replace(f"/{harness.space}", f"/{space}")
    for _ in range(2):
        error = await opening(url)
        assert isinstance(error, Invalid | Denied)
        assert space in str(error)


@on_sql
async def test_a_store_nobody_used_is_not_made_by_asking_about_it(harness: SqlHarness) -> None:
    with pytest.raises(Invalid, match="no fleet has used it yet"):
        await open_store(harness.url(), create=False).__aenter__()
    assert await tables(harness) == set()


async def tables(harness: SqlHarness) -> set[str]:
    found = await harness.rows(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{harness.space}'"
    )
    return {name for (name,) in found}


@on_sql
async def test_a_schema_newer_than_the_code_is_left_alone(harness: SqlHarness) -> None:
    async with open_store(harness.url()) as store:
        revision = await store.commit(Put("/k", b""))
    await harness.rows("INSERT INTO rota_schema (version) VALUES (99)")
    before = await tables(harness)
    error = await opening(harness.url())
    assert isinstance(error, Invalid)
    assert f"{harness.shown} has schema 99" in str(error)
    assert "upgrade Rota on this machine" in str(error)
    assert await tables(harness) == before
    assert await logged(harness) == [revision]
    assert (99,) in await harness.rows("SELECT version FROM rota_schema")


@on_sql
async def test_many_may_open_a_new_store_at_once(harness: SqlHarness) -> None:
    for space in ("a", "b", "c"):
        url = harness.url(beside=space)
        async with AsyncExitStack() as stack:
            stores = await asyncio.gather(*(stack.enter_async_context(open_store(url)) for _ in range(8)))
            await asyncio.gather(*(count(store, "/n", 1) for store in stores))
            entry = await stores[0].get("/n")
            assert entry is not None
            assert entry.value == b"8"


@on_sql
async def test_processes_may_open_a_new_store_at_once(harness: SqlHarness, tmp_path: Path) -> None:
    counters = [Script("counter", harness.url(), "/n", 5, output=tmp_path / f"{n}.out") for n in range(3)]
    async with AsyncExitStack() as stack:
        for counter in counters:
            stack.enter_context(counter)
        await eventually(lambda: all(counter.has_ended_well for counter in counters), within=30)
    async with open_store(harness.url()) as store:
        entry = await store.get("/n")
        assert entry is not None
        assert entry.value == b"15"


# Group commit


@on_sql
async def test_of_200_commits_at_once_exactly_the_stale_conflict(
    harness: SqlHarness, store: Store, other: Store
) -> None:
    start = await store.commit(Put("/a", b"1"), Put("/b", b"1"))
    now = await store.commit(Put("/b", b"2"))
    wanted = {
        **{f"/fresh/{n}": [At("/a", start), At("/b", now), Absent(f"/fresh/{n}")] for n in range(100)},
        **{f"/stale/{n}": [At("/b", start)] for n in range(40)},
        **{f"/race/{n}": [Absent("/prize")] for n in range(40)},
        **{f"/there/{n}": [Absent("/a"), Absent("/none")] for n in range(20)},
    }
    keys = list(wanted)
    Random(7).shuffle(keys)
    async with Recorder(store, "/", now) as here, Recorder(other, "/", now) as there:
        commits = (
            store.commit(Put(key, key.encode()), *([Put("/prize", b"")] if "race" in key else []), expect=wanted[key])
            for key in keys
        )
        said = dict(zip(keys, await asyncio.gather(*commits, return_exceptions=True), strict=True))
        winners = {key: answer for key, answer in said.items() if not isinstance(answer, BaseException)}
        for seen in (here, there):
            await seen.reach(max(winners.values()))
    assert [sum(key.startswith(kind) for key in winners) for kind in ("/fresh/", "/race/")] == [100, 1]
    assert len(winners) == 101
    for key in said.keys() - winners.keys():
        conflict = said[key]
        assert isinstance(conflict, Conflict)
        assert conflict.keys == {{"/stale": "/b", "/race/": "/prize", "/there": "/a"}[key[:6]]}
    assert sorted(winners.values()) == list(range(now + 1, now + 102))
    for seen in (here, there):
        assert {commit.changes[-1].key: commit.revision for commit in seen.commits} == winners
        assert [len(commit.changes) for commit in seen.commits] == [
            2 if commit.changes[0].key == "/prize" else 1 for commit in seen.commits
        ]
        assert seen.revisions == sorted(winners.values())
    await assert_no_holes(harness, store)


@on_sql
async def test_commits_that_share_keys_and_a_group_read_as_if_each_were_alone(store: Store, other: Store) -> None:
    random = Random(11)
    lease = await store.grant(timedelta(minutes=1))
    lost = await store.grant(timedelta(minutes=1))
    await store.revoke(lost.id)

    async def commit(number: int) -> Revision | RotaError:
        key, another = random.sample([f"/k/{n}" for n in range(6)], 2)
        owner = random.choice([None, None, lease.id, lost.id])
        writes = [Put(key, b"%d" % number, owner) if random.random() < 0.6 else Delete(key), Delete(another)]
        expect = [Absent(key)] if random.random() < 0.3 else []
        try:
            return await store.commit(*writes, expect=expect)
        except (Conflict, LeaseLost) as error:
            return error

    start = await store.revision()
    async with Recorder(other, "/k/", start) as seen:
        said = await asyncio.gather(*(commit(number) for number in range(200)))
        await seen.reach(await store.revision())
    view = folded(seen.commits)
    assert tuple(sorted(view.values(), key=lambda entry: entry.key)) == (await store.scan("/k/")).entries
    assert seen.revisions == list(range(start + 1, start + 1 + len(seen.commits)))
    assert {answer for answer in said if not isinstance(answer, RotaError)} >= set(seen.revisions)
    assert refused(said, Conflict)
    assert refused(said, LeaseLost)
    await store.revoke(lease.id)
    assert [entry for entry in (await store.scan("/k/")).entries if entry.lease] == []


def folded(commits: Iterable[Commit]) -> dict[Key, Entry]:
    """What is there after commits on nothing."""
    view: dict[Key, Entry] = {}
    for commit in commits:
        for change in commit.changes:
            if change.entry is None:
                created = view.pop(change.key, None)
                assert created is not None, "only what was there can go"
            else:
                before = view.get(change.key)
                assert change.entry.created == (before.created if before else commit.revision)
                view[change.key] = change.entry
    return view


@on_sql
async def test_large_commits_at_once_all_pass(store: Store) -> None:
    value = bytes(range(256)) * 4096
    revisions = await asyncio.gather(*(store.commit(Put(f"/m/{n}", value)) for n in range(12)))
    assert sorted(revisions) == list(range(1, 13))
    assert all(entry.value == value for entry in (await store.scan("/m/")).entries)


@on_sql
async def test_a_caller_that_gives_up_breaks_nothing_for_the_others(
    harness: SqlHarness, store: Store, other: Store
) -> None:
    """Each round one of eight commits is given up, in its place half as late again as the time before, until it is
    through; then from early on again. So the points lie on all of its way, whatever the machine makes of a second."""
    patience = dict.fromkeys(range(4), 0.0001)  # the first sends its commit itself, the others go as a group
    given_up, came_through = 0, set[int]()
    for round_ in range(400):
        quitter = round_ % 4
        results = await asyncio.gather(
            *(
                asyncio.wait_for(
                    store.commit(Put(f"/{round_}/{n}/a", b""), Put(f"/{round_}/{n}/b", b"")),
                    patience[n] if n == quitter else None,
                )
                for n in range(8)
            ),
            return_exceptions=True,
        )
        for number, result in enumerate(results):
            allowed = TimeoutError if number == quitter else ()
            assert isinstance(result, allowed) or not isinstance(result, BaseException), result
        has_given_up = isinstance(results[quitter], TimeoutError)
        given_up += has_given_up
        came_through |= set() if has_given_up else {quitter}
        patience[quitter] *= 1.5 if has_given_up else 0.1
        keys = [entry.key for entry in (await other.scan(f"/{round_}/")).entries]
        assert [key[:-2] for key in keys[::2]] == [key[:-2] for key in keys[1::2]], "each is whole, or not there"
        assert {f"/{round_}/{n}" for n in range(8) if n != quitter or not has_given_up} <= {key[:-2] for key in keys}
        if given_up > 20 and len(came_through) == 4:
            break
    else:
        pytest.fail(f"{given_up} gave up, and in the places {came_through} they came through")
    await asyncio.gather(*(store.commit(Put(f"/after/{n}", b"")) for n in range(20)))
    await other.commit(Put("/after/all", b""))
    await eventually(lambda: no_holes(harness, store))


async def no_holes(harness: SqlHarness, store: Store) -> bool:
    return await logged(harness) == list(range(1, await store.revision() + 1))


@on_victims
async def test_a_server_killed_amid_32_commits_keeps_what_it_promised_and_nothing_it_denied(
    victim: SqlHarness,
) -> None:
    server = victim.running
    assert server is not None
    async with open_store(victim.url(timeout="2s")) as store:
        start = await store.commit(Put("/there", b""))
        streams, stop = [Stream(store, f"/s/{number:02}/") for number in range(32)], asyncio.Event()
        stale: list[object] = []

        async def be_stale() -> None:
            while not stop.is_set():
                stale.extend(
                    await asyncio.gather(
                        store.commit(Put("/s/stale", b""), expect=[Absent("/there")]), return_exceptions=True
                    )
                )
                await asyncio.sleep(0.01)

        async with Recorder(store, "/s/", start) as seen:
            async with asyncio.TaskGroup() as tasks:
                for stream in streams:
                    tasks.create_task(stream.run(stop))
                tasks.create_task(be_stale())
                for _ in range(3):
                    await asyncio.gather(*(stream.grown(3) for stream in streams))
                    server.kill()
                    await asyncio.to_thread(server.start)
                await asyncio.gather(*(stream.grown(3) for stream in streams))
                stop.set()
            await seen.reach(max(stream.last for stream in streams), within=30)
        for stream in streams:
            stream.check([c for c in seen.commits if c.changes[0].key.startswith(stream.prefix)])
        there = {entry.key: entry.modified for entry in (await store.scan("/s/")).entries}
    assert there == {commit.changes[0].key: commit.revision for commit in seen.commits}
    assert {type(answer) for answer in stale} <= {Conflict, Unavailable, Unknown}
    assert seen.revisions == list(range(start + 1, start + 1 + len(seen.commits)))
    assert any(isinstance(said, RotaError) for stream in streams for said in stream.said.values())


@on_victims
async def test_closing_tells_those_who_still_wait(victim: SqlHarness) -> None:
    server = victim.running
    assert server is not None
    async with open_store(victim.url(timeout="2s")) as store:
        early = [asyncio.create_task(store.commit(Put(f"/{number}", b""))) for number in range(5)]
        await asyncio.wait(early, return_when=asyncio.FIRST_COMPLETED)  # the others are on their way now, together
        server.freeze()
        late = [asyncio.create_task(store.commit(Put(f"/late/{number}", b""))) for number in range(2)]
        late += [asyncio.create_task(store.get("/0"))]
        await asyncio.sleep(0)  # all have asked now
        closing = time.monotonic()
    assert time.monotonic() < closing + 30
    begun = await asyncio.wait_for(asyncio.gather(*early, return_exceptions=True), 30)
    assert refused(begun, Unavailable) + refused(begun, Unknown) + refused(begun, int) == 5, begun
    results = await asyncio.wait_for(asyncio.gather(*late, return_exceptions=True), 30)
    assert refused(results, Unavailable) + refused(results, Unknown) == 3, results
    assert isinstance(results[-1], Unavailable)
    with pytest.raises(Unavailable, match="closed; open it again"):
        await store.get("/k")
