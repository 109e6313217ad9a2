"""What a relay remembers beyond its own death."""

import os
from pathlib import Path

import pytest

from rota.kit import records
from rota.model.ids import Instant
from rota.relay.core.dedup import SPAN, DedupWindow
from rota.relay.process.memory import RETRY, SEGMENT, RelayMemory

WALL = 1_700_000_000.0


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Life:
    """A relay's window and memory, from start to death."""

    def __init__(self, folder: Path, wall: float = WALL) -> None:
        self.window = DedupWindow[str](Instant(0.0))
        self.memory = RelayMemory(folder)
        self.window.take_in(self.memory.recall(wall), Instant(0.0))
        self.window.fresh = []

    def settle(self, *numbers: int, resource: str = "7", slot: int | None = 0, wall: float = WALL) -> None:
        """These had their fate."""
        for number in numbers:
            self.window.settle(name(number), self.window.tally("room", resource), slot)
        assert self.window.fresh is not None
        self.memory.keep(self.window.fresh, wall)
        self.window.fresh = []

    def knows(self, *numbers: int) -> list[int]:
        """Which of these it remembers."""
        return [number for number in numbers if self.window.is_known(name(number), 0)]


def test_the_next_life_knows_what_was_settled(tmp_path: Path) -> None:
    before = Life(tmp_path)
    before.settle(1, 2)
    before.settle(3, resource="8", slot=None)
    before.settle(4, resource="8", slot=1)
    before.memory.close()
    after = Life(tmp_path, WALL + 1)
    moved = after.window.export(lambda tally: tally.resource == "8", Instant(0.0))
    assert {(each.slot, each.ids) for each in moved} == {(None, name(3)), (1, name(4))}
    assert after.knows(1, 2, 3, 4, 5) == [1, 2, 3, 4]


def test_what_one_life_recalled_the_one_after_knows_too(tmp_path: Path) -> None:
    Life(tmp_path).settle(1)
    second = Life(tmp_path, WALL + 1)
    second.settle(2, wall=WALL + 1)
    second.memory.forget(WALL + 1, 0.0)
    assert Life(tmp_path, WALL + 2).knows(1, 2) == [1, 2]


def test_what_is_older_than_the_span_is_not_recalled(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.settle(1)
    life.settle(2, wall=WALL + SPAN)
    assert Life(tmp_path, WALL + SPAN + 1).knows(1, 2) == [2]


def test_a_clock_that_was_set_back_makes_memories_young(tmp_path: Path) -> None:
    Life(tmp_path).settle(1)
    assert Life(tmp_path, WALL - 3600).knows(1) == [1]


def test_segments_go_when_all_in_them_is_old(tmp_path: Path) -> None:
    life = Life(tmp_path)
    for turn in range(3):
        life.settle(turn, wall=WALL + turn * SEGMENT)
    segments = sorted(tmp_path.iterdir())
    assert len(segments) == 3
    for turn, segment in enumerate(segments):
        os.utime(segment, (WALL + turn * SEGMENT,) * 2)
    life.memory.forget(WALL + SPAN + 1, 2 * SPAN)
    assert len(list(tmp_path.iterdir())) == 3  # somebody may hold a copy that is so old
    life.memory.forget(WALL + SPAN + 1, 0.0)
    assert sorted(tmp_path.iterdir()) == segments[1:]
    life.memory.forget(WALL + 10 * SPAN, 0.0)
    assert sorted(tmp_path.iterdir()) == segments[2:]  # it is being written


@pytest.mark.parametrize("damage", ["cut", "zeroed", "of another version"])
def test_what_is_damaged_ends_its_segment(tmp_path: Path, damage: str) -> None:
    life = Life(tmp_path)
    life.settle(1)
    (segment,) = tmp_path.iterdir()
    whole = segment.read_bytes()
    life.settle(2)
    match damage:
        case "cut":
            segment.write_bytes(segment.read_bytes()[:-5])
        case "zeroed":
            segment.write_bytes(whole + bytes(len(segment.read_bytes()) - len(whole)))
        case _:
            segment.write_bytes(whole + records.encode(2, b"\x91\x01"))
    assert Life(tmp_path).knows(1, 2) == [1]


def test_without_a_disk_it_goes_on_and_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "memory"
    folder.write_text("not a folder")
    life = Life(folder)
    life.settle(1)
    life.settle(2)
    assert [record.message for record in caplog.records] == [
        "relay cannot write its memory; copies may repeat if it dies"
    ]
    folder.unlink()
    folder.mkdir()
    life.settle(3)
    assert list(folder.iterdir()) == []  # a full disk would get a segment for each turn
    life.settle(4, wall=WALL + RETRY)
    assert Life(folder, WALL + RETRY).knows(1, 2, 3, 4) == [4]


def test_a_clock_that_was_set_back_ends_the_segment(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.settle(1)
    life.settle(2, wall=WALL - 3600)
    assert len(list(tmp_path.iterdir())) == 2
