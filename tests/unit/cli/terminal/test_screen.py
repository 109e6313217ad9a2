"""The screen: a reader that is slow, gone or never there holds up lines and nothing else."""

import asyncio
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rota.cli.terminal.screen import MOST, Screen
from tests.kit.waiting import eventually


@contextmanager
def stdout(fd: int, patch: pytest.MonkeyPatch, encoding: str = "utf-8") -> Iterator[None]:
    with io.TextIOWrapper(io.FileIO(fd, "w"), encoding=encoding) as stream, patch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        yield


async def test_lines_are_written_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with stdout(writer, monkeypatch):
        screen = Screen()
        for number in range(3):
            await screen.show(str(number))
        await screen.close()
        assert os.read(reader, 100) == b"0\n1\n2\n"
        assert screen.dropped == 0
    os.close(reader)


def _until_written(file: Path, size: int) -> None:
    """Wait, and let no loop of this thread turn."""
    while file.stat().st_size < size:
        time.sleep(0.001)


async def test_the_loop_is_called_once_for_all_lines_that_were_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call takes room in the pipe by which signals come to the loop: 300 of them, and Ctrl-C was lost."""
    calls, loop, file = [], asyncio.get_running_loop(), tmp_path / "out"
    plain = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *what: (calls.append(what), plain(*what)))
    with stdout(os.open(file, os.O_WRONLY | os.O_CREAT), monkeypatch):
        screen = Screen()
        for _ in range(2000):
            await screen.show("a line")
        _until_written(file, 2000 * len("a line\n"))
        assert len(calls) == 1
        await eventually(lambda: not screen.is_busy)


async def test_what_a_full_disk_refuses_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with stdout(os.open("/dev/full", os.O_WRONLY), monkeypatch):
        screen = Screen()
        await screen.show("a line")
        await eventually(lambda: screen.dropped == 1)


async def test_it_is_reported_once_that_the_reader_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    reports: list[str] = []
    with stdout(writer, monkeypatch):
        screen = Screen(lambda: reports.append("gone"))
        await screen.show("a line")
        await eventually(lambda: reports)
        await screen.show("another")
        await screen.close()
        assert reports == ["gone"]
        assert screen.dropped == 2


async def test_a_reader_that_does_not_read_holds_up_lines_until_nothing_waits_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    with stdout(writer, monkeypatch):
        screen = Screen()

        async def show_for_ever() -> None:
            while not screen.dropped:
                await screen.show("x" * (MOST // 4))

        showing = asyncio.create_task(show_for_ever())
        done, _ = await asyncio.wait([showing], timeout=0.1)
        assert not done, "it does not wait"
        screen.stop_waiting()
        async with asyncio.timeout(60):
            await showing
        asyncio.get_running_loop().add_reader(reader, os.read, reader, MOST)
        await eventually(lambda: not screen.is_busy)
        asyncio.get_running_loop().remove_reader(reader)
    os.close(reader)


async def test_what_the_encoding_lacks_is_written_as_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with stdout(writer, monkeypatch, encoding="ascii"):
        screen = Screen()
        await screen.show("caf\xe9")
        await screen.close()
        assert os.read(reader, 100) == b"caf\\xe9\n"
    os.close(reader)


async def test_without_a_stdout_lines_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", None)
        screen = Screen()
        await screen.show("a line")
        assert screen.dropped == 1
