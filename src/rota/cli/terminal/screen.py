"""Screen: lines for stdout and stderr, written by a thread so that the event loop never blocks.

A thread writes. A reader that is slow makes `show` wait, as a pipe does, while signals are still heeded. Where a line
cannot be written it is dropped: the disk is full, the terminal is closed, or the reader of the pipe is gone, which is
reported once by `on_reader_gone`. After `stop_waiting` nothing waits any more.

The thread writes to the descriptors themselves: one that hangs in Python's own buffer would make the interpreter abort
at its end. It wakes the loop once for many lines: signals come to the loop by the same small pipe as such calls, and a
signal that finds the pipe full is lost.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO

from rota.cli.terminal import colours

MOST = 1 << 20
"""Bytes that may wait to be written."""

LAST_WORDS = 1.0
"""Seconds that the last lines may take."""


class Screen:
    """Writes lines, in the order in which they come."""

    def __init__(self, on_reader_gone: Callable[[], None] = lambda: None) -> None:
        self.dropped = 0
        """Lines that could not be written."""

        self.has_colours = sys.stdout is not None and colours.wanted(sys.stdout)
        self._on_reader_gone = on_reader_gone
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._waiting = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._waits = True
        self._is_reader_gone = False
        self._reports: deque[tuple[int, OSError | None]] = deque()
        self._is_called = False
        """Will the loop look at the reports?"""

        threading.Thread(target=self._write_all, name="screen", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Do lines wait to be written?"""
        return self._waiting > 0

    async def show(self, line: str) -> None:
        """Write a line to stdout; return when there is room for the next one."""
        await self._put(sys.stdout, line)

    async def warn(self, line: str) -> None:
        """Write a line to stderr; return when there is room for the next one."""
        await self._put(sys.stderr, line)

    def stop_waiting(self) -> None:
        """Drop what there is no room for, from now on."""
        self._waits = False
        self._has_room.set()

    async def close(self) -> None:
        """Give the lines that wait a moment to be written."""
        self.stop_waiting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                while self.is_busy:
                    self._has_room.clear()
                    await self._has_room.wait()

    async def _put(self, stream: TextIO | None, line: str) -> None:
        await self._has_room.wait()
        if stream is None or self._is_reader_gone or self._waiting >= MOST:
            self.dropped += 1
            return
        data = f"{line}\n".encode(stream.encoding, "backslashreplace")
        self._waiting += len(data)
        self._lines.put((stream.fileno(), data))
        if self._waiting >= MOST and self._waits:
            self._has_room.clear()

    def _write_all(self) -> None:
        """Write for as long as the process lives."""
        while True:
            fd, data = self._lines.get()
            error: OSError | None = None
            try:
                _write(fd, data)
            except OSError as failed:
                error = failed
            self._reports.append((len(data), error))
            if not self._is_called:
                self._is_called = True
                with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
                    self._loop.call_soon_threadsafe(self._take_reports)

    def _take_reports(self) -> None:
        self._is_called = False  # first: what is reported from now on calls again
        while self._reports:
            self._written(*self._reports.popleft())

    def _written(self, size: int, error: OSError | None) -> None:
        self._waiting -= size
        self._has_room.set()
        if error is not None:
            self.dropped += 1
        if isinstance(error, BrokenPipeError) and not self._is_reader_gone:
            self._is_reader_gone = True
            self._on_reader_gone()


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
