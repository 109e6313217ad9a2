"""What only some systems can do, each with a way that works everywhere.

Linux gives us four things: a dead worker's orphans come to the agent (subreaper), the kernel itself kills a worker's
whole process group when the agent is gone (a signal on the lifeline's hang-up, which no stuck C code can keep from
coming), a handle on a process that never means another one (pidfd), and memory files. Elsewhere, or where
`ROTA_PORTABLE` is set, a thread watches the lifeline, processes are known by number while their channel is open, and
temporary files do. The tests run both ways.

Nothing outside this module asks which system it is on.
"""

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

_LINUX = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
_F_SETSIG = 10


def is_portable() -> bool:
    """Are the ways that work everywhere in use?"""
    return not _LINUX or bool(os.environ.get("ROTA_PORTABLE"))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    if not is_portable() and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def die_with(lifeline: int) -> None:
    """End this process and its group, with SIGKILL, when the other end of `lifeline` is closed.

    The lifeline is the reading end of a pipe into which nobody ever writes. The portable way is a thread, which loaders
    must not have and which code that is stuck holds up: they, and workers, have other ways (`loader`, `guard`).
    """
    if is_portable():
        threading.Thread(target=_watch, args=(lifeline,), name="rota lifeline", daemon=True).start()
        return
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if has_hung_up(lifeline):  # before it was armed, so nobody will tell
        _end_group()


def has_hung_up(lifeline: int) -> bool:
    """Is the other end closed?"""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    return bool(poll.poll(0))


def _watch(lifeline: int) -> None:
    with contextlib.suppress(OSError):
        os.read(lifeline, 1)
    _end_group()


def _end_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


class Handle:
    """A process: can be signalled, and watched where the system allows."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd: int | None = None
        if not is_portable() and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # gone already: the one who reaped it tells
                self._fd = os.pidfd_open(pid)
        self.is_closed = False

    def fileno(self) -> int | None:
        """Readable once the process has ended; None where nothing can be watched."""
        return self._fd

    def kill(self) -> None:
        """SIGKILL to the process and its group; nothing if it has ended."""
        self.kill_group()
        self.send(signal.SIGKILL)

    def kill_group(self) -> None:
        """SIGKILL to what is left of its group."""
        if not self.is_closed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """A signal to the process alone; nothing if it has ended."""
        if self.is_closed:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            else:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Let go; the number may soon mean another process."""
        self.is_closed = True
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def ended_children() -> Iterator[tuple[int, int]]:
    """Reap every child that has ended: its number and status. What is left of its group is ended with it.

    In that order, where it can be had: once a child is reaped, its number may mean another process.
    """
    while True:
        try:
            pid, status = _look_at_ended_child()
        except ChildProcessError:
            return
        if pid == 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        yield (pid, os.waitpid(pid, 0)[1] if status is None else status)


def _look_at_ended_child() -> tuple[int, int | None]:
    """A child that has ended, 0 if none has; with its status if it had to be reaped to be seen."""
    if is_portable():
        return os.waitpid(-1, os.WNOHANG)
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return (found.si_pid if found else 0), None


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as the system lets it have; a worker takes four."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else hard
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def descriptor_limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def scratch_file(name: str) -> int:
    """A file without a place, as a descriptor."""
    if not is_portable() and hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def native_threads() -> int | None:
    """How many threads this process has, also those Python does not know; None where nobody tells."""
    tasks = Path("/proc/self/task")
    return len(os.listdir(tasks)) if tasks.is_dir() else None


def children() -> list[int]:
    """The processes whose parent this one is; empty where nobody tells."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def end(pids: Iterable[int]) -> None:
    """SIGKILL to each, as far as they are there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
