"""The certificates of a node: a folder with `cert.pem`, `key.pem` and `ca.pem`, made by `rota tls` or another tool.

Only the owner may read the key. The files are checked periodically, so that a renewed certificate is used without a
restart: the HTTP door uses it for new connections, and so does the gRPC door by itself.
"""

import asyncio
import logging
import os
import ssl
import stat
from datetime import timedelta
from pathlib import Path

import msgspec

from rota.model.errors import Denied, Invalid

log = logging.getLogger(__name__)

CERT, KEY, AUTHORITY = "cert.pem", "key.pem", "ca.pem"
LOOK = timedelta(seconds=10)
"""How often the files are looked at."""


class Folder(msgspec.Struct, frozen=True):
    """Where a node's certificates are."""

    path: Path

    @property
    def cert(self) -> Path:
        """The certificate that the node presents."""
        return self.path / CERT

    @property
    def key(self) -> Path:
        """The key of that certificate."""
        return self.path / KEY

    @property
    def ca(self) -> Path:
        """The authority that must have signed the certificates of others."""
        return self.path / AUTHORITY

    def check(self) -> None:
        """Invalid or Denied says what is wrong with the files, before anything is opened."""
        for file in (self.cert, self.key, self.ca):
            if not file.is_file():
                raise Invalid(f"tls {self.path}: there is no {file.name}; make it with rota tls issue, or correct tls")
        mode = stat.S_IMODE(self.key.stat().st_mode)
        if mode & 0o077:
            raise Denied(f"key {self.key} may be read by others (mode {mode:04o}); run: chmod 600 {self.key}")
        self.server_context()
        self.client_context()

    def server_context(self, *, asks_back: bool = False) -> ssl.SSLContext:
        """The TLS context of a server; with `asks_back` clients must present a certificate of the same authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if asks_back:
            context.verify_mode = ssl.CERT_REQUIRED
        self.load(context)
        return context

    def client_context(self) -> ssl.SSLContext:
        """The TLS context of a client of another node."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Load the present files into a context."""
        try:
            context.load_cert_chain(self.cert, self.key)
            context.load_verify_locations(self.ca)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise Invalid(
                f"tls {self.path}: {CERT}, {KEY} and {AUTHORITY} must be PEM files that fit together ({error})"
            ) from None

    def stamp(self) -> tuple[int, ...]:
        """Something that changes when the files do."""
        return tuple(os.stat(file).st_mtime_ns for file in (self.cert, self.key, self.ca))


async def keep_fresh(folder: Folder, context: ssl.SSLContext) -> None:
    """Load renewed files into a context, until cancelled."""
    seen = folder.stamp()
    while True:
        await asyncio.sleep(LOOK.total_seconds())
        try:
            if (stamp := folder.stamp()) != seen:
                folder.load(context)
                seen = stamp
                log.info("certificate renewed", extra={"file": str(folder.cert)})
        except (OSError, Invalid) as error:  # half written: the next look finds it whole
            log.warning("certificate not renewed", extra={"file": str(folder.cert), "why": str(error)})
