"""Dead letters on a node's disk: all of them, whole, or the stream does not go on."""

import json
import os
from pathlib import Path

import pytest

from rota.streams.core.context import Record
from rota.streams.node.letter_files import Letters, NotKept
from rota.streams.task.transform import DeadLetter


def letter(offset: int, size: int = 10) -> DeadLetter:
    return DeadLetter(Record(partition=0, offset=offset, value=b"x" * size), "ValueError: no")


def offsets(file: Path) -> list[int]:
    return [json.loads(line)["offset"] for line in file.read_text().splitlines() if line.endswith("}")]


def test_a_file_that_is_full_refuses_letters_and_keeps_those_it_has(tmp_path: Path) -> None:
    letters = Letters(tmp_path, "clicks", most=10_000)
    for offset in range(5):
        letters.put_aside([letter(offset, size=1000)])
    with pytest.raises(NotKept, match="look into it, and move it away"):
        letters.put_aside([letter(5, size=5000)])
    assert [each.name for each in tmp_path.iterdir()] == ["clicks.jsonl"]
    assert offsets(tmp_path / "clicks.jsonl") == list(range(5))


def test_letters_are_on_disk_when_they_are_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    Letters(tmp_path, "clicks").put_aside([letter(0)])
    assert {(tmp_path / "clicks.jsonl").stat().st_ino, tmp_path.stat().st_ino} <= set(synced)


def test_letters_that_cannot_be_written_leave_no_half_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = Letters(tmp_path, "clicks")
    letters.put_aside([letter(0)])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(NotKept, match="No space left on device; make room there"):
            letters.put_aside([letter(1)])
    letters.put_aside([letter(2)])
    assert offsets(tmp_path / "clicks.jsonl") == [0, 2]


def test_half_a_line_that_a_killed_worker_left_spoils_no_other(tmp_path: Path) -> None:
    letters = Letters(tmp_path, "clicks")
    letters.put_aside([letter(0)])
    with (tmp_path / "clicks.jsonl").open("a") as file:
        file.write('{"stream": "cli')
    letters.put_aside([letter(1)])
    assert offsets(tmp_path / "clicks.jsonl") == [0, 1]
