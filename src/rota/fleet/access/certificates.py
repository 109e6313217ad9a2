"""The certificates of a node: a folder with `cert.pem`, `key.pem` and `ca.pem`, made by `rota tls` or by anybody else.

Nobody else may read the key. The files are looked at again and again, so that a certificate that was renewed is shown
without a restart: the HTTP door takes it for new connections, and so does the gRPC door by itself.
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
        """What it shows."""
        return self.path / CERT

    @property
    def key(self) -> Path:
        """The key that belongs to it."""
        return self.path / KEY

    @property
    def ca(self) -> Path:
        """Who must have signed what others show."""
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
        """How this node answers; with `asks_back` callers must show a certificate of the same authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if asks_back:
            context.verify_mode = ssl.CERT_REQUIRED
        self.load(context)
        return context

    def client_context(self) -> ssl.SSLContext:
        """How this node calls another."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Have a context go by the files as they are now."""
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
    """Have a context go by renewed files, for ever."""
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
