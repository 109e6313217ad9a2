"""A guard: a tiny process beside a worker, which kills the worker's whole group at its deadline or when the agent ends.

A worker cannot always do so itself: its code may be stuck, and what it started would not die with it. The guard is
forked before any of the app's code runs. It holds three things, and does nothing but watch them:

- the lifeline to the agent, where the kernel does not watch that by itself;
- the deadline of work that must not run twice at the same time, in a page of memory that the worker writes, or the
  agent for all its runs, and that the guard reads;
- a pipe from the worker: when it closes and the worker has ended, the guard does too. A program may close the pipe and
  go on, as it may close all it does not know; then the guard looks for the worker itself.

What left the group, for a session of its own for instance, is ended with it, as long as it descends from the worker.
"""

import contextlib
import mmap
import os
import select
import signal
import struct
import sys
from typing import NoReturn, Self

import setproctitle

from rota.kit.time.clock import SYSTEM
from rota.runtime.system import kernel

LOOK_MS = 100
_DEADLINE = struct.Struct("d")


class DeadlinePage:
    """A page of memory with a deadline in it, shared among processes."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    @classmethod
    def of(cls, fd: int) -> Self:
        """The page in a file that has been made large enough."""
        return cls(mmap.mmap(fd, mmap.PAGESIZE))

    @property
    def dead_by(self) -> float:
        """When the group must be gone; 0: never."""
        return float(_DEADLINE.unpack_from(self._memory, 0)[0])

    def set(self, dead_by: float) -> None:
        """Set the instant at which the guards that read this page kill their groups."""
        _DEADLINE.pack_into(self._memory, 0, dead_by)


class AgentLifeline:
    """What ties all workers of runs to the agent: one deadline, and a pipe that hangs up when the agent ends."""

    def __init__(self) -> None:
        self._file = kernel.scratch_file("deadline of runs")
        os.ftruncate(self._file, mmap.PAGESIZE)
        self._page = DeadlinePage.of(self._file)
        self._lifeline, self._life = os.pipe()  # hangs up when this process ends, and not before

    def set(self, dead_by: float) -> None:
        """Kill all of them at this instant, unless another is set before; 0: never."""
        self._page.set(dead_by)

    def outfit(self, orders: int | None) -> list[int]:
        """Descriptors for one worker: the end of a pipe to read; to hand over, its other end, the page and the orders.

        A worker without orders gets the lifeline in their place.
        """
        fds: list[int] = []
        try:
            fds += os.pipe()
            fds.append(os.dup(self._file))
            fds.append(os.dup(self._lifeline if orders is None else orders))
        except OSError:  # no descriptors are left, most likely
            for fd in fds:
                os.close(fd)
            raise
        return fds


class WorkerGuard:
    """The worker's side of its guard."""

    def __init__(
        self, title: str, lifeline: int | None, page: DeadlinePage | None = None, *, outlives_exec: bool = False
    ) -> None:
        self._page = page or DeadlinePage(mmap.mmap(-1, mmap.PAGESIZE))
        theirs, self._ours = os.pipe()
        os.set_inheritable(self._ours, outlives_exec)
        if (pid := kernel.fork()) == 0:
            _leave_parent()
            _be_guard(title, self._page, theirs, lifeline)
        os.close(theirs)
        os.waitpid(
            pid, 0
        )  # it forked once more and ended, so that the guard is no child that the app's code could meet

    def set_deadline(self, dead_by: float) -> None:
        """Kill the group at this instant, unless another is set before."""
        self._page.set(dead_by)


def _leave_parent() -> None:
    if kernel.fork() != 0:
        os._exit(0)


def _be_guard(title: str, page: DeadlinePage, worker: int, lifeline: int | None) -> NoReturn:
    try:
        watched = [fd for fd in (worker, lifeline) if fd is not None]
        close_all_but(watched)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        setproctitle.setproctitle(title)
        poll = select.poll()
        for fd in watched:
            poll.register(fd, select.POLLIN)
        has_hung_up = False
        while True:
            gone = {fd for fd, _ in poll.poll(LOOK_MS)}
            if worker in gone:
                poll.unregister(worker)
                has_hung_up = True
            if has_hung_up and not _is_there(os.getpgrp()):
                os._exit(0)
            if gone - {worker} or (page.dead_by and SYSTEM.monotonic() >= page.dead_by):
                _end_all(os.getpgrp())
    finally:
        os._exit(1)


def _is_there(leader: int) -> bool:
    """Is the worker not reaped yet? Its number cannot mean another process as long as this one is in its group."""
    try:
        os.kill(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as another user by now
        pass
    return True


def _end_all(leader: int) -> NoReturn:
    """Kill the worker and all that descends from it; last its group, to which this process belongs."""
    with contextlib.suppress(OSError):
        kernel.end(each.pid for each in kernel.kin_of(leader) if each.pid != os.getpid())
    os.killpg(leader, signal.SIGKILL)
    os._exit(1)


def close_all_but(keep: list[int]) -> None:
    """Close every descriptor except these, because other processes wait for some of them to close."""
    for fd in set(kernel.open_descriptors()).difference(keep):
        with contextlib.suppress(OSError):  # the descriptor that the listing itself used
            os.close(fd)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for as long as the process lives
