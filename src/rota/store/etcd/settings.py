"""Settings in an `etcd://` URL.

    etcd://[user@]host[:2379][,host…][/namespace][?option=value&…]

    timeout=5s              how long one call may take
    ca=FILE                 the authority that signed etcd's certificate; without it the public authorities
    cert=FILE&key=FILE      what this machine shows to etcd
    tls=on|off              on by itself when one of these files is named
    server_name=NAME        the name in etcd's certificate, where it is not the host
    password_file=FILE      the user's password; see also `store.url`

Of several members' certificates one name is checked, the first host's unless `server_name` says otherwise: gRPC
knows one name per channel. Certificates made by the usual tools all carry `localhost`.
"""

import ssl
from dataclasses import dataclass, field

from rota.model.errors import Invalid
from rota.store import rules
from rota.store.etcd import endpoints
from rota.store.etcd.endpoints import EtcdEndpoint
from rota.store.url import Options, StoreUrl

DEFAULT_NAMESPACE = "/rota"


@dataclass(frozen=True, kw_only=True)
class EtcdTls:
    """Our certificate, and the authority that etcd's must be signed by."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None = field(repr=False)
    server_name: str | None
    context: ssl.SSLContext = field(compare=False)
    """The same, for Python's own sockets."""


@dataclass(frozen=True, kw_only=True)
class EtcdSettings:
    """A URL, understood."""

    store: str
    """The URL as errors and logs show it."""

    endpoints: tuple[EtcdEndpoint, ...]
    namespace: str
    timeout: float
    tls: EtcdTls | None
    user: str | None
    password: str = field(repr=False)


def read(url: StoreUrl) -> EtcdSettings:
    """The settings `url` means; Invalid names what is wrong with it."""
    options = Options(url)
    settings = EtcdSettings(
        store=str(url),
        endpoints=_endpoints(url),
        namespace=_namespace(url),
        timeout=options.timeout().total_seconds(),
        tls=_tls(url, options),
        user=url.user,
        password=options.password() or "",
    )
    options.done()
    if settings.user and not settings.password:
        raise Invalid(f"store {url}: user {url.user} has no password; give ?password_file=FILE or ROTA_STORE_PASSWORD")
    return settings


def _endpoints(url: StoreUrl) -> tuple[EtcdEndpoint, ...]:
    if not url.hosts:
        raise Invalid(f"store {url} names no host; write etcd://127.0.0.1:2379")
    return tuple(endpoints.parse(host) for host in url.hosts)


def _namespace(url: StoreUrl) -> str:
    namespace = url.path.rstrip("/") or DEFAULT_NAMESPACE
    try:
        rules.check_key(namespace)
    except Invalid as error:
        raise Invalid(f"store {url}: its path is the prefix of every key; {error}") from None
    return namespace


def _tls(url: StoreUrl, options: Options) -> EtcdTls | None:
    authority, certificate, key = options.file("ca"), options.file("cert"), options.file("key")
    server_name = options.text("server_name")
    is_likely = (authority, certificate, key, server_name) != (None, None, None, None)
    if options.choice("tls", ("on", "off") if is_likely else ("off", "on")) == "off":
        return None
    if (certificate is None) != (key is None):
        raise Invalid(f"store {url}: cert and key go together; give both files or none")
    return EtcdTls(
        authority=authority,
        certificate=certificate,
        key=key,
        server_name=server_name,
        context=_context(url, authority),
    )


def _context(url: StoreUrl, authority: bytes | None) -> ssl.SSLContext:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if authority is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=authority.decode())
        if "cert" in url.options:
            context.load_cert_chain(url.options["cert"], url.options["key"])
    except (ssl.SSLError, ValueError) as error:
        raise Invalid(f"store {url}: ca, cert and key must be PEM files that fit together ({error})") from None
    return context
