"""`make demo` as a newcomer meets it: what it tells, and what it leaves behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.kit.leash import LEASH
from tests.kit.process import ROOT
from tests.kit.waiting import eventually

DEMO = ROOT / "examples/demo.py"
COUNTED = ("requests", "messages", "runs", "records")


def left_in(folder: Path) -> list[str]:
    """The processes that know of a folder, and the files in it."""
    found = [str(path) for path in folder.iterdir()]
    for process in started_in(folder):
        with suppress(psutil.Error):
            found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found


def started_in(folder: Path) -> Iterator[psutil.Process]:
    """The processes that know of a folder."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(folder):
                yield process


def run(folder: Path) -> "subprocess.CompletedProcess[str]":
    """The demo to its end, without a terminal."""
    environ = {**os.environ, "TMPDIR": str(folder)}
    argv = [sys.executable, DEMO]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=200, check=False)


async def test_the_leader_dies_and_nothing_is_lost(tmp_path: Path) -> None:
    done = await asyncio.to_thread(run, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any("the dashboard is at http://127.0.0.1:" in line for line in lines)
    assert any("noticed that" in line for line in lines)
    told = [line.partition(" s  ")[2].split() for line in lines[-5:-1]]
    assert [words[0] for words in told] == list(COUNTED)
    assert [words[words.index("lost;") - 1] for words in told[:3]] == ["0", "0", "0"]
    assert lines[-2].rpartition("records   ")[2].startswith("no gap and no repeat in")
    assert lines[-1] == "demo: the leader died with all its work, and nothing was lost"
    await eventually(lambda: not left_in(tmp_path))


async def test_ctrl_c_in_a_terminal_leaves_nothing(tmp_path: Path) -> None:
    with terminal(tmp_path) as (demo, screen):
        said = bytearray()

        def is_told() -> bool:
            with suppress(BlockingIOError):
                said.extend(os.read(screen, 65_536))
            return b"the dashboard is at" in said

        def has_ended() -> bool:
            with suppress(OSError):
                is_told()  # a screen that nobody reads from would stop who writes to it
            return demo.poll() is not None

        await eventually(is_told, within=90)
        await eventually(lambda: len(psutil.Process(demo.pid).children()) == 3)
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: everybody in the foreground gets it
        await eventually(has_ended, within=60)
    assert demo.returncode == 130
    await eventually(lambda: not left_in(tmp_path))


@contextmanager
def terminal(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """The demo in a terminal of its own, and what is on its screen."""
    screen, inside = os.openpty()
    os.set_blocking(screen, False)
    demo = subprocess.Popen(
        [sys.executable, DEMO],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "TERM": "xterm", "COLUMNS": "200"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    LEASH.hold(demo.pid)
    try:
        os.close(inside)
        yield demo, screen
    except BaseException:
        for process in started_in(folder):  # nodes lead sessions of their own
            with suppress(psutil.Error):
                process.kill()
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGKILL)
        demo.wait()
        LEASH.release(demo.pid)
        os.close(screen)
