"""Endpoints: where etcd's members listen, and the target that gRPC gets.

One host becomes a name that gRPC resolves itself, again and again, so it may move. gRPC takes several members only
as a list of addresses: those are resolved once, at opening, and all must be of one family. A member that has no
address then is left out and logged; if none has one, the store is Unavailable.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence

import msgspec

from rota.model.errors import Invalid, Unavailable

DEFAULT_PORT = 2379

log = logging.getLogger(__name__)


class EtcdEndpoint(msgspec.Struct, frozen=True):
    """One member's client address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> EtcdEndpoint:
    """The endpoint `text` means: `host`, `host:port` or `[address]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise Invalid(f'etcd host "{text}": write host, host:port or [address]:port')
    return EtcdEndpoint(host, int(port))


async def target(endpoints: Sequence[EtcdEndpoint], store: str) -> str:
    """The gRPC target of these endpoints."""
    if len(endpoints) == 1:
        return f"dns:///{endpoints[0]}"
    found = dict(zip(endpoints, await asyncio.gather(*map(_addresses, endpoints)), strict=True))
    family = max((socket.AF_INET, socket.AF_INET6), key=lambda family: sum(family in one for one in found.values()))
    usable = {endpoint: addresses[family] for endpoint, addresses in found.items() if family in addresses}
    if not usable:
        names = ", ".join(map(str, endpoints))
        raise Unavailable(f"store {store}: no address found for {names}; check the names and this machine's DNS")
    for endpoint in found.keys() - usable.keys():
        log.warning("etcd member left out", extra={"store": store, "member": str(endpoint), "why": "no address"})
    scheme = "ipv4" if family == socket.AF_INET else "ipv6"
    return f"{scheme}:{','.join(str(EtcdEndpoint(host, endpoint.port)) for endpoint, host in usable.items())}"


async def _addresses(endpoint: EtcdEndpoint) -> dict[int, str]:
    """An endpoint's first address of each family."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        return {}
    return {family: str(address[0]) for family, _, _, _, address in reversed(found)}
