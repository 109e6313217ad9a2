"""Machines: network namespaces on a bridge of their own, each with an address and a host name.

The bridge and its wires are inside the namespaces too, so that no traffic leaves them and nothing of this machine's
network is touched. Their names have the pid of the test's process in them; all of them are removed in the end.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def machines(addresses: Mapping[str, str]) -> Iterator[dict[str, tuple[str, ...]]]:
    """Machines by name, each with an address in one /24; what to put before a command to run it there.

    The first has the bridge.
    """
    names = {name: f"rota-{os.getpid()}-{name}" for name in addresses}
    hub, *others = addresses
    made: list[str] = []
    try:
        for space in names.values():
            _ip("netns", "add", space)
            made.append(space)
            _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", names[hub], "link", "add", "hub", "type", "bridge")
        _ip("-n", names[hub], "addr", "add", f"{addresses[hub]}/24", "dev", "hub")
        _ip("-n", names[hub], "link", "set", "hub", "up")
        for name in others:
            wire = ("name", "eth0", "netns", names[name])
            _ip("-n", names[hub], "link", "add", f"to-{name}", "type", "veth", "peer", *wire)
            _ip("-n", names[hub], "link", "set", f"to-{name}", "master", "hub", "up")
            _ip("-n", names[name], "addr", "add", f"{addresses[name]}/24", "dev", "eth0")
            _ip("-n", names[name], "link", "set", "eth0", "up")
        yield {name: _before(name, space) for name, space in names.items()}
    finally:
        for space in made:
            _ip("netns", "delete", space)


def _before(name: str, space: str) -> tuple[str, ...]:
    """What runs a command on a machine, under its host name."""
    named = f'hostname {name} && exec "$@"'
    return ("ip", "netns", "exec", space, "unshare", "--uts", "sh", "-c", named, "sh")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
