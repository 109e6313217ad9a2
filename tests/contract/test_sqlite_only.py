"""What only the store on SQLite can get wrong."""

import asyncio
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Revision
from rota.store import At, Delete, Put, Store, open_store
from rota.store.sql.log import LogStore
from rota.store.sql.steps import Steps
from rota.store.sql.transactions import CommitPage
from tests.kit.waiting import Recorder, eventually

T = TypeVar("T")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Inside, this process can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open("/dev/null", os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def modes(path: Path) -> dict[str, int]:
    """The rights on the files of a store."""
    return {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir() if each.is_file()}


async def test_a_new_store_is_its_owners_alone_with_all_that_sqlite_keeps_beside_it(path: Path) -> None:
    umask = os.umask(0o022)
    try:
        async with open_store(f"sqlite:///{path}") as store:
            await store.commit(Put("/k", b"secret"))
            assert modes(path) == {"rota.db": 0o600, "rota.db-wal": 0o600, "rota.db-shm": 0o600}
    finally:
        os.umask(umask)


async def test_a_store_that_others_could_read_is_narrowed_and_the_log_says_so(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(f"sqlite:///{path}") as older:
        await older.commit(Put("/k", b"secret"))
        for each in path.parent.glob("rota.db*"):
            if each.is_file():
                each.chmod(0o664)  # as an older Rota left them
        async with open_store(f"sqlite:///{path}") as store:
            assert set(modes(path).values()) == {0o660}, "its group keeps what it was given"
            assert [record.message for record in caplog.records] == [
                "others could read the store, and cannot any more"
            ] * 3
            await store.commit(Put("/k", b"more"))
            assert await older.get("/k") == await store.get("/k")


async def test_a_key_deleted_and_made_anew_in_one_group_is_a_new_key(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        first = await store.commit(Put("/k", b"old"))
        busy = asyncio.create_task(store.commit(Put("/first", b"")))  # while this is under way, the others gather
        await asyncio.sleep(0)
        _, second = await asyncio.gather(store.commit(Delete("/k")), store.commit(Put("/k", b"new")))
        await busy
        entry = await store.get("/k")
        assert entry is not None
        assert (entry.created, entry.modified) == (second, second)
        assert (await store.scan("/k")).entries == (entry,)
        async with Recorder(store, "/k", first) as seen:
            await seen.reach(second)
            assert seen.commits[-1].changes[0].entry == entry
        await store.commit(Put("/fenced", b""), expect=[At("/k", entry.created)])


@pytest.mark.parametrize("watches", [1, 4])  # each for itself; one reading for all
async def test_a_watch_that_was_told_less_than_there_is_hears_the_rest(path: Path, watches: int) -> None:
    async with open_store(f"sqlite:///{path}") as store, open_store(f"sqlite:///{path}") as other:
        assert isinstance(store, LogStore)
        read, late = store.driver.read, 4 * watches

        async def behind(steps: Callable[[], Steps[object]], *, alone: bool = False) -> object:
            """Reads from a server that is behind the one that was written to, for a while."""
            nonlocal late
            found = await read(steps, alone=alone)
            if isinstance(found, CommitPage) and found.commits and late:
                late -= 1
                return CommitPage([], Revision(found.commits[0].revision - 1), is_last=True)
            return found

        async with AsyncExitStack() as stack:
            seen = [await stack.enter_async_context(Recorder(store, "/k", Revision(0))) for _ in range(watches)]
            first = await other.commit(Put("/k", b"1"))
            for each in seen:
                await each.reach(first)
            store.driver.read, store.driver.poll = behind, 0.02  # type: ignore[method-assign, assignment]
            second = await other.commit(Put("/k", b"2"))
            for each in seen:
                await each.reach(second)
                assert each.revisions == [first, second]


async def test_running_out_of_descriptors_breaks_nothing_for_long(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store, open_store(f"sqlite:///{path}?timeout=1s") as other:
        with no_descriptor_left():
            with suppress(Unavailable, Unknown):
                await store.commit(Put("/k", b"1"))
        await eventually(lambda: store.commit(Put("/k", b"2")), despite=(Unavailable,))
        await other.commit(Put("/k", b"3"))


@pytest.mark.parametrize("after", ["x", "/a//b", "/\udc80"])
async def test_a_bad_place_to_go_on_from_is_invalid_and_hurts_nobody(path: Path, after: str) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        with pytest.raises(Invalid):
            await store.scan("/", after=after)
        assert (await store.scan("/")).entries == ()


async def test_a_file_that_was_removed_is_not_written_any_more(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        await store.commit(Put("/k", b"1"))
        for file in path.parent.glob("rota.db*"):
            if file.is_file():
                file.unlink()
        async with open_store(f"sqlite:///{path}") as other:
            await other.commit(Put("/k", b"2"))
            with pytest.raises(Invalid, match="was removed or replaced; restart this node"):
                await store.commit(Put("/k", b"3"))


async def test_commits_under_way_are_told_when_the_store_closes(path: Path) -> None:
    async def commit(store: Store, number: int) -> str:
        try:
            await store.commit(Put(f"/k/{number}", b""))
        except RotaError as error:
            return type(error).__name__
        return "committed"

    async with open_store(f"sqlite:///{path}") as store:
        calls = [asyncio.create_task(commit(store, number)) for number in range(200)]
        await asyncio.sleep(0)
    told = await asyncio.wait_for(asyncio.gather(*calls), 60)
    assert set(told) <= {"committed", "Unavailable", "Unknown"}
    async with open_store(f"sqlite:///{path}") as again:
        there = {entry.key for entry in (await again.scan("/k/")).entries}
    for number, outcome in enumerate(told):
        if outcome != "Unknown":
            assert (f"/k/{number}" in there) == (outcome == "committed")


async def test_without_nudges_the_poll_finds_what_others_committed(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store, open_store(f"sqlite:///{path}") as other:
        async with Recorder(store, "/", await store.revision()) as seen:
            await asyncio.sleep(0)
            for nudge in Path(f"{path}.nudge").iterdir():
                nudge.unlink()
            await seen.reach(await other.commit(Put("/k", b"")), within=30)


async def test_the_deadline_of_a_renewal_is_counted_from_before_it(path: Path) -> None:
    async with open_store(f"sqlite:///{path}?timeout=5s") as store:
        lease = await store.grant(timedelta(seconds=10))
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        renewal = asyncio.create_task(store.renew(lease))
        await asyncio.wait([renewal], timeout=1)
        blocker.execute("ROLLBACK")
        blocker.close()
        late = await renewal
        prompt = await store.renew(lease)
        assert prompt - late >= 0.9


async def test_a_lease_that_was_renewed_after_it_was_seen_does_not_end(path: Path) -> None:
    """The database checks the counter once more; nothing rests on how fresh the observation is."""
    from rota.model.ids import LeaseId
    from rota.store.sql import transactions
    from rota.store.sql.sweep import LeaseRow

    async with open_store(f"sqlite:///{path}") as store:
        lease = await store.grant(timedelta(seconds=60))
        await store.commit(Put("/k", b"", lease.id))
        await store.renew(lease)
        raw = sqlite3.connect(path)
        with raw:
            raw.execute("UPDATE rota_lease SET expires_ms = 0")
        raw.close()
        driver = store._driver  # type: ignore[attr-defined]
        stale, true = LeaseRow(LeaseId(lease.id), 0, 60.0, True), LeaseRow(LeaseId(lease.id), 1, 60.0, True)
        assert await driver.write(lambda: transactions.expire(stale, driver.keys_parameter)) is None
        assert await store.get("/k") is not None
        assert await driver.write(lambda: transactions.expire(true, driver.keys_parameter)) is not None
        assert await store.get("/k") is None


async def test_compaction_forgets_what_was_replaced_and_nothing_reappears(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        for number in range(5):
            await store.commit(Put("/kept", str(number).encode()), Put("/gone", b""))
        last = await store.commit(Delete("/gone"))
        newest = await store.commit(Put("/other", b""))
        await store.compact(newest)
        raw = sqlite3.connect(path)
        rows = raw.execute("SELECT revision, key FROM rota_log ORDER BY revision").fetchall()
        raw.close()
        assert rows == [(last - 1, "/kept"), (newest, "/other")]
        await store.commit(Put("/more", b""))
        assert [entry.key for entry in (await store.scan("/", at=newest)).entries] == ["/kept", "/other"]


async def test_compaction_costs_as_much_as_there_is_in_the_log_whatever_was_ever_committed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        assert isinstance(store, LogStore)
        await store.commit(Put("/k", b"old"), Put("/kept", b""), Put("/gone", b""))
        raw = sqlite3.connect(path)
        with raw:
            raw.execute("UPDATE rota_counter SET revision = 100000, compacted = 50000")
        for number in range(3):
            await store.commit(Put("/k", b"%d" % number))
        last = await store.commit(Delete("/gone"))
        reads, read = [], store.driver.read

        async def counted(steps: Callable[[], Steps[T]], *, alone: bool = False) -> T:
            reads.append(steps)
            return await read(steps, alone=alone)

        monkeypatch.setattr(store.driver, "read", counted)
        await store.compact(last)
        left = sorted(key for (key,) in raw.execute("SELECT key FROM rota_log"))
        raw.close()
    assert left == ["/k", "/kept"]
    assert len(reads) < 20


async def test_odd_paths(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40) / "ünï cödé"
    folder.mkdir(parents=True)
    url = f"sqlite:///{folder}/a%23b%3Fc%25d.db"
    async with open_store(url) as store, open_store(url) as other:
        async with Recorder(store, "/", await store.revision()) as seen:
            await seen.reach(await other.commit(Put("/k", b"")))
    assert (folder / "a#b?c%d.db").exists()


async def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(Invalid, match=r"write sqlite:///file\.db"):
        async with open_store("sqlite:///:memory:"):
            pass
