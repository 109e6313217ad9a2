"""The spool on real files: order, crashes, damage, full disks."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.kit import records
from rota.model.errors import Invalid, Unavailable
from rota.relay.process.spool import Spool, SpoolRefused
from rota.sinks import Message
from tests.kit.disks import BadSectors, small_files
from tests.kit.sinks import message, messages, numbers


class Opened:
    """A spool, and what it said was left."""

    def __init__(self, folder: Path, **options: int) -> None:
        self.left: list[int] = []
        self.spool = Spool(folder, self._told, **options)

    def _told(self, some: Sequence[Message]) -> None:
        self.left += numbers(some)

    def read(self, most: int = 1000) -> list[int]:
        return numbers(one for _, one in self.spool.read(most).messages)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.segment"))


def filled(folder: Path, count: int, **options: int) -> None:
    spool = Spool(folder, lambda some: None, **options)
    for one in messages(count):
        spool.append([one])
    spool.close()


def test_what_is_appended_is_read_in_order_and_whole(folder: Path) -> None:
    opened = Opened(folder)
    sent = [message(1, key="k", to="there", headers={"a": "b"}), message(2, "r1")]
    assert opened.spool.append(sent) == 1
    assert opened.spool.append([message(3)]) == 3
    back = opened.spool.read(2)
    assert [one for _, one in back.messages] == sent
    assert [sequence for sequence, _ in back.messages] == [1, 2]
    assert opened.read() == [3]
    assert opened.read() == []
    assert opened.spool.unconfirmed == 3


def test_the_next_life_goes_on_from_the_first_that_was_not_confirmed(folder: Path) -> None:
    filled(folder, 10)
    first = Opened(folder)
    assert first.left == list(range(10))
    assert first.read(4) == [0, 1, 2, 3]
    first.spool.confirm([1, 2, 4])  # 3 is under way: it and what comes after it are repeated
    first.spool.close()
    second = Opened(folder)
    assert second.left == second.read() == list(range(2, 10))
    assert second.spool.append([message(10)]) == 11


def test_confirmed_segments_are_deleted_and_numbers_go_on(folder: Path) -> None:
    opened = Opened(folder, segment=40)
    for one in messages(10):
        opened.spool.append([one])
    assert len(segments(folder)) == 10
    opened.spool.confirm(range(1, 6))
    assert len(segments(folder)) == 5
    opened.spool.confirm(range(6, 11))
    assert segments(folder) == []
    assert opened.spool.size == 0
    opened.spool.close()
    again = Opened(folder)
    assert again.left == []
    assert again.spool.append([message(11)]) == 11


def test_what_was_confirmed_before_it_is_read_is_not_read(folder: Path) -> None:
    opened = Opened(folder, segment=40)
    for one in messages(6):
        opened.spool.append([one])
    opened.spool.confirm([1, 2, 4])
    assert opened.read() == [2, 4, 5]


def test_a_torn_tail_is_cut_at_every_byte(folder: Path, tmp_path: Path) -> None:
    filled(folder, 3)
    whole = segments(folder)[0].read_bytes()
    kept = records.after(whole, 0, 1)
    assert kept is not None
    for cut in range(kept.end, len(whole)):
        place = tmp_path / f"cut-{cut}"
        place.mkdir()
        (place / segments(folder)[0].name).write_bytes(whole[:cut])
        opened = Opened(place)
        assert opened.left == opened.read() == [0, 1], f"cut at {cut}"
        assert opened.spool.torn == cut - kept.end
        assert opened.spool.lost == []
        assert opened.spool.append([message(7)]) == 3
        opened.spool.close()
        again = Opened(place)
        assert again.left == [0, 1, 7], f"cut at {cut}"
        assert again.spool.torn == 0
        again.spool.close()


def test_a_flipped_bit_costs_one_message_and_is_told(folder: Path, tmp_path: Path) -> None:
    filled(folder, 3)
    name, whole = segments(folder)[0].name, segments(folder)[0].read_bytes()
    first = records.after(whole, 0, 0)
    second = records.after(whole, 0, 1)
    assert first is not None
    assert second is not None
    for at in range(first.end, second.end):
        place = tmp_path / f"flip-{at}"
        place.mkdir()
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        (place / name).write_bytes(damaged)
        opened = Opened(place)
        assert opened.left == opened.read() == [0, 2], f"flipped at {at}"
        assert opened.spool.lost == [2]
        opened.spool.confirm([1, 3])
        assert segments(place) == []
        opened.spool.close()


def test_damage_that_comes_later_is_told_when_it_is_read(folder: Path) -> None:
    opened = Opened(folder)
    for one in messages(4):
        opened.spool.append([one])
    with segments(folder)[0].open("r+b") as file:
        file.seek(40)
        file.write(b"\0" * 20)
    back = opened.spool.read(10)
    assert back.lost == [1]
    assert numbers(one for _, one in back.messages) == [1, 2, 3]
    assert opened.spool.read(10) == ([], [])


def test_a_segment_that_somebody_deleted_is_told_as_lost(folder: Path) -> None:
    filled(folder, 5, segment=40)
    segments(folder)[2].unlink()
    opened = Opened(folder)
    assert opened.spool.lost == [3]
    assert opened.left == opened.read() == [0, 1, 3, 4]


@pytest.fixture
def bad_sectors(monkeypatch: pytest.MonkeyPatch) -> BadSectors:
    """Where reading fails."""
    return BadSectors(monkeypatch)


def test_an_unreadable_sector_costs_the_messages_in_it_and_its_file_is_kept(
    folder: Path, bad_sectors: BadSectors
) -> None:
    spool = Spool(folder, lambda some: None)
    spool.append([message(number, payload=bytes(3000)) for number in range(6)])
    spool.append([message(6)])
    spool.close()
    bad_sectors.hurt(segments(folder)[0], range(4096, 8192))
    opened = Opened(folder)
    assert opened.left == [0, 3, 4, 5, 6]
    assert opened.spool.lost == [2, 3]
    assert opened.read() == [0, 3, 4, 5, 6]
    opened.spool.confirm(range(1, 8))
    assert segments(folder) == []
    assert [path.suffix for path in folder.glob("*.unreadable")] == [".unreadable"]


def test_an_unreadable_end_is_not_cut_off(folder: Path, bad_sectors: BadSectors) -> None:
    spool = Spool(folder, lambda some: None)
    spool.append([message(number, payload=bytes(3000)) for number in range(6)])
    spool.close()
    (segment,) = segments(folder)
    size = segment.stat().st_size
    bad_sectors.hurt(segment, range(8192, size))
    opened = Opened(folder)
    assert opened.left == [0, 1]
    assert opened.spool.torn > 0
    assert segment.stat().st_size == size


def test_a_disk_that_cannot_be_read_at_all_loses_nothing(folder: Path, bad_sectors: BadSectors) -> None:
    filled(folder, 6, segment=200)
    bad_sectors.hurt(segments(folder)[1])
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(Unavailable, match="Input/output error; make the folder usable"):
            Spool(folder, lambda some: None)
    assert len(os.listdir("/proc/self/fd")) < files + 20, "it is tried again each second, and must keep no file open"
    bad_sectors.heal()
    opened = Opened(folder)
    assert opened.left == [0, 1, 2, 3, 4, 5]
    bad_sectors.hurt(segments(folder)[1])
    first = opened.read()
    assert first[0] == 0
    with pytest.raises(Unavailable, match="Input/output error"):
        opened.read()
    bad_sectors.heal()
    assert first + opened.read() == [0, 1, 2, 3, 4, 5]


def test_a_segment_that_cannot_be_deleted_ends_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(folder)
    opened.spool.append([message(1)])
    monkeypatch.setattr(Path, "unlink", _fails)
    opened.spool.confirm([1])
    assert opened.spool.unconfirmed == 0


def test_a_record_inside_a_message_is_content(folder: Path) -> None:
    trap = records.encode(3, b"not a message")
    first = Opened(folder)
    first.spool.append([message(0, payload=trap), message(1), message(2)])
    first.spool.confirm([1])
    first.spool.close()
    opened = Opened(folder)
    assert opened.left == opened.read() == [1, 2]
    assert opened.spool.lost == []


def test_a_position_that_is_damaged_costs_repeats_only(folder: Path) -> None:
    opened = Opened(folder)
    opened.spool.append(messages(5))
    opened.spool.confirm([1])
    opened.spool.confirm([2])
    opened.spool.close()
    (folder / "position").write_bytes(b"nonsense" * 100)
    assert Opened(folder).left == [0, 1, 2, 3, 4]


def test_half_a_position_leaves_the_other_place(folder: Path) -> None:
    opened = Opened(folder)
    opened.spool.append(messages(5))
    opened.spool.confirm([1])
    opened.spool.confirm([2])
    opened.spool.close()
    with (folder / "position").open("r+b") as file:
        file.seek(512)
        file.write(b"\xff" * 5)
    assert Opened(folder).left in ([1, 2, 3, 4], [2, 3, 4])


def test_a_full_spool_refuses_and_takes_again_when_there_is_room(folder: Path) -> None:
    opened = Opened(folder, limit=1500)
    kept = []
    while opened.spool.size < 1400:
        kept.append(len(kept))
        opened.spool.append([message(kept[-1])])
    with pytest.raises(SpoolRefused, match="do not fit"):
        opened.spool.append([message(99)])
    assert opened.read() == kept
    opened.spool.confirm(range(1, len(kept) + 1))
    assert opened.spool.append([message(50)]) == len(kept) + 1


def test_a_spool_without_room_at_all_is_invalid(folder: Path) -> None:
    with pytest.raises(Invalid, match="above zero"):
        Opened(folder, limit=0)


def test_a_disk_that_takes_half_a_batch_keeps_nothing_of_it(folder: Path) -> None:
    opened = Opened(folder)
    opened.spool.append(messages(3))
    with small_files() as size:
        large = [message(9, payload=b"x" * 2 * size)]
        with pytest.raises(SpoolRefused, match="File too large; make room on the disk"):
            opened.spool.append(large)
        with pytest.raises(SpoolRefused):
            opened.spool.append(large)
        assert opened.spool.append([message(3)]) == 4
    assert opened.read() == [0, 1, 2, 3]
    opened.spool.close()
    again = Opened(folder)
    assert again.left == [0, 1, 2, 3]
    assert (again.spool.torn, again.spool.lost) == (0, [])


def test_a_refused_batch_that_could_not_be_cut_off_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(folder)
    opened.spool.append([message(0)])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", _fails)
        patched.setattr(os, "ftruncate", _fails)
        with pytest.raises(SpoolRefused, match="Input/output error"):
            opened.spool.append([message(1), message(2)])
    opened.spool.append([message(3)])
    assert opened.read() == [0, 3]
    opened.spool.close()
    again = Opened(folder)
    assert again.left == again.read() == [0, 3]
    assert again.spool.lost == []


def _fails(*_: object, **__: object) -> None:
    raise OSError(5, os.strerror(5))
