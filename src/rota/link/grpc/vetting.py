"""Vetting the node that is called: is its certificate revoked, or that of another node?

gRPC has verified that the certificate is of our authority, names the host and has not expired. It does not show the
certificate to the calling end. So for each connection a second one is made, up to the handshake, only to see the
certificate. The price is a handshake for each connection. It cannot detect an attacker in between who passes the second
connection through and intercepts the first.
"""

import asyncio
import contextlib
import ssl

from rota.kit.crypto import authority
from rota.kit.crypto.authority import Certificate
from rota.link.address import Address
from rota.link.port import IsRevoked
from rota.link.settings import TlsFiles
from rota.model.errors import Unavailable
from rota.model.ids import NodeId

GOOD_FOR = 60.0
"""Seconds after which the check is repeated: gRPC may have reconnected without notice."""


class Vetting:
    """The certificate of a node, and whether the node may still be called. For one event loop."""

    def __init__(self, address: Address, node: NodeId | None, tls: TlsFiles, is_revoked: IsRevoked) -> None:
        self._address, self._node, self._tls, self._is_revoked = address, node, tls, is_revoked
        self._shown: Certificate | None = None
        self._until = 0.0

    def forget(self) -> None:
        """Forget the result: there is a new connection, perhaps to another node."""
        self._shown = None

    async def check(self) -> None:
        """Raise Unavailable if the node must not be called, or presents no certificate."""
        now = asyncio.get_running_loop().time
        if self._shown is None or now() > self._until:
            self._shown, self._until = await self._look(), now() + GOOD_FOR
        if self._is_revoked(self._shown.serial):
            raise self._objection(f"its certificate {self._shown.serial} was revoked; give {self._shown.name} another")
        if self._node is not None and self._shown.kind and self._shown.name != self._node:
            raise self._objection(f"its certificate is of {self._shown.kind} {self._shown.name}, not of {self._node}")

    async def _look(self) -> Certificate:
        host = self._tls.server_name or self._address.host
        try:
            _, writer = await asyncio.open_connection(
                self._address.host, self._address.port, ssl=_context(self._tls), server_hostname=host
            )
        except OSError as error:
            raise self._objection(f"it did not show its certificate: {error}") from error
        try:
            shown: ssl.SSLObject = writer.get_extra_info("ssl_object")
            return authority.read_der(shown.getpeercert(binary_form=True) or b"")
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _objection(self, why: str) -> Unavailable:
        return Unavailable(f"node link {self._address}: {why}")


def _context(tls: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(tls.ca))
    context.load_cert_chain(tls.cert, tls.key)
    context.set_alpn_protocols(["h2"])  # gRPC requires ALPN in the handshake
    return context
