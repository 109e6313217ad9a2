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
import errno
import fcntl
import hashlib
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_LINUX = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_F_SETSIG = 10
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


def is_portable() -> bool:
    """Is the portable way used, on any system?"""
    return not _LINUX or bool(os.environ.get("ROTA_PORTABLE"))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    if not is_portable() and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def forbid_new_privileges() -> None:
    """This process and its children can gain no rights: setuid programs such as sudo have no effect."""
    if _LINUX and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) was refused")


def die_with(lifeline: int) -> None:
    """End this process and its group, with SIGKILL, when the other end of `lifeline` is closed.

    The lifeline is the reading end of a pipe into which nothing is ever written. The portable way is a thread, which
    loaders must not have, and which stuck code can block; so loaders and workers have other ways (`loader`, `guard`).
    """
    if is_portable():
        threading.Thread(target=_watch, args=(lifeline,), name="rota lifeline", daemon=True).start()
        return
    _arm(lifeline, os.getpgrp())
    if has_hung_up(lifeline):  # it was closed before the signal was set up, so no signal will come
        _end_group()


def tie(child: int, lifeline: int) -> None:
    """From now on, end a child, which leads a group, with this process, and not only once it calls `die_with`.

    Before that call the child starts Python and imports, which takes a second on a busy machine. `lifeline` is the
    child's end, of which this process still has a copy. Does nothing where the kernel does not watch lifelines.
    """
    if not is_portable():
        with contextlib.suppress(OSError):  # it has ended already
            _arm(lifeline, child)


def _arm(lifeline: int, group: int) -> None:
    """Have the kernel send SIGKILL to a group when the other end closes. This belongs to the pipe, whichever process
    holds it."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -group)
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def has_hung_up(lifeline: int) -> bool:
    """Is the other end closed?"""
    return _is_readable(lifeline)


def _watch(lifeline: int) -> None:
    with contextlib.suppress(OSError):
        os.read(lifeline, 1)
    _end_group()


def _end_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


class ProcessHandle:
    """A process: can be signalled, and watched where the system allows."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd: int | None = None
        if not is_portable() and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # gone already: the process that reaped it reports the end
                self._fd = os.pidfd_open(pid)
        self.is_closed = False

    def fileno(self) -> int | None:
        """Readable once the process has ended; None where nothing can be watched."""
        return self._fd

    def kill(self) -> None:
        """Send SIGKILL to the process and its group; does nothing if it has ended."""
        self.kill_group()
        self.send(signal.SIGKILL)

    def kill_group(self) -> None:
        """SIGKILL to what is left of its group."""
        if not self.is_closed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone; does nothing if it has ended."""
        if self.is_closed:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            else:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Close the handle; the number may soon mean another process."""
        self.is_closed = True
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


@contextlib.contextmanager
def own_handle() -> Iterator[int]:
    """A handle on this process, readable once it has ended; OSError where there is none."""
    if is_portable() or not hasattr(os, "pidfd_open"):
        raise OSError(errno.ENOSYS, "processes have no handles here")
    handle = os.pidfd_open(os.getpid())
    try:
        yield handle
    finally:
        os.close(handle)


def has_ended(handle: int) -> bool:
    """Has the process of a handle ended?"""
    return _is_readable(handle)


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


class EndedProcess(NamedTuple):
    """A process that has ended: how, and what it used, with those of its children that it waited for."""

    pid: int
    status: int
    cpu_seconds: float
    peak_memory: int
    """In bytes."""


def ended_children() -> Iterator[EndedProcess]:
    """Reap every child that has ended. What is left of its group is ended with it.

    The group is ended before the child is reaped, where the system allows it: afterwards its number may mean another
    process.
    """
    while True:
        try:
            pid, ended = _look_at_ended_child()
        except ChildProcessError:
            return
        if pid == 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        yield ended or _ended(*os.wait4(pid, 0))


def _look_at_ended_child() -> tuple[int, EndedProcess | None]:
    """A child that has ended, 0 if none has; with its status and usage if it had to be reaped to be seen."""
    if is_portable():
        pid, status, used = os.wait4(-1, os.WNOHANG)
        return pid, _ended(pid, status, used)
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return (found.si_pid if found else 0), None


def _ended(pid: int, status: int, used: resource.struct_rusage) -> EndedProcess:
    return EndedProcess(pid, status, used.ru_utime + used.ru_stime, used.ru_maxrss * _MAXRSS_UNIT)


def peak_memory() -> int:
    """The most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


class Kin(NamedTuple):
    """A process by its number and the time of its birth, so that it never means another one."""

    pid: int
    born: int


def kin_of(leader: int) -> list[Kin]:
    """The living processes of a leader's session and group, and all that descend from them; itself if it lives.

    Empty without /proc: then only signals to the group are possible.
    """
    found = {each.kin.pid: each for each in _all_processes()}
    kin = {pid for pid, each in found.items() if leader in (pid, each.session, each.group)}
    grew = True
    while grew:
        more = {pid for pid, each in found.items() if each.parent in kin and pid not in kin}
        kin |= more
        grew = bool(more)
    return [found[pid].kin for pid in kin]


def processes_with(variable: str, value: str) -> list[Kin]:
    """The processes that were started with this variable in their environment, without this one and its ancestors."""
    wanted = f"{variable}={value}".encode()
    found = {each.kin.pid: each for each in _all_processes()}
    own, pid = set(), os.getpid()
    while pid in found and pid not in own:
        own.add(pid)
        pid = found[pid].parent
    return [each.kin for pid, each in found.items() if pid not in own and wanted in _environment(pid)]


def _environment(pid: int) -> list[bytes]:
    """The environment that a process was started with; empty if it belongs to another user."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if it has ended."""
    found = _process(pid)
    return None if found is None else found.parent


def still_there(kin: Iterable[Kin]) -> list[Kin]:
    """Those of these processes that have not ended."""
    return [each for each in kin if (now := _process(each.pid)) is not None and now.kin == each]


def signal_kin(leader: int, kin: Iterable[Kin], number: signal.Signals) -> None:
    """Send a signal to a leader's group, and to each of its kin outside the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    for each in still_there(kin):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(each.pid) != leader:
                os.kill(each.pid, number)


class _Process(NamedTuple):
    kin: Kin
    parent: int
    group: int
    session: int


def _all_processes() -> Iterator[_Process]:
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (found := _process(int(name))):
                yield found


def _process(pid: int) -> _Process | None:
    """A living process; a zombie counts as ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return _Process(Kin(pid, int(fields[19])), int(fields[1]), int(fields[2]), int(fields[3]))


def network_name() -> str:
    """The name of this process's network namespace: equal for processes with the same loopback, and for no others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/net").stat().st_ino
    except OSError:
        return socket.gethostname()
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:16]


def raise_descriptor_limit() -> None:
    """Raise this process's limit of descriptors as far as the system allows; a worker takes four."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else hard
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def descriptor_limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def open_descriptors() -> Iterable[int]:
    """The descriptors that this process has open, also above its limit; without /proc, all that there may be."""
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return range(descriptor_limit())


def scratch_file(name: str) -> int:
    """A file without a name, as a descriptor."""
    if not is_portable() and hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def native_threads() -> list[str]:
    """The names of this process's threads that Python does not know; empty where the system does not list them."""
    known = {os.getpid(), *(thread.native_id for thread in threading.enumerate())}
    names: list[str] = []
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            if int(task.name) not in known:
                with contextlib.suppress(OSError):  # it has ended
                    names.append((task / "comm").read_text().strip())
    return sorted(names)


def fork() -> int:
    """`os.fork`, without the warning that Python 3.12 and newer give when there are native threads.

    The caller has looked for threads before, and knows more about them than that warning does.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"This process .* is multi-threaded", DeprecationWarning)
        return os.fork()


def children() -> list[int]:
    """The children of this process; empty where the system does not list them."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def end(pids: Iterable[int]) -> None:
    """Send SIGKILL to each; processes that have ended are skipped."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
