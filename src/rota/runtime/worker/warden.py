"""A warden: one guard for all attempts of a loader that have processes of their own.

A guard of its own (`runtime.worker.guard`) would cost each attempt two more forks, more than the attempt itself takes.
So the loader forks one warden when the first such attempt comes. Each worker enrols before any of the app's code runs
in it: it sends a handle on itself, so that the warden can never mistake another process for it. The warden ends all of
them, and what descends from them, when the agent is gone or when the instant in the page has come: the same things for
which a guard ends its group. It stays while it has processes to watch, even after its loader has left.

Where processes have no handles, or no warden can be started, a worker has a guard of its own.
"""

import contextlib
import os
import select
import signal
import socket
from typing import NoReturn

import setproctitle

from rota.kit.time.clock import SYSTEM
from rota.runtime.system import kernel
from rota.runtime.worker.guard import LOOK_MS, DeadlinePage, close_all_but


class Warden:
    """The loader's side of its warden."""

    def __init__(self, title: str, page: int, lifeline: int) -> None:
        theirs, self._desk = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = kernel.fork()
            if self.pid == 0:
                _be_warden(title, DeadlinePage.of(page), theirs, lifeline)

    def enrol(self) -> bool:
        """Have the warden watch this process, then close the line to it; False if that is impossible."""
        with self._desk, contextlib.suppress(OSError), kernel.own_handle() as handle:
            socket.send_fds(self._desk, [b"%d" % os.getpid()], [handle])
            return True
        return False

    def close(self) -> None:
        """Close the line: no more processes enrol, and the warden ends with the last one it watches."""
        self._desk.close()


def _be_warden(title: str, page: DeadlinePage, desk: socket.socket, lifeline: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        close_all_but([desk.fileno(), lifeline])
        setproctitle.setproctitle(title)
        _watch(page, desk, lifeline)
        os._exit(0)
    finally:
        os._exit(1)


def _watch(page: DeadlinePage, desk: socket.socket, lifeline: int) -> None:
    watched: dict[int, int] = {}
    """Handle → process id."""

    is_open = True
    poll = select.poll()
    for fd in (desk.fileno(), lifeline):
        poll.register(fd, select.POLLIN)
    while is_open or watched:
        ready = {fd for fd, _ in poll.poll(LOOK_MS)}
        for handle in ready & watched.keys():
            poll.unregister(handle)
            os.close(handle)
            del watched[handle]
        if desk.fileno() in ready:
            pid, handles, _, _ = socket.recv_fds(desk, 32, 1)
            if pid and handles:
                watched[handles[0]] = int(pid)
                poll.register(handles[0], select.POLLIN)
            elif not pid:
                poll.unregister(desk)
                is_open = False
        if lifeline in ready:
            _end(watched)
            return
        if page.dead_by and SYSTEM.monotonic() >= page.dead_by:
            _end(watched)


def _end(watched: dict[int, int]) -> None:
    """Kill the watched processes and all that descends from them."""
    for handle, pid in watched.items():
        if not kernel.has_ended(handle):  # its number is still its own
            kernel.end(each.pid for each in kernel.kin_of(pid))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
