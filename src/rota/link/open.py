"""Opening a link, and a door, by address.

The adapter is imported when its scheme is used, so that only processes that use gRPC import it: above all not the
loader and the workers, as a process that holds a gRPC channel cannot be forked safely. To add an adapter: a module that
is an `Adapter`, and a line here.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, cast

from rota.link import address as addresses
from rota.link.address import Address
from rota.link.port import Admit, IsRevoked, LinkServer, NodeHandler, NodeLink, Shown, TakeNote
from rota.link.records import Whom
from rota.link.settings import DEFAULT, LinkSettings, TlsFiles
from rota.model import adapters
from rota.model.errors import Invalid

ADAPTERS = {"grpc": "rota.link.grpc", "memory": "rota.link.memory"}
EXTRAS = {"grpc": "grpc"}
"""Which extra brings an adapter's library."""

More: TypeAlias = Callable[[], Sequence[Any]]
"""Returns the other handlers of a door, in the adapter's own types; called once its library is imported."""

GRACE = timedelta(seconds=2)
"""How long calls under way may take when a door closes."""


@asynccontextmanager
async def open_link(
    address: str,
    *,
    meant: Whom | None = None,
    token: Shown = None,
    settings: LinkSettings = DEFAULT,
    tls: TlsFiles | None = None,
    is_revoked: IsRevoked = lambda serial: False,
) -> AsyncIterator[NodeLink]:
    """The link to the node at an address, closed in the end; the first call connects to the node.

    `token` is sent with each call. With `tls`, a node whose certificate `is_revoked` is not called.
    """
    parsed = addresses.parse(address)
    if parsed.scheme == "grpc" and not parsed.port:
        raise Invalid(f'node address "{address}": port 0 is nowhere; name the port the node listens on')
    link = _adapter(parsed).open(parsed, meant, token, settings, tls, is_revoked)
    try:
        yield link
    finally:
        await link.close()


@asynccontextmanager
async def serve_link(
    address: str,
    handler: NodeHandler,
    *,
    settings: LinkSettings = DEFAULT,
    tls: TlsFiles | None = None,
    grace: timedelta = GRACE,
    more: More | None = None,
    admit: Admit | None = None,
    take_note: TakeNote | None = None,
    is_revoked: IsRevoked = lambda serial: False,
) -> AsyncIterator[LinkServer]:
    """A door at an address, open inside; its own `address` says which port it got. Conflict if the address is in use.

    `more` are the other services of the port, if clients other than nodes can reach it. `admit` judges every call to
    any service; without it every call is admitted. `take_note` is called for each refused call. With `tls`, a caller
    whose certificate `is_revoked` is refused, and its streams end.
    """
    parsed = addresses.parse(address)
    server = await _adapter(parsed).serve(parsed, handler, settings, tls, more, admit, take_note, is_revoked)
    try:
        yield server
    finally:
        await server.close(grace)


class Adapter(Protocol):
    """What an adapter's module offers."""

    def open(
        self,
        address: Address,
        meant: Whom | None,
        token: Shown,
        settings: LinkSettings,
        tls: TlsFiles | None,
        is_revoked: IsRevoked,
    ) -> NodeLink:
        """A link that has not been used yet."""

    async def serve(
        self,
        address: Address,
        handler: NodeHandler,
        settings: LinkSettings,
        tls: TlsFiles | None,
        more: More | None,
        admit: Admit | None,
        take_note: TakeNote | None,
        is_revoked: IsRevoked,
    ) -> LinkServer:
        """A door that is open."""


def _adapter(address: Address) -> Adapter:
    return cast(Adapter, adapters.adapter(f"node address {address}", address.scheme, ADAPTERS, EXTRAS))
