"""What only root can do to a fleet on one machine: drop packets between nodes, and fill a node's disk.

Both want namespaces of our own, so that nobody else on the machine notices and nothing is left behind: `enter` starts
the program anew in a network and a mount table of its own. There each node has a loopback address of its own. Rules of
the routing drop what comes to it or from it; connections stay and fall silent, as when a cable is pulled.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "ROTA_OWN_GROUNDS"
"""Set where we are in namespaces of our own."""

OWN_LOOPBACK = "ip link set lo up && ip rule add pref 100 lookup local && ip rule del pref 0"
"""The rule by which an address is our own comes first as a rule; others must come before it to drop anything."""


def enter() -> None:
    """Start this program anew in namespaces of its own, if that is allowed; return otherwise."""
    if is_own() or not _may():
        return
    argv = [sys.executable, *sys.orig_argv[1:]]
    os.execvpe("unshare", [*_UNSHARE, *argv], {**os.environ, MARK: "yes"})


def is_own() -> bool:
    """Are we in namespaces of our own?"""
    return MARK in os.environ


_UNSHARE = ("unshare", "--net", "--mount", "sh", "-c", f'{OWN_LOOPBACK} && exec "$@"', "sh")


def _may() -> bool:
    try:
        done = subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False, timeout=30)
    except OSError:
        return False
    return done.returncode == 0


def address(number: int) -> str:
    """The loopback address of a node."""
    return f"127.0.1.{number + 1}" if is_own() else "127.0.0.1"


def drop(host: str, *, answers: bool) -> None:
    """Drop what is sent to this address, or what it answers."""
    _rule("add", host, answers=answers)


def deliver(host: str, *, answers: bool) -> None:
    """Drop it no more."""
    _rule("del", host, answers=answers)


def _rule(verb: str, host: str, *, answers: bool) -> None:
    which = "from" if answers else "to"
    subprocess.run(["ip", "rule", verb, "pref", "10", which, host, "blackhole"], check=True)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Callable[[], Path]]:
    """A file system of so many megabytes, and what fills it: the file that takes all the room."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "rota", path], check=True)
    rest = path / "rest"

    def fill() -> Path:
        with rest.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        return rest

    try:
        yield fill
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
