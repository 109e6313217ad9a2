"""The files of printed lines: whole lines, in order, bounded, and harmless whoever writes beside them."""

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.model.errors import Invalid, Unavailable
from rota.runtime import printed as module
from rota.runtime.printed import LARGEST, LONGEST, PART, Printed, subject_of, written
from tests.kit.disks import BadSectors

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def put(printed: Printed, *texts: str, subject: str = "x", at: datetime = AT) -> None:
    printed.append(subject, b"".join(written(at, 7, "0", text) for text in texts))


def texts(printed: Printed, after: str = "", tail: int | None = None) -> list[str]:
    return [line.text for line in printed.read("x", after, tail).lines]


@pytest.fixture
def printed(tmp_path: Path) -> Printed:
    return Printed(tmp_path)


def test_lines_are_read_as_they_were_printed_and_gone_on_behind(printed: Printed) -> None:
    assert printed.read("x").next == ""
    put(printed, "one", "two: é \ud800")
    put(printed, "of another", subject="y")
    part = printed.read("x")
    assert [(line.at, line.pid, line.part, line.text) for line in part.lines] == [
        (AT, 7, "0", "one"),
        (AT, 7, "0", "two: é \\ud800"),
    ]
    assert printed.read("x", part.next).lines == ()
    put(printed, "three")
    assert texts(printed, part.next) == ["three"]
    assert texts(printed, tail=2) == ["two: é \\ud800", "three"]
    assert texts(printed, part.next, tail=1) == ["three"]


def test_two_files_are_kept_and_no_more(printed: Printed, tmp_path: Path) -> None:
    line = "x" * 1000
    for number in range(2500):
        put(printed, f"{number} {line}", at=AT + timedelta(seconds=number))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    assert max(file.stat().st_size for file in files) <= LARGEST
    found, place = [], ""
    while (part := printed.read("x", place)).lines:
        assert sum(len(each.text) for each in part.lines) <= PART
        found += [int(each.text.split()[0]) for each in part.lines]
        place = part.next
    assert found == list(range(found[0], 2500))
    assert texts(printed, tail=3) == [f"{number} {line}" for number in (2497, 2498, 2499)]


def test_a_place_that_was_rotated_away_goes_on_with_the_first_line_that_is_kept(printed: Printed) -> None:
    put(printed, "first")
    place = printed.read("x").next
    for number in range(1, 1300):
        put(printed, "y" * 1000, at=AT + timedelta(seconds=number))
    assert printed.read("x", place).lines == printed.read("x").lines


def test_the_last_lines_are_of_both_files(printed: Printed) -> None:
    put(printed, "a", "b")
    put(printed, *["z" * 8000] * 70, at=AT + timedelta(seconds=1))
    put(printed, "c", at=AT + timedelta(seconds=2))
    assert len(texts(printed, tail=5)) == 5
    assert texts(printed, tail=1) == ["c"]


def test_a_long_line_is_cut_and_a_half_line_is_not_read_before_its_end(printed: Printed, tmp_path: Path) -> None:
    put(printed, "w" * 3 * LONGEST)
    assert [len(text) for text in texts(printed)] == [LONGEST]
    (file,) = tmp_path.iterdir()
    whole = written(AT, 7, "0", "late")
    with file.open("ab") as out:
        out.write(whole[:20])
    place = printed.read("x").next
    assert texts(printed, place) == []
    with file.open("ab") as out:
        out.write(whole[20:])
    assert texts(printed, place) == ["late"]


def test_what_is_no_line_of_ours_is_passed_over(printed: Printed, tmp_path: Path) -> None:
    put(printed, "one")
    (file,) = tmp_path.iterdir()
    with file.open("ab") as out:
        out.write(b"\0garbage\n2026-02-31T12:00:00.000000Z 1 - no such day\n" + b"q" * 2 * PART)
    assert texts(printed) == ["one"]
    end, place = file.stat().st_size, ""
    for _ in range(5):
        place = printed.read("x", place).next
    assert int(place.partition("@")[2]) > end - PART, "it does not stay in front of what is no line"


def test_a_link_or_a_file_of_another_sort_is_not_read(printed: Printed, tmp_path: Path) -> None:
    put(printed, "one")
    (file,) = tmp_path.iterdir()
    secret = tmp_path / "secret"
    file.rename(secret)
    file.symlink_to(secret)
    assert texts(printed) == []
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        put(printed, "two")
    file.unlink()
    os.mkfifo(file)
    assert texts(printed) == []


def test_half_a_line_that_a_full_disk_took_is_taken_back(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    put(printed, "one")
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: write(file, data[:9]))
        with pytest.raises(OSError, match="only a part"):
            put(printed, "two")
    put(printed, "three")
    assert texts(printed) == ["one", "three"]


@pytest.mark.parametrize("place", ["x", "2026@1", "2026-01-31T12:00:00.000000Z@-1"])
def test_a_place_that_is_none_is_refused(printed: Printed, place: str) -> None:
    with pytest.raises(Invalid, match="it must be the next of an earlier answer"):
        printed.read("x", place)


def test_old_files_go_and_the_oldest_of_too_many(
    printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    now = AT.timestamp()
    for age, name in enumerate(("a", "b", "c", "d", "e")):
        put(printed, "line", subject=name)
        newest = next(file for file in tmp_path.iterdir() if file.stat().st_mtime > now + 1)
        os.utime(newest, (now - age, now - age))
    printed.tidy(now)
    assert [len(printed.read(name).lines) for name in "abcde"] == [1, 1, 1, 0, 0]
    printed.tidy(now + module.KEPT + 1.5)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_read_is_said(printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BadSectors(monkeypatch)
    put(printed, "one")
    (file,) = tmp_path.iterdir()
    disk.hurt(file)
    with pytest.raises(Unavailable, match="printed lines of x cannot be read"):
        printed.read("x")
    disk.heal()
    assert texts(printed) == ["one"]


def test_files_of_an_earlier_user_of_the_app_go(printed: Printed, tmp_path: Path) -> None:
    put(printed, "one")
    (file,) = tmp_path.iterdir()
    if os.geteuid() == 0:  # nobody else can give files away
        os.chown(file, 65534, -1)
        assert texts(printed) == []
        printed.tidy(file.stat().st_mtime)
        put(printed, "two")
        assert texts(printed) == ["two"]


def test_what_callers_name() -> None:
    named = [("room", "1"), ("service", "chat"), ("stream", "clicks"), ("worker", "n1")]
    assert len({subject_of(*each) for each in named}) == len(named)
    assert subject_of("worker", "n1") == subject_of("worker", "n2"), "each node has its own files"
