"""The keeper: a small process beside the agent that ends what the app left in the node's cgroup when the agent dies.

It is run as a program of its own, `python -I -S keeper.py ROOT`, and imports nothing of Rota's, so that it is small and
there at once. First it shows that processes can enter a cgroup below ROOT and leave it, and writes "ok", or why not.
Then it waits until its stdin ends, which is when the agent has; whatever is in ROOT then is killed, and ROOT removed.
"""

import os
import signal
import sys
import time

PATIENCE = 10.0
"""Seconds for killed processes to be gone, before their empty cgroups are left to the node's next start."""


def main(root: str) -> None:
    """Run as the keeper of one cgroup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it must end with the agent, and not before
    try:
        _try_out(root)
    except OSError as error:
        os.write(1, f"{error.filename or root}: {error.strerror}".encode())
        return
    os.write(1, b"ok")
    while os.read(0, 4096):
        pass
    remove(root, PATIENCE)


def _try_out(root: str) -> None:
    """Enter a cgroup below `root` and come back; OSError if that cannot be done."""
    probe, outside = os.path.join(root, "probe"), os.path.dirname(root)
    os.mkdir(probe)
    try:
        os.stat(os.path.join(probe, "cgroup.kill"))
        enter(probe)
        enter(outside)
    finally:
        os.rmdir(probe)


def enter(cgroup: str) -> None:
    """Move this process, and with it all that it will start, into a cgroup."""
    _write(os.path.join(cgroup, "cgroup.procs"), b"0")


def kill(cgroup: str) -> None:
    """SIGKILL to all processes in a cgroup and below; nothing if there is no such cgroup."""
    try:
        _write(os.path.join(cgroup, "cgroup.kill"), b"1")
    except OSError:
        return


def _write(path: str, data: bytes) -> None:
    """Write to a file of the kernel's, which must be there."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def remove(root: str, patience: float) -> bool:
    """Kill what is in a cgroup and below, and remove it; False if something is still there after `patience`."""
    end = time.monotonic() + patience
    kill(root)
    while not removed(root):
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
        kill(root)
    return True


def removed(root: str) -> bool:
    """Remove a cgroup and those below it as far as they are empty; is it gone?"""
    for folder, _, _ in os.walk(root, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            continue
    return not os.path.exists(root)


if __name__ == "__main__":
    main(sys.argv[1])
