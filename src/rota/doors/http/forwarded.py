"""The client behind a proxy: `X-Forwarded-For` and `X-Forwarded-Proto`, trusted from trusted proxies alone.

Any client can send these headers. They count only if the connection comes from an address in `trusted_proxies`, which
is empty by default. Then the client is the last address of the list that is no trusted proxy: what stands before it was
written by the client. An entry that is no address is ignored.

The address of the proxy is kept: `address_of` gives both, as `203.0.113.7 via 10.0.0.5`, for the audit trail.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

Network: TypeAlias = IPv4Network | IPv6Network

VIA = "rota.via"
"""The key of a request's scope that holds the proxy it came through."""

MOST = 20
"""Addresses of the header that are looked at, from its end."""


class Forwarded:
    """Gives requests of trusted proxies the address and the scheme of their caller."""

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app, self._trusted = app, trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.get("client")
        if self._trusted and scope["type"] == "http" and peer and is_trusted(peer[0], self._trusted):
            scope = {**scope, VIA: peer[0]}
            headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
            listed = ",".join(value for name, value in headers if name == b"x-forwarded-for")
            scope["client"] = (caller_behind(peer[0], listed, self._trusted), 0)
            said = next((value for name, value in headers if name == b"x-forwarded-proto"), "")
            if said.strip().lower() in ("http", "https"):
                scope["scheme"] = said.strip().lower()
        await self._app(scope, receive, send)


def caller_behind(proxy: str, listed: str, trusted: Sequence[Network]) -> str:
    """The last address of a list that is no trusted proxy; the proxy itself if the list has none that can be read."""
    found = proxy
    for text in reversed(listed.split(",")[-MOST:]):
        address = _read(text)
        if address is None:
            return found
        found = str(address)
        if not _is_trusted(address, trusted):
            return found
    return found


def address_of(request: Request) -> str:
    """Where a request comes from, and through which trusted proxy if there is one."""
    host = request.client.host if request.client else "nowhere"
    via = request.scope.get(VIA)
    return f"{host} via {via}" if via else host


def _read(text: str) -> IPv4Address | IPv6Address | None:
    """An address as headers and sockets have it: with a port or a zone, or in brackets."""
    text = text.strip().partition("%")[0]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    """Is this the address of a trusted proxy?"""
    return _is_trusted(_read(peer), trusted)


def _is_trusted(address: IPv4Address | IPv6Address | None, trusted: Sequence[Network]) -> bool:
    return address is not None and any(address in network for network in trusted)
