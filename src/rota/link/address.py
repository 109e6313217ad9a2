"""Addresses of the node link: `grpc://host:port`, `grpc://[::1]:7701`, `memory://name`."""

import re
from urllib.parse import unquote

import msgspec

from rota.model.errors import Invalid

_MOST = 253  # what DNS allows
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9.])?")
_LITERAL = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?")
HOW = "write grpc://host:port, grpc://[address]:port or memory://name"


class Address(msgspec.Struct, frozen=True):
    """The address of a node."""

    scheme: str
    host: str
    port: int = 0
    """0 takes any free port when a door is opened; a link needs the real one."""

    @property
    def authority(self) -> str:
        """Host and port, as gRPC writes them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"memory://{self.host}" if self.scheme == "memory" else f"{self.scheme}://{self.authority}"


def parse(text: str) -> Address:
    """The address `text` means; Invalid says how to write one."""
    scheme, separator, rest = text.partition("://")
    if not separator or not scheme:
        raise Invalid(f'node address "{text}" has no scheme; {HOW}')
    if scheme == "memory":
        if not _NAME.fullmatch(rest):
            raise Invalid(f'node address "{text}": a name has letters, digits, ".", "_" and "-"; {HOW}')
        return Address(scheme, rest)
    host, port = _split(text, rest)
    return Address(scheme, host, port)


def _split(text: str, authority: str) -> tuple[str, int]:
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        raise Invalid(f'node address "{text}" has no port; {HOW}')
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise Invalid(f'node address "{text}": "{port}" is not a port; ports are 0-65535')
    if host.startswith("[") and host.endswith("]"):
        host, fits = host[1:-1], _LITERAL
    elif ":" in host:
        raise Invalid(f'node address "{text}": an IPv6 address stands in brackets, like grpc://[::1]:7701')
    else:
        fits = _NAME
    if len(host) > _MOST or not fits.fullmatch(host):
        raise Invalid(f'node address "{text}": "{host}" is not a host; {HOW}')
    return host, int(port)


def caller_address(peer: str) -> str:
    """The address of a caller, as gRPC names it: `ipv4:127.0.0.1:52310`, `ipv6:%5B::1%5D:52310`."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
