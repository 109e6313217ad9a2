"""The embedded log on real files: appending, segments, retention, policies, locks, full disks."""

import os
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

import pytest

from rota.kit.time.clock import SYSTEM
from rota.kit.time.epoch import milliseconds
from rota.kit.time.instant import Instant
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable, Unknown
from rota.sources import Bounds, NewRecord, Record, log_place, open_log
from rota.sources.log import batches, index, retention
from rota.sources.log.layout import SEGMENT_BYTES, LogFolder, Meta, PartitionFolder
from rota.sources.log.partition import PartitionReader, RecordsLost, bounds, offset_at
from rota.sources.log.retention import KeptSegment
from rota.sources.log.writer import ALWAYS, NEVER, Fsync, PartitionWriter
from tests.kit.disks import small_files
from tests.kit.sources import at, new, news, numbers

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class HandClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> Instant:
        return Instant(self.passed)

    def wall(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.passed)


class OneLog:
    """A log of one partition, and those who use it."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES, **keep: int | float) -> None:
        self.place = LogFolder(folder, "log:///it")
        created = self.place.create(1, segment_bytes=segment_bytes)
        self.meta = Meta(id=created.id, partitions=1, segment_bytes=segment_bytes, **keep)  # type: ignore[arg-type]
        self.partition: PartitionFolder = self.place.partition(0, self.meta)
        self.clock = HandClock()

    def writer(self, fsync: Fsync = NEVER) -> PartitionWriter:
        """Who appends; to be closed."""
        return PartitionWriter(self.partition, self.meta, fsync, self.clock, self.place.shown)

    def read(self, offset: int = 0) -> list[Record]:
        """Everything from there on."""
        with closing(PartitionReader(self.partition, offset)) as reader:
            return [record for taken in iter(lambda: reader.take(100), []) for record in taken]


@pytest.fixture
def small(tmp_path: Path) -> OneLog:
    """A log with small segments."""
    return OneLog(tmp_path / "log", segment_bytes=500)


# Appending and reading


def test_numbers_go_on_in_the_next_life(small: OneLog) -> None:
    for first in range(0, 100, 10):
        with closing(small.writer()) as writer:
            assert writer.append(news(10, first)) == first
            assert writer.torn == 0
    assert numbers(small.read()) == list(range(100))
    assert len(small.partition.segments()) > 3
    assert numbers(small.read(77)) == list(range(77, 100))


def test_a_record_without_a_time_has_that_of_its_append(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log")
    before = milliseconds(log.clock.wall())
    with closing(log.writer()) as writer:
        writer.append([NewRecord(value=b"now"), new(5)])
    now, then = log.read()
    assert before <= now.time_ms <= milliseconds(log.clock.wall())
    assert then.time_ms == milliseconds(at(5))


def test_many_and_large_records_become_several_batches(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log")
    large = [NewRecord(value=bytes(batches.TARGET_BYTES)) for _ in range(3)]
    with closing(log.writer()) as writer:
        writer.append([*news(batches.MOST_RECORDS + 10), *large, NewRecord(value=bytes(3 * batches.TARGET_BYTES))])
    records = log.read()
    assert [record.offset for record in records] == list(range(batches.MOST_RECORDS + 14))
    assert len(records[-1].value or b"") == 3 * batches.TARGET_BYTES


def test_a_record_that_is_too_large_is_invalid_and_nothing_is_kept(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log")
    with closing(log.writer()) as writer:
        with pytest.raises(Invalid, match="record 1 of 2 has more than"):
            writer.append([new(1), NewRecord(value=bytes(batches.MOST_BYTES))])
        assert writer.append([]) == 0
        assert writer.append(news(1)) == 0
    assert numbers(log.read()) == [0]


def test_a_reader_sees_a_writer_at_work(small: OneLog) -> None:
    seen: list[int] = []
    with closing(small.writer()) as writer, closing(PartitionReader(small.partition, 0)) as reader:
        assert reader.take(10) == []
        for first in range(0, 60, 3):
            writer.append(news(3, first))
            seen += numbers(reader.take(2))
            seen += numbers(reader.take(2))
        assert seen == list(range(60))
        assert reader.take(10) == []


def test_a_half_written_batch_is_not_there_yet(small: OneLog) -> None:
    with closing(small.writer()) as writer:
        writer.append(news(2))
    path = small.partition.segment(0)
    whole = path.read_bytes()
    with closing(PartitionReader(small.partition, 0)) as reader:
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            assert reader.take(10) == []
        path.write_bytes(whole)
        assert numbers(reader.take(10)) == [0, 1]


def test_a_reader_notices_that_a_log_was_made_anew(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log")
    with closing(log.writer()) as writer:
        writer.append(news(5))
    with closing(PartitionReader(log.partition, 0)) as reader:
        assert len(reader.take(10)) == 5
        log.partition.segment(0).unlink()
        with closing(log.writer()) as writer:
            writer.append(news(2))
        with pytest.raises(RecordsLost) as caught:
            reader.take(10)
    assert "shorter than it was" in str(caught.value)


# The index


def test_hints_lead_near_to_an_offset_and_to_a_time(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log", segment_bytes=5 * index.EVERY)
    with closing(log.writer()) as writer:
        for number in range(1000):
            writer.append([new(number, value=bytes(1000))])
    hints = index.decode(log.partition.index(0).read_bytes(), 0)
    assert len(hints) == 5
    assert log.read(777)[0].offset == 777
    assert offset_at(log.partition, milliseconds(at(777))) == 777
    assert offset_at(log.partition, milliseconds(at(5000))) == 1000
    log.partition.index(0).unlink()
    assert log.read(123)[0].offset == offset_at(log.partition, milliseconds(at(123))) == 123


def test_a_hint_that_leads_astray_is_not_followed(small: OneLog) -> None:
    with closing(small.writer()) as writer:
        writer.append(news(5))
        writer.append(news(5, first=5))
    small.partition.index(0).write_bytes(index.encode(index.Hint(7, 13, index.NEVER)))
    assert [record.offset for record in small.read(8)] == [8, 9]


# When it is on disk


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files that were synced."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    return synced


def test_always_syncs_each_append_and_never_none(tmp_path: Path, syncs: list[int]) -> None:
    log = OneLog(tmp_path / "log")
    with closing(log.writer(NEVER)) as writer:
        writer.append(news(1))
        assert syncs == []
    with closing(log.writer(ALWAYS)) as writer:
        writer.append(news(1))
        writer.append(news(1))
        assert len(syncs) >= 2


def test_an_interval_syncs_when_it_has_passed(tmp_path: Path, syncs: list[int]) -> None:
    log = OneLog(tmp_path / "log")
    with closing(log.writer(timedelta(seconds=5))) as writer:
        writer.append(news(1))
        log.clock.passed = 4.9
        writer.sync_if_due()
        assert syncs == []
        log.clock.passed = 5.0
        writer.sync_if_due()
        writer.sync_if_due()
        assert len(syncs) == 1
        writer.append(news(1))
    assert len(syncs) == 2


def test_what_was_appended_last_is_synced_although_nothing_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_synced = threading.Event()
    monkeypatch.setattr(os, "fdatasync", lambda file: is_synced.set())
    url = f"log://{tmp_path / 'log'}"
    log_place(url).create(1)
    with open_log(f"{url}?fsync=10ms") as log:
        log.append(news(1))
        assert is_synced.wait(10)


def test_a_disk_that_fails_to_sync_leaves_it_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: int) -> None:
        raise OSError(5, "Input/output error")

    log = OneLog(tmp_path / "log")
    with closing(log.writer(ALWAYS)) as writer:
        monkeypatch.setattr(os, "fdatasync", broken)
        with pytest.raises(Unknown, match="Input/output error"):
            writer.append(news(1))
        with pytest.raises(Unavailable, match="open the log again"):
            writer.append(news(1))


def test_a_disk_that_takes_half_a_batch_keeps_nothing_of_it(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log")
    with closing(log.writer()) as writer, small_files() as size:
        writer.append(news(3))
        with pytest.raises(Unavailable, match="File too large; make room"):
            writer.append([new(9, value=bytes(2 * size))])
        assert writer.append(news(1, first=3)) == 3
    assert numbers(log.read()) == [0, 1, 2, 3]
    with closing(log.writer()) as writer:
        assert writer.torn == 0


# Retention


@pytest.mark.parametrize(
    ("keep_bytes", "keep_age", "gone"),
    [
        pytest.param(None, None, 0, id="nothing is settled: all stays"),
        pytest.param(250, None, 1, id="so many bytes are left"),
        pytest.param(0, None, 3, id="the newest stays"),
        pytest.param(None, timedelta(minutes=25), 1, id="the old ones go"),
        pytest.param(None, timedelta(), 3, id="the newest stays however old"),
        pytest.param(1000, timedelta(minutes=15), 2, id="either reason is enough"),
    ],
)
def test_surplus(keep_bytes: int | None, keep_age: timedelta | None, gone: int) -> None:
    kept = [KeptSegment(number, 100, NOON - timedelta(minutes=30 - 10 * number)) for number in range(4)]
    assert list(retention.surplus(kept, NOON, keep_bytes, keep_age)) == kept[:gone]


def test_a_log_keeps_so_many_bytes(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log", segment_bytes=500, keep_bytes=1500)
    with closing(log.writer()) as writer:
        for first in range(0, 300, 10):
            writer.append(news(10, first))
    sizes = [log.partition.segment(first).stat().st_size for first in log.partition.segments()]
    assert 1500 <= sum(sizes) < 3000
    start, end = (whole := bounds(log.partition)).start, whole.end
    assert start == log.partition.segments()[0] > 0
    assert numbers(log.read(start)) == list(range(start, end))
    with pytest.raises(RecordsLost, match="deleted"):
        log.read(start - 1)


def test_a_log_keeps_for_so_long(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log", keep_s=100.0)
    with closing(log.writer()) as writer:
        writer.append(news(10))
        log.clock.passed = 11.0
        writer.append(news(10, first=10))
        assert log.partition.segments() == [0, 10]
        log.clock.passed = 105.0
        assert writer.retain() == 1
    assert bounds(log.partition) == Bounds(10, 20)


def test_truncating_within_a_segment(tmp_path: Path) -> None:
    log = OneLog(tmp_path / "log")
    with closing(log.writer()) as writer:
        writer.append(news(20))
        assert writer.truncate(7) == 7
        assert bounds(log.partition) == Bounds(7, 20)
        assert writer.truncate(3) == 7
        with pytest.raises(Invalid, match="it ends at 20"):
            writer.truncate(21)
        assert writer.truncate(20) == 20
        assert writer.append(news(1)) == 20
    assert bounds(log.partition) == Bounds(20, 21)
    with closing(log.writer()) as writer:
        assert writer.end == 21


# One writer


def test_a_second_writer_is_a_conflict(small: OneLog) -> None:
    with closing(small.writer()), pytest.raises(Conflict, match="another process appends to it"):
        small.writer()
    small.writer().close()


# The log as a whole


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with four partitions."""
    url = f"log://{tmp_path / 'log'}"
    log_place(url).create(4)
    return url


def test_a_key_names_its_partition_and_records_without_one_go_in_turn(url: str) -> None:
    with open_log(url) as log:
        keyed = log.append([new(number, key=b"k%d" % (number % 3)) for number in range(30)])
        assert {one.partition for one in keyed} == {crc32(b"k%d" % number) % 4 for number in range(3)}
        assert [log.append(news(2))[0].partition for _ in range(5)] == [1, 2, 3, 0, 1]
        assert log.append(news(2), partition=3)[0].partition == 3
        assert sum(whole.end for whole in log.bounds().values()) == 30 + 10 + 2
        assert log.torn == {}


def test_a_partition_that_is_not_there_is_not_found(url: str) -> None:
    with open_log(url) as log, pytest.raises(NotFound, match="no partition 4; it has 4"):
        log.append(news(1), partition=4)


def test_retaining_all_partitions(tmp_path: Path) -> None:
    url = f"log://{tmp_path / 'log'}"
    log_place(url).create(2, segment_bytes=100, keep_bytes=0)
    with open_log(url) as log:
        for _ in range(3):
            log.append(news(5), partition=1)
        log.retain()
        assert log.bounds()[1] == Bounds(10, 15)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        pytest.param("log://host/path", "it names no folder", id="a host"),
        pytest.param("log:///", "it names no folder", id="no path"),
        pytest.param("log:///it?fsync=sometimes", "write always, never or a duration", id="an unknown policy"),
        pytest.param("log:///it?fsync=0s", "write always, never or a duration", id="no time at all"),
        pytest.param("log:///it?colour=blue", "unknown option colour; known are fsync, poll", id="an unknown option"),
        pytest.param("kafka://host/topic", "only a log is made", id="another source"),
    ],
)
def test_a_url_that_is_wrong_is_invalid(wrong: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        open_log(wrong)


def test_a_log_is_made_once_and_only_grows(url: str) -> None:
    with pytest.raises(Conflict, match="there is a log already"):
        log_place(url).create(1)
    with pytest.raises(Invalid, match="they cannot become fewer"):
        log_place(url).grow(3)
    with pytest.raises(Invalid, match="from 1 to 1024"):
        log_place(url).grow(5000)
    assert log_place(url).grow(6).partitions == 6


def test_a_log_that_nobody_made_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="rota log create"):
        open_log(f"log://{tmp_path / 'nowhere'}")


def test_the_format_of_a_newer_rota_is_refused(url: str) -> None:
    meta = log_place(url).folder / "log.json"
    meta.write_text(meta.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(Invalid, match="its format is 2, this Rota reads 1"):
        open_log(url)


def test_what_is_damaged_beside_the_records_is_told(url: str) -> None:
    (log_place(url).folder / "log.json").write_text("{")
    with pytest.raises(Invalid, match=r"log\.json is damaged"):
        open_log(url)


def test_the_system_clock_is_the_usual_one(url: str) -> None:
    before = milliseconds(SYSTEM.wall())
    with open_log(url) as log:
        log.append([NewRecord(value=b"x")], partition=0)
    (record,) = PartitionReader(log.place.partition(0, log.meta), 0).take(10)
    assert record.time_ms >= before
