"""Damage to the files of a log: whatever happens to them, no wrong record is read, and what is missing is told."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.kit.time.clock import SYSTEM
from rota.sources.log import index
from rota.sources.log.layout import LogFolder, Meta, PartitionFolder
from rota.sources.log.partition import PartitionReader, RecordsLost, bounds
from rota.sources.log.writer import NEVER, PartitionWriter
from rota.sources.port import NewRecord, Record

COUNT = 120


@dataclass(frozen=True)
class Original:
    """A log as it was, and what was in it."""

    folder: Path
    meta: Meta
    records: list[Record]

    def partition(self, folder: Path) -> PartitionFolder:
        """Its only partition, in a copy."""
        return LogFolder(folder, "log").partition(0, self.meta)


def write(partition: PartitionFolder, meta: Meta, records: list[NewRecord]) -> PartitionWriter:
    with closing(PartitionWriter(partition, meta, NEVER, SYSTEM, "log")) as writer:
        for start in range(0, len(records), 7):
            writer.append(records[start : start + 7])
        return writer


def read(partition: PartitionFolder, offset: int = 0) -> tuple[list[Record], list[int]]:
    """What can be read, and the offsets that were told to be lost."""
    found: list[Record] = []
    lost: list[int] = []
    while True:
        with closing(PartitionReader(partition, offset)) as reader:
            try:
                while taken := reader.take(10):
                    found += taken
                return found, lost
            except RecordsLost as error:
                gap = error.missing.gap
                lost += range(gap.first, gap.last + 1)
                offset = gap.last + 1


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Several segments, an index with hints, and records whose values are copies of segments."""
    folder = tmp_path_factory.mktemp("log") / "log"
    meta = LogFolder(folder, "log").create(1, segment_bytes=2000)
    partition = LogFolder(folder, "log").partition(0, meta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "EVERY", 300)
        write(partition, meta, [NewRecord(value=b"%d" % number * (number % 30)) for number in range(COUNT - 20)])
        copies = [path.read_bytes() for path in sorted(partition.folder.glob("*.segment"))]
        write(partition, meta, [NewRecord(value=copies[number % len(copies)][:900]) for number in range(20)])
    records, lost = read(partition)
    assert len(records) == COUNT
    assert not lost
    return Original(folder, meta, records)


@contextmanager
def copied(original: Original) -> Iterator[PartitionFolder]:
    with TemporaryDirectory() as base:
        shutil.copytree(original.folder, Path(base) / "log")
        yield original.partition(Path(base) / "log")


def check(original: Original, partition: PartitionFolder) -> int:
    """Nothing wrong was read, and nothing is missing silently below the end; the end."""
    found, lost = read(partition)
    assert found == [original.records[record.offset] for record in found]
    end = bounds(partition).end
    assert sorted([record.offset for record in found] + lost) == list(range(end))
    return end


def files(original: Original) -> list[str]:
    return sorted(path.name for path in original.partition(original.folder).folder.iterdir())


def flip(at: int, bit: int) -> Callable[[bytes], bytes]:
    def flipped(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]

    return flipped


def cut(at: int, filling: int) -> Callable[[bytes], bytes]:
    return lambda data: data[: at % (len(data) + 1)] + bytes(filling)


def blank(at: int, length: int) -> Callable[[bytes], bytes]:
    def blanked(data: bytes) -> bytes:
        place = at % len(data)
        return data[:place] + bytes(min(length, len(data) - place)) + data[place + length :]

    return blanked


places = st.integers(min_value=0, max_value=10**6)
damages = st.one_of(
    st.builds(flip, places, st.integers(0, 7)),
    st.builds(cut, places, st.sampled_from([0, 0, 1, 50, 5000])),
    st.builds(blank, places, st.integers(1, 1500)),
)


@given(which=places, damage=damages)
@settings(max_examples=300, deadline=None)
def test_whatever_happens_to_a_file_nothing_wrong_is_read_and_what_is_missing_is_told(original, which, damage):
    with copied(original) as partition:
        names = [name for name in files(original) if name.endswith((".segment", ".index"))]
        path = partition.folder / names[which % len(names)]
        before = path.read_bytes()
        if before:
            path.write_bytes(damage(before))
        end = check(original, partition)
        is_last = path.name == [name for name in names if name.endswith(".segment")][-1]
        assert end == COUNT or is_last
        # A writer goes on behind what is sound, and what it appends can be read.
        writer = write(partition, original.meta, [NewRecord(value=b"new")])
        assert writer.end == end + 1
        found, _ = read(partition, end)
        assert [(record.offset, record.value) for record in found] == [(end, b"new")]


@given(at=places)
@settings(max_examples=100, deadline=None)
def test_a_torn_end_is_cut_off_and_told(original, at):
    with copied(original) as partition:
        last = max(partition.folder.glob("*.segment"))
        whole = last.read_bytes()
        last.write_bytes(whole[: at % len(whole)])
        end = bounds(partition).end
        writer = write(partition, original.meta, [])
        size = last.stat().st_size
        assert writer.end == end
        assert writer.torn == at % len(whole) - size
        assert check(original, partition) == end


@pytest.mark.parametrize("name", ["log.json", "0/start"])
def test_damage_to_the_other_files_is_told_or_does_not_matter(original: Original, name: str) -> None:
    with copied(original) as partition:
        path = partition.folder.parent / name
        path.write_bytes(b"\xff\x00")
        assert check(original, partition) == COUNT


def test_a_segment_that_is_missing_is_told(original: Original) -> None:
    with copied(original) as partition:
        firsts = partition.segments()
        partition.segment(firsts[2]).unlink()
        _, lost = read(partition)
        assert lost == list(range(firsts[2], firsts[3]))


def test_a_reader_goes_on_behind_damage_where_it_was_told_to(original: Original) -> None:
    with copied(original) as partition:
        first = partition.segments()[1]
        path = partition.segment(first)
        path.write_bytes(flip(30, 1)(path.read_bytes()))
        with closing(PartitionReader(partition, first)) as reader, pytest.raises(RecordsLost) as caught:
            reader.take(1)
        gap = caught.value.missing.gap
        assert gap.first == first
        with closing(PartitionReader(partition, gap.last + 1)) as reader:
            assert reader.take(1) == [original.records[gap.last + 1]]
