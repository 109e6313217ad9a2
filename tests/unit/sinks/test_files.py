"""The sink in a file: rotation, torn lines, a disk that fails, and one process at a time."""

import errno
import json
import os
from pathlib import Path

import pytest

from rota.model.errors import Conflict, Invalid
from rota.sinks import open_sink
from tests.kit.sinks import Told, message, messages, numbers, read_lines
from tests.kit.waiting import eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file."""
    return tmp_path / "messages.jsonl"


@pytest.fixture
def told() -> Told:
    """What became of messages."""
    return Told()


async def write(path: Path, count: int, *, first: int = 0, options: str = "") -> None:
    async with open_sink(f"file://{path}{options}", Told()) as sink:
        for one in messages(count, first=first):
            await sink.publish([one])
            await sink.flush()


async def test_a_line_is_json_that_people_can_read(path: Path, told: Told) -> None:
    async with open_sink(f"file://{path}", told) as sink:
        await sink.publish([message(7, "r1", payload="grün".encode(), key="k"), message(8, payload=b"\xff")])
        await sink.flush()
    text, binary = [json.loads(line) for line in path.read_text().splitlines()]
    assert text == {
        "id": f"{7:032x}",
        "kind": "room",
        "resource": "r1",
        "node": "a",
        "time": "2026-11-16T12:00:00.250000Z",
        "key": "k",
        "text": "grün",
    }
    assert binary["base64"] == "/w=="


async def test_a_full_file_gets_a_number_and_another_is_begun(path: Path) -> None:
    await write(path, 10, options="?rotate=300")
    full = sorted(path.parent.glob("messages.jsonl.0*"))
    assert [one.name for one in full][:2] == ["messages.jsonl.000001", "messages.jsonl.000002"]
    assert numbers(one for file in [*full, path] for one in read_lines(file)) == list(range(10))


async def test_what_is_confirmed_after_the_file_was_deleted_is_in_a_new_one(path: Path, told: Told) -> None:
    async with open_sink(f"file://{path}", told) as sink:
        await sink.publish([message(1)])
        await sink.flush()
        path.unlink()
        await sink.publish([message(2)])
        await sink.flush()
    assert numbers(told.confirmed_ones) == [1, 2]
    assert numbers(read_lines(path)) == [2]


async def test_only_so_many_full_files_are_kept(path: Path) -> None:
    await write(path, 20, options="?rotate=1&keep=2")
    assert [one.name[-6:] for one in sorted(path.parent.glob("messages.jsonl.0*"))] == ["000018", "000019"]


async def test_numbers_go_on_after_a_restart(path: Path) -> None:
    await write(path, 3, options="?rotate=1")
    await write(path, 2, first=3, options="?rotate=1")
    full = sorted(path.parent.glob("messages.jsonl.0*"))
    assert numbers(one for file in [*full, path] for one in read_lines(file)) == list(range(5))


async def test_a_torn_line_is_cut_off(path: Path) -> None:
    await write(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"id":"' + b"x" * 100_000)
    await write(path, 1, first=2)
    assert numbers(read_lines(path)) == [0, 1, 2]


async def test_a_file_that_is_one_torn_line_is_begun_anew(path: Path) -> None:
    path.write_bytes(b'{"id":')
    await write(path, 1)
    assert numbers(read_lines(path)) == [0]


async def test_a_second_process_is_kept_out(path: Path, told: Told) -> None:
    async with open_sink(f"file://{path}", told):
        with pytest.raises(Conflict, match="another process has it"):
            async with open_sink(f"file://{path}", told):
                pass


async def test_a_full_disk_delays_and_leaves_no_half_line(
    path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = os.write, []

    def half(file: int, data: bytes) -> int:
        if len(failures) < 4:
            failures.append(1)
            if len(failures) % 2:
                return real(file, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    async with open_sink(f"file://{path}", told) as sink:
        monkeypatch.setattr("rota.sinks.file.os.write", half)
        await sink.publish(messages(10))
        await eventually(lambda: "No space left" in (sink.trouble or ""))
        await sink.flush()
        assert sink.trouble is None
    assert path.read_bytes().endswith(b"\n")
    assert numbers(read_lines(path)) == list(range(10))
    assert told.twice == []


async def test_a_reader_that_has_gone_is_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        async with open_sink("stdout://", told) as sink:
            await sink.publish(messages(1))
            with pytest.raises(Invalid, match="its reader has ended"):
                await sink.flush()
            with pytest.raises(Invalid, match="its reader has ended"):
                await sink.publish(messages(1))
    assert told.confirmed_ones == []
