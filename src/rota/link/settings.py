"""Settings of the node link: timeouts and certificates.

The texts below the fields are the reference. The defaults fit a fleet in one data centre: the connection itself detects
a frozen peer within 13 s, and a call to it sooner.
"""

from datetime import timedelta
from pathlib import Path

import msgspec

from rota.model.errors import Invalid

_LEAST = timedelta(milliseconds=1)


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Both ends of a link."""

    check: timedelta = timedelta(seconds=2)
    """How long a peer check may take."""

    dispatch: timedelta = timedelta(seconds=5)
    """How long the answer to a start may take."""

    read_log: timedelta = timedelta(seconds=5)
    """How long a piece of a log may take."""

    keepalive: timedelta = timedelta(seconds=10)
    """How often an idle connection is probed."""

    keepalive_timeout: timedelta = timedelta(seconds=3)
    """How long the answer to a probe may take before the connection counts as dead."""

    connect: timedelta = timedelta(seconds=2)
    """How long one attempt to connect may take, including the TLS handshake."""

    first_reconnect: timedelta = timedelta(milliseconds=100)
    """The wait after the first failed attempt to connect; it doubles each time."""

    last_reconnect: timedelta = timedelta(seconds=1)
    """The longest such wait."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value < _LEAST:
                raise Invalid(f"link.{name} is {value}; it must be at least {_LEAST}")
        if self.first_reconnect > self.last_reconnect:
            raise Invalid("link.first_reconnect must not be longer than link.last_reconnect")


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates, as PEM files; a node has one set for both ends."""

    cert: Path
    """The certificate of this node."""

    key: Path
    """The key of that certificate."""

    ca: Path
    """The authority that must have signed the other's certificate. Both ends check it: this is mutual TLS."""

    server_name: str | None = None
    """The name in the other's certificate, where it is not the host of its address."""


DEFAULT = LinkSettings()
