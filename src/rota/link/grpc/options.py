"""Options of gRPC channels and servers: keepalive, back-off, limits, certificates.

`grpc.http2.ping_timeout_ms` is not in the usual lists of keepalive options. Without it a frozen peer is noticed after a
minute, with it after `keepalive` + `keepalive_timeout`.

`grpc.min_reconnect_backoff_ms` is not what its name says: it is how long one try to connect may take. Set as low as the
first wait between tries, it makes the first tries fail wherever the way is long or the peer busy.
"""

import logging
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import cast

import grpc

from rota.link.rules import MOST_BYTES
from rota.link.settings import LinkSettings, TlsFiles
from rota.model.errors import Invalid

log = logging.getLogger(__name__)

Options = tuple[tuple[str, int | str], ...]


def of_both(settings: LinkSettings) -> Options:
    """Options of both ends: either must notice that the other is gone."""
    return (
        ("grpc.max_receive_message_length", 2 * MOST_BYTES),  # `link.rules` counts more coarsely than protobuf
        ("grpc.max_send_message_length", 2 * MOST_BYTES),
        ("grpc.keepalive_time_ms", _milliseconds(settings.keepalive)),
        ("grpc.keepalive_timeout_ms", _milliseconds(settings.keepalive_timeout)),
        ("grpc.http2.ping_timeout_ms", _milliseconds(settings.keepalive_timeout)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    )


def of_link(settings: LinkSettings, tls: TlsFiles | None) -> Options:
    """Options of the calling end."""
    name: Options = (("grpc.ssl_target_name_override", tls.server_name),) if tls and tls.server_name else ()
    return (
        *of_both(settings),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),  # a node is a neighbour; a proxy for the web is not the way to it
        ("grpc.use_local_subchannel_pool", 1),  # each link has a connection of its own
        ("grpc.initial_reconnect_backoff_ms", _milliseconds(settings.first_reconnect)),
        ("grpc.min_reconnect_backoff_ms", _milliseconds(settings.connect)),
        ("grpc.max_reconnect_backoff_ms", _milliseconds(settings.last_reconnect)),
        *name,
    )


def of_server(settings: LinkSettings) -> Options:
    """Options of the answering end."""
    return (
        *of_both(settings),
        ("grpc.so_reuseport", 0),  # two nodes on one port would each get half of the calls
        ("grpc.http2.min_ping_interval_without_data_ms", 10),  # clients may ping often
        ("grpc.http2.max_ping_strikes", 0),
    )


def link_credentials(tls: TlsFiles) -> grpc.ChannelCredentials:
    """Credentials of the calling end: its certificate, and the authority it requires."""
    cert, key, authority = _read(tls)
    return grpc.ssl_channel_credentials(authority, key, cert)


def server_credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """Credentials of the answering end: a caller without a certificate is refused.

    The files are checked for each new connection, so that a renewed certificate is used from then on.
    """
    fetch = _Fetch(tls)
    first, again = fetch.configuration(), cast(Callable[[], grpc.ServerCertificateConfiguration], fetch)
    return grpc.dynamic_ssl_server_credentials(first, again, require_client_authentication=True)


class _Fetch:
    """Reads certificates again when their files have changed. gRPC calls it from threads of its own."""

    def __init__(self, tls: TlsFiles) -> None:
        self._tls = tls
        _read(tls)  # a file that is not there is named, and not only its absence
        self._seen = self._stamp()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        """The certificates to use from now on; None: as before."""
        try:
            if (stamp := self._stamp()) == self._seen:
                return None
            found = self.configuration()
        except (OSError, Invalid) as error:  # half written: the next connection finds it whole
            log.warning("certificate not renewed", extra={"file": str(self._tls.cert), "why": str(error)})
            return None
        self._seen = stamp
        return found

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        """The configuration from the files as they are now."""
        cert, key, authority = _read(self._tls)
        return grpc.ssl_server_certificate_configuration([(key, cert)], authority)

    def _stamp(self) -> tuple[int, ...]:
        return tuple(file.stat().st_mtime_ns for file in (self._tls.cert, self._tls.key, self._tls.ca))


def _read(tls: TlsFiles) -> tuple[bytes, bytes, bytes]:
    """The files' contents; Invalid says what is wrong with them, which gRPC would not."""
    cert, key, authority = _content("cert", tls.cert), _content("key", tls.key), _content("ca", tls.ca)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(tls.cert, tls.key)
        context.load_verify_locations(tls.ca)
    except (ssl.SSLError, ValueError) as error:
        raise Invalid(
            f"node link: cert {tls.cert}, key {tls.key} and ca {tls.ca} must be PEM files that fit together ({error})"
        ) from None
    return cert, key, authority


def _content(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"node link: cannot read {name} {path}: {error.strerror}") from None


def _milliseconds(duration: timedelta) -> int:
    return max(1, duration // timedelta(milliseconds=1))
