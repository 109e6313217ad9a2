"""A guard: a tiny process beside a worker, which ends the worker's whole group when that must not go on.

A worker cannot always do so itself: its code may be stuck, and what it started would not die with it. The guard is
forked before any of the app's code runs, holds nothing but three things, and does nothing but look at them:

- the lifeline to the agent, where the kernel does not watch that by itself;
- the deadline of exclusive work, in a page of memory that the worker writes and the guard reads;
- a pipe from the worker: when it closes, the worker has ended, and the guard does too.
"""

import mmap
import os
import select
import signal
import struct
import sys
from typing import NoReturn

import setproctitle

from rota.kit.clock import SYSTEM

LOOK_MS = 100
_DEADLINE = struct.Struct("d")


class Guard:
    """The worker's hold on its guard."""

    def __init__(self, title: str, lifeline: int | None) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        theirs, self._ours = os.pipe()
        if (pid := os.fork()) == 0:
            _leave_parent()
            _be_guard(title, self._page, theirs, lifeline)
        os.close(theirs)
        os.waitpid(
            pid, 0
        )  # it forked once more and ended, so that the guard is no child that the app's code could meet

    def set_deadline(self, dead_by: float) -> None:
        """End the group at this instant, unless another is set before."""
        _DEADLINE.pack_into(self._page, 0, dead_by)


def _leave_parent() -> None:
    if os.fork() != 0:
        os._exit(0)


def _be_guard(title: str, page: mmap.mmap, worker: int, lifeline: int | None) -> NoReturn:
    try:
        watched = [fd for fd in (worker, lifeline) if fd is not None]
        _close_all_but(watched)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        setproctitle.setproctitle(title)
        poll = select.poll()
        for fd in watched:
            poll.register(fd, select.POLLIN)
        while True:
            gone = [fd for fd, _ in poll.poll(LOOK_MS)]
            if worker in gone:
                os._exit(0)
            (dead_by,) = _DEADLINE.unpack_from(page, 0)
            if gone or (dead_by and SYSTEM.monotonic() >= dead_by):
                os.killpg(os.getpgrp(), signal.SIGKILL)
    finally:
        os._exit(1)


def _close_all_but(keep: list[int]) -> None:
    """Hold nothing whose closing somebody waits for."""
    low = 0
    for fd in sorted(keep):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(low, 4096))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for as long as the process lives
