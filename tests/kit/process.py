"""Real processes under test: started, killed, frozen and thawed by pid, each with all of its children.

A process gets a session of its own, so that one signal reaches its whole group. Its output goes to files: what it
had written when it was killed is there to be read.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Self
from urllib.parse import quote

from rota.store import url as urls
from tests.kit.leash import LEASH
from tests.kit.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
"""The repository."""


class Process:
    """One process and its children; it may be started again after it ended."""

    def __init__(self, argv: Sequence[object], output: Path, *, environ: Mapping[str, str] | None = None) -> None:
        self.output = output
        self.errors = output.with_suffix(".err")
        self._argv = [str(argument) for argument in argv]
        self._environ = environ
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id, which is the group's too."""
        assert self._running is not None, f"{self._argv[0]} was never started"
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._running is not None and self._running.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What it ended with, less than zero for a signal; None if it has not."""
        return self._running.poll() if self._running is not None else None

    def start(self) -> None:
        """Start it; what it writes is appended to its files."""
        with self.output.open("ab") as output, self.errors.open("ab") as errors:
            self._running = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=self._environ,
                cwd=ROOT,
                start_new_session=True,
            )
        LEASH.hold(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self, *, within: float = 30.0) -> None:
        """Ask it to end, and make it end if it does not; fine if it has ended."""
        if self.is_running:
            self.send(signal.SIGTERM)
            self._end(signal.SIGCONT, within=within)

    def freeze(self) -> None:
        """Stop it from running, with its connections open; returns when every thread of it stands still."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def freeze_between_writes(self, store: str) -> None:
        """Freeze it where it keeps nobody else from writing to the store of this URL.

        Frozen within a write it would hold the lock of a SQLite file, and the others would wait for it for ever.
        """
        end = time.monotonic() + PATIENCE
        self.freeze()
        while not can_write(store):
            self.thaw()
            assert time.monotonic() < end, f"{store} was locked whenever process {self.pid} was frozen"
            time.sleep(0.02)  # it gets on with its write
            self.freeze()

    def thaw(self) -> None:
        """Let it run again."""
        self.send(signal.SIGCONT)

    def lines(self) -> list[str]:
        """The whole lines it has written so far."""
        return [line.rstrip("\n") for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def complaint(self) -> str:
        """The end of what it wrote to its error output."""
        return self.errors.read_text(errors="replace")[-20_000:]

    def _end(self, last: signal.Signals, *, within: float = 30.0) -> None:
        assert self._running is not None
        self.send(last)
        try:
            self._running.wait(within)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self._running.wait(within)
        LEASH.release(self.pid)


def can_write(store: str) -> bool:
    """Whether nobody holds the store's write lock for long; a server takes it from who does."""
    url = urls.parse(store)
    if url.scheme != "sqlite":
        return True
    file = f"file:{quote(url.path[1:])}?mode=rw"
    with closing(sqlite3.connect(file, uri=True, timeout=0.2, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            return False
        connection.execute("ROLLBACK")
    return True


class Script(Process):
    """A module of this folder, run as a process of its own."""

    def __init__(self, module: str, *arguments: object, output: Path) -> None:
        super().__init__([sys.executable, "-W", "error", "-m", f"tests.kit.{module}", *arguments], output)

    @property
    def has_ended_well(self) -> bool:
        """Whether it has ended; AssertionError if it failed."""
        if self.is_running:
            return False
        assert self._running is not None
        assert self._running.returncode == 0, f"{self._argv} ended with {self._running.returncode}: {self.complaint()}"
        return True
