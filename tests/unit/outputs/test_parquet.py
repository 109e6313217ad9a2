"""What only Parquet has: files, folders by time, schemas, and a hand-off that may be cut short."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rota.model.errors import Denied, Invalid, NotFound, Unknown
from rota.outputs import parquet, rowfiles
from rota.outputs.open import open_committer, open_output, preload
from rota.outputs.parquet import ParquetCommitter, ParquetDraft
from rota.outputs.port import PublishedLost, Spoiled, Swept
from rota.outputs.verdict import Turn
from rota.store import Store, open_store
from rota.streams.core.manifest import Segment
from tests.kit.committers import move
from tests.kit.pages import blocks
from tests.kit.process import ROOT
from tests.kit.rows import STREAM, ranges, rows


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "clicks"


@pytest.fixture
async def committer(store: Store, root: Path) -> AsyncIterator[ParquetCommitter]:
    async with open_committer(f"parquet://{root}", STREAM, store) as committer:
        assert isinstance(committer, ParquetCommitter)
        await committer.begin({0: 0})
        yield committer


def published(root: Path) -> list[Path]:
    """What somebody finds who looks for Parquet files."""
    return sorted(root.rglob("*.parquet"))


async def published_by(url: str, store: Store, *batches: Any) -> None:
    """Publish these rows as one range."""
    async with open_committer(url, STREAM, store) as committer:
        at = (await committer.begin({0: 0}))[0]
        draft = committer.draft("t", {0: at})
        for batch in batches:
            draft.append(batch)
        verdict = await committer.publish(draft, ranges((0, at, at + 10)))
        assert verdict.turn is Turn.PUBLISHED


# Readers


async def test_the_output_opens_with_pyarrow_duckdb_and_pandas(store: Store, root: Path) -> None:
    at = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
    await published_by(f"parquet://{root}?by=day&time=at", store, [{"number": n, "at": at} for n in range(5)])
    dataset = ds.dataset(root, partitioning="hive")
    assert dataset.to_table().column("number").to_pylist() == [0, 1, 2, 3, 4]
    assert duckdb.sql(f"SELECT sum(number) FROM '{root}/**/*.parquet'").fetchall() == [(10,)]
    frame = pandas.read_parquet(root)
    assert list(frame["number"]) == [0, 1, 2, 3, 4]
    assert {str(day) for day in frame["day"]} == {"2026-11-16"}


async def test_the_documented_readers_see_every_row_though_types_and_fields_change(store: Store, root: Path) -> None:
    url = f"parquet://{root}?by=day&time=at"
    for row in ({"n": 1, "x": 1, "at": 0}, {"n": 2, "x": 0.5, "at": 0}, {"n": 3, "new": "field", "at": 90_000}):
        await published_by(url, store, [row])
    (page,) = [block for block in blocks(ROOT / "docs/explanation/committers.md") if "read_parquet" in block.text]
    found: dict[str, Any] = {}
    exec(page.text.replace("/data/clicks", str(root)), found)
    wanted = [(1, 1.0, None), (2, 0.5, None), (3, None, "field")]
    assert sorted(found["table"].select("n, x, new").fetchall()) == wanted
    assert sorted((row["n"], row["x"], row["new"]) for row in found["columns"].to_pylist()) == wanted
    assert sorted(found["frame"]["n"]) == [1, 2, 3]
    assert set(found["frame"]["day"]) == {"1970-01-01", "1970-01-02"}


async def test_a_folder_that_is_not_on_this_machine_is_told_and_not_made(store: Store, root: Path) -> None:
    with pytest.raises(NotFound, match="look from one that has it"):
        async with open_output(f"parquet://{root}", STREAM, store):
            pass
    assert not root.exists()


async def test_no_more_rows_are_read_than_are_asked_for(store: Store, root: Path) -> None:
    for _ in range(3):
        await published_by(f"parquet://{root}", store, rows(0, 0, 10))
    async with open_output(f"parquet://{root}", STREAM, store) as output:
        for most, count in ((0, 0), (7, 7), (20, 20), (None, 30)):
            assert len([row async for piece in output.rows(most) for row in piece]) == count


async def test_rows_are_sorted_into_folders_by_time(store: Store, root: Path) -> None:
    late, early = "2026-11-16T23:59:59+00:00", "2026-11-17T00:30:00+01:00"
    await published_by(
        f"parquet://{root}?by=hour&time=ts",
        store,
        [{"n": 1, "ts": late}, {"n": 2, "ts": early}, {"n": 3, "ts": "2026-11-17T00:00:00Z"}],
        [{"n": 4, "ts": 1_795_000_000}, {"n": 5, "ts": 1_795_000_000_123}],
    )
    folders = {path.parent.name: pq.read_table(path).column("n").to_pylist() for path in published(root)}
    assert folders == {"hour=2026-11-16T23": [1, 2], "hour=2026-11-17T00": [3], "hour=2026-11-18T11": [4, 5]}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"n": 1}, 'no field "ts"'),
        ({"n": 1, "ts": "yesterday"}, "write a time like"),
        ({"n": 1, "ts": None, "x": 1}, "is empty in a row"),
        ({"n": 1, "ts": True}, "it must be a time"),
        ({"n": 1, "ts": 1e30}, "no time since 1970"),
        ({"n": 1, "ts": "0001-01-01T00:00:00+10:00"}, "no time in UTC"),
    ],
)
async def test_a_row_without_a_time_is_refused(store: Store, root: Path, row: dict[str, Any], why: str) -> None:
    async with open_committer(f"parquet://{root}?by=day&time=ts", STREAM, store) as committer:
        draft = committer.draft("t", {0: 0})
        with pytest.raises(Invalid, match=why):
            draft.append([row])
        assert draft.rows == 0


# Schemas


async def test_fields_that_change_make_another_file_and_readers_see_all(store: Store, root: Path) -> None:
    batches = [
        [{"n": 1, "name": None}],
        [{"n": 2, "name": "two"}],
        [{"n": 3}, {"n": 4, "name": "four", "extra": [1, 2]}],
        [{"n": 5.5}],
    ]
    await published_by(f"parquet://{root}", store, *batches)
    query = f"SELECT n, name FROM read_parquet('{root}/**/*.parquet', union_by_name=true) ORDER BY n"
    assert duckdb.sql(query).fetchall() == [(1, None), (2, "two"), (3, None), (4, "four"), (5.5, None)]


async def test_rows_of_several_types_in_one_batch_are_kept_in_as_many_files(store: Store, root: Path) -> None:
    values = [1, "two", 3, None, [4], ["five"], 6, "seven"]
    batch = [{"n": number, "x": value} for number, value in enumerate(values)]
    await published_by(f"parquet://{root}", store, batch, batch)
    found = [(row["n"], row.get("x")) for path in published(root) for row in pq.read_table(path).to_pylist()]
    assert sorted(found, key=itemgetter(0)) == [each for each in enumerate(values) for _ in range(2)]
    assert len(published(root)) == 4


async def test_times_finer_than_microseconds_find_their_folder(store: Store, root: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1], "ts": pa.array([1], pa.timestamp("ns"))})
    await published_by(f"parquet://{root}?by=day&time=ts", store, batch)
    assert [path.parent.name for path in published(root)] == ["day=1970-01-01"]


async def test_columns_are_taken_as_they_are(store: Store, root: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": pa.array([1, 2], pa.int16()), "at": pa.array([0, 1], pa.timestamp("ms"))})
    await published_by(f"parquet://{root}", store, batch, pa.Table.from_batches([batch]))
    [path] = published(root)
    table = pq.read_table(path)
    assert table.schema.field("n").type == pa.int16()
    assert table.num_rows == 4


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ([1, 2], "each row must be a dict"),
        ("text", "return dicts"),
        ([{"a": object()}], '"a"'),
        ([{"a": None}], "without a single field"),
        ([{"a": {}}], "Parquet cannot keep such rows"),
        ([{1: 2}], "a field is named 1"),
        ([{"a": 2**70}], '"a"'),
        ([{"a": [1, "x"]}], '"a"'),
    ],
)
async def test_what_are_no_rows(committer: ParquetCommitter, batch: Any, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        committer.draft("t", {0: 0}).append(batch)


async def test_many_folders_need_not_be_open_at_once(store: Store, root: Path) -> None:
    url = f"parquet://{root}?by=day&time=ts&compression=snappy"
    days = [{"n": n, "ts": 86_400 * n} for n in range(3 * rowfiles.MOST_OPEN)]
    await published_by(url, store, *([row] for row in days), days)
    assert sum(pq.read_metadata(path).num_rows for path in published(root)) == 2 * len(days)


async def test_a_long_list_of_files_stands_beside_them(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "LONGEST", 2)
    days = [{"n": n, "ts": 86_400 * n} for n in range(5)]
    await published_by(f"parquet://{root}?by=day&time=ts", store, days)
    async with open_output(f"parquet://{root}?by=day&time=ts", STREAM, store) as output:
        assert sorted([row["n"] async for piece in output.rows() for row in piece]) == [0, 1, 2, 3, 4]
    assert len(published(root)) == 5


# The hand-off


class Cut(Exception):
    """The task dies here."""


async def test_a_publish_whose_task_died_before_the_hand_off_is_finished_by_the_sweep(
    committer: ParquetCommitter, store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = committer.draft("t", {0: 0})
    draft.append(rows(0, 0, 10))

    def die(*_: object) -> None:
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(ParquetCommitter, "_hand_off", die)
        with pytest.raises(Cut):
            await committer.publish(draft, ranges((0, 0, 10)))
    assert await committer.committed() == {0: 10}
    assert published(root) == []
    async with open_output(f"parquet://{root}", STREAM, store) as output:
        [manifest] = await output.manifests() or []
        assert await output.counted(manifest) == 10
    assert await committer.sweep() == Swept(handed_off=1)
    assert [pq.read_metadata(path).num_rows for path in published(root)] == [10]
    async with open_output(f"parquet://{root}", STREAM, store) as output:
        assert await output.counted(manifest) == 10
        published(root)[0].unlink()
        assert await output.counted(manifest) == 0
        with pytest.raises(PublishedLost, match="the file is gone"):
            await anext(output.rows())
        assert [piece async for piece in output.rows(is_whole=False)] == []
    assert list((root / "_drafts").iterdir()) == []


@pytest.mark.parametrize("left", [b"", b"{", None], ids=["empty", "torn", "gone"])
async def test_a_publish_is_handed_off_though_its_label_is_lost(
    committer: ParquetCommitter, root: Path, monkeypatch: pytest.MonkeyPatch, left: bytes | None
) -> None:
    draft = committer.draft("t", {0: 0})
    draft.append(rows(0, 0, 10))
    with monkeypatch.context() as patch:
        patch.setattr(ParquetCommitter, "_hand_off", lambda *_: 0)
        await committer.publish(draft, ranges((0, 0, 10)))
    [label] = root.rglob("draft.json")
    label.unlink()
    if left is not None:
        label.write_bytes(left)
    assert await committer.sweep() == Swept(handed_off=1)
    assert [pq.read_metadata(path).num_rows for path in published(root)] == [10]


async def test_what_is_published_is_on_disk_with_the_folders_it_is_in(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        really(descriptor)

    class Watched(Silent):
        async def commit(self, *writes: Any, **more: Any) -> Any:
            before.update(synced)
            synced.clear()
            return await self._store.commit(*writes, **more)

    synced: list[Path] = []
    before: set[Path] = set()
    """What was on disk before the commit."""

    monkeypatch.setattr(os, "fsync", fsync)
    await published_by(f"parquet://{root}?by=day&time=at", Watched(store), [{"number": 1, "at": 0}])
    assert set(synced) == {root, root / "day=1970-01-01"}
    [draft] = {path for path in before if path.parent == root / "_drafts"}
    day = draft / "day=1970-01-01"
    assert {root.parent, root, root / "_drafts", draft / "draft.json", draft, day} < before
    assert {path.parent for path in before if path.suffix == ".draft"} == {day}


class Silent:
    """A store whose commits happen, and nobody hears of it."""

    def __init__(self, store: Store) -> None:
        self._store, self.is_silent = store, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *writes: Any, **more: Any) -> Any:
        revision = await self._store.commit(*writes, **more)
        if self.is_silent:
            raise Unknown("the answer was lost")
        return revision


async def test_a_publish_that_may_have_happened_is_not_thrown_away(store: Store, root: Path) -> None:
    silent = Silent(store)
    silent.is_silent = False
    async with open_committer(f"parquet://{root}", STREAM, silent) as committer:
        await committer.begin({0: 0})
        draft = committer.draft("t", {0: 0})
        draft.append(rows(0, 0, 10))
        silent.is_silent = True
        with pytest.raises(Unknown):
            await committer.publish(draft, ranges((0, 0, 10)))
        draft.discard()  # it does not know, so it leaves the files alone
        verdict = await committer.publish(draft, ranges((0, 0, 10)))
    assert verdict.turn is Turn.PUBLISHED
    assert [pq.read_metadata(path).num_rows for path in published(root)] == [10]


class Slow:
    """A store whose commits go on without those who asked for them, once they may."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked, self.may_commit = asyncio.Event(), asyncio.Event()
        self.commits: list[asyncio.Task[Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *writes: Any, **more: Any) -> Any:
        async def arrive() -> Any:
            await self.may_commit.wait()
            return await self._store.commit(*writes, **more)

        self.commits.append(asyncio.create_task(arrive()))
        self.asked.set()
        return await asyncio.shield(self.commits[-1])


async def test_a_publish_cancelled_while_its_commit_is_under_way_keeps_its_files(
    committer: ParquetCommitter, store: Store, root: Path
) -> None:
    slow = Slow(store)
    async with open_committer(f"parquet://{root}", STREAM, slow) as own:
        draft = own.draft("t", {0: 0})
        draft.append(rows(0, 0, 10))
        publishing = asyncio.create_task(own.publish(draft, ranges((0, 0, 10))))
        await slow.asked.wait()
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        draft.discard()  # as a task does that is stopped
        assert await committer.sweep() == Swept()
        slow.may_commit.set()
        await asyncio.gather(*slow.commits)
    assert await committer.committed() == {0: 10}
    assert await committer.sweep() == Swept(handed_off=1)
    assert [pq.read_metadata(path).num_rows for path in published(root)] == [10]


async def test_a_disk_that_takes_its_time_does_not_hold_up_the_loop(
    committer: ParquetCommitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def slow(file: int) -> None:
        time.sleep(0.2)
        sync(file)

    draft = committer.draft("t", {0: 0})
    draft.append(rows(0, 0, 10))
    monkeypatch.setattr(os, "fsync", slow)
    publishing = asyncio.create_task(committer.publish(draft, ranges((0, 0, 10))))
    longest, before = 0.0, time.monotonic()
    while not publishing.done():
        await asyncio.sleep(0)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
    assert (await publishing).turn is Turn.PUBLISHED
    assert longest < 0.2


async def test_a_publish_that_is_cancelled_while_files_are_written_lets_go_of_them_first(
    committer: ParquetCommitter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, done = asyncio.Event(), threading.Event()
    loop, close = asyncio.get_running_loop(), ParquetDraft.close

    def slow(draft: ParquetDraft) -> tuple[Segment, ...]:
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.2)
        found = close(draft)
        done.set()
        return found

    monkeypatch.setattr(ParquetDraft, "close", slow)
    draft = committer.draft("t", {0: 0})
    draft.append(rows(0, 0, 10))
    publishing = asyncio.create_task(committer.publish(draft, ranges((0, 0, 10))))
    await begun.wait()
    publishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publishing
    assert done.is_set()
    draft.discard()
    assert list((root / "_drafts").iterdir()) == []


async def test_a_publish_that_was_never_sent_leaves_nothing(committer: ParquetCommitter, root: Path) -> None:
    draft = committer.draft("t", {0: 0})
    draft.append(rows(0, 0, 10))
    with pytest.raises(Invalid, match="partition 3"):
        await committer.publish(draft, ranges((3, 0, 10)))
    draft.discard()
    assert list((root / "_drafts").iterdir()) == []


@pytest.mark.parametrize("offset", [0, 5], ids=["to its start", "into its range"])
async def test_a_publish_of_unknown_outcome_is_found_though_offsets_were_set_by_hand_since(
    committer: ParquetCommitter, store: Store, root: Path, offset: int
) -> None:
    silent = Silent(store)
    async with open_committer(f"parquet://{root}", STREAM, silent) as own:
        draft = own.draft("t", {0: 0})
        draft.append(rows(0, 0, 10))
        with pytest.raises(Unknown):
            await own.publish(draft, ranges((0, 0, 10)))
        await committer.move(move("a", {0: 10}, {0: offset}))
        silent.is_silent = False
        assert (await own.publish(draft, ranges((0, 0, 10)))).turn is Turn.PUBLISHED
        draft.discard()
    assert await committer.committed() == {0: offset}
    assert [pq.read_metadata(path).num_rows for path in published(root)] == [10]


async def test_another_streams_drafts_are_left_alone(committer: ParquetCommitter, store: Store, root: Path) -> None:
    async with open_committer(f"parquet://{root}", "other", store) as other:
        await other.begin({0: 0})
        draft = other.draft("t", {0: 0})
        draft.append(rows(0, 0, 5))
        mine = committer.draft("t", {0: 0})
        mine.append(rows(0, 0, 5))
        await committer.publish(mine, ranges((0, 0, 5)))
        assert await committer.sweep() == Swept()
        assert (await other.publish(draft, ranges((0, 0, 5)))).turn is Turn.PUBLISHED


async def test_a_full_disk_is_told_and_what_is_left_of_the_draft_is_never_published(
    committer: ParquetCommitter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = committer.draft("t", {0: 0})
    draft.append(rows(0, 0, 10))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(rowfiles.os, "fsync", full)
        with pytest.raises(Spoiled, match="No space left on device; make room"):
            await committer.publish(draft, ranges((0, 0, 10)))
    with pytest.raises(Spoiled, match="No space left on device; make room"):  # though there is room now
        await committer.publish(draft, ranges((0, 0, 10)))
    assert await committer.committed() == {0: 0}
    draft.discard()
    assert published(root) == []
    assert list((root / "_drafts").iterdir()) == []


async def test_rows_that_could_not_be_written_spoil_the_draft(
    committer: ParquetCommitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = committer.draft("t", {0: 0})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(rowfiles, "ROW_GROUP", 10)
        patch.setattr(pq.ParquetWriter, "write_table", full)
        with pytest.raises(Spoiled, match="No space left on device"):
            draft.append(rows(0, 0, 10))
    with pytest.raises(Spoiled, match="No space left on device"):
        draft.append(rows(0, 0, 10))


async def test_rows_that_come_one_by_one_are_put_together_and_all_are_there(
    committer: ParquetCommitter, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rowfiles, "MOST_PARTS", 4)
    await committer.begin({0: 0})
    draft = committer.draft("t", {0: 0})
    for number in range(30):
        draft.append([{"number": number} | ({"late": "field"} if number >= 20 else {})])
    assert (await committer.publish(draft, ranges((0, 0, 30)))).turn is Turn.PUBLISHED
    found = ds.dataset(published(root), schema=pa.schema({"number": pa.int64(), "late": pa.string()})).to_table()
    assert sorted(found["number"].to_pylist()) == list(range(30))
    assert found["late"].null_count == 20
    assert len(published(root)) == 2  # a field that is new begins another file


# URLs


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("parquet://host/x", "write parquet:///folder"),
        ("parquet:///x?by=day", "belong together"),
        ("parquet:///x?by=week&time=t", "by=week is unknown"),
        ("parquet:///x?colour=red", "unknown option colour"),
        ("csv:///x", "unknown scheme csv"),
        ("sqlite:////nowhere.db?table=t", "there is no file"),
        ("postgresql://h/d", "name the table"),
    ],
)
async def test_a_wrong_url_is_explained(store: Store, url: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        async with open_committer(url, STREAM, store):
            pass


async def test_a_folder_that_cannot_be_made_is_told(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Denied, match="choose another folder"):
        async with open_committer(f"parquet://{tmp_path}/file/x", STREAM, store):
            pass


def test_what_pyarrow_does_only_once_is_done_before_workers_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(parquet, "as_tables", made.append)
    preload("parquet:///out")
    assert made == [[{"": 0}]]
