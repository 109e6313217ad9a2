"""Where other machines reach this one: its address on the way to the store, and the hosts in its certificate."""

import socket
from pathlib import Path

from rota.fleet.access import certificates
from rota.fleet.core.members.reach import settled
from rota.model import url as urls
from rota.model.config import NodeConfig, is_loopback
from rota.model.errors import Invalid

ANY_PORT = 9
"""A port for the route lookup; nothing is sent there."""


def reachable(config: NodeConfig, *, is_default: bool) -> NodeConfig:
    """The settings, with an address that other machines can use added if they must reach the node and none is set."""
    if config.advertise is not None or not (config.insecure or config.tls):
        return config
    return settled(
        config,
        is_default=is_default,
        route=route_to_store(config.store),
        certified=_hosts_in_certificate(config.tls) if config.tls else (),
    )


def route_to_store(store: str) -> str | None:
    """This machine's address on its way to the store; None if that is on this machine, or its host is not known."""
    for host, port in urls.parse(store, "store", "etcd://127.0.0.1:2379").addresses(ANY_PORT):
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            for family, sort, protocol, _, address in found[:1]:
                with socket.socket(family, sort, protocol) as sock:
                    sock.connect(address)  # of datagrams: it only asks the system for the way
                    own = str(sock.getsockname()[0])
        except OSError:
            continue
        if not is_loopback(own):
            return own
    return None


def _hosts_in_certificate(folder: Path) -> tuple[str, ...]:
    """The hosts for which the node's certificate is good; none if it cannot be read, which the node says later."""
    try:
        from rota.kit.crypto import authority  # noqa: PLC0415  # an extra

        return authority.read(certificates.Folder(folder).cert.read_bytes()).hosts
    except (ModuleNotFoundError, OSError, ValueError, Invalid):
        return ()
