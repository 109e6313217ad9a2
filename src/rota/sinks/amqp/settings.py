"""Settings in an `amqp://` URL.

    amqp[s]://[user@]host[:5672][,host…][/vhost][?option=value&…]

    exchange=rota                the exchange; made, durable, unless it is there. Empty: the default one, which leads
                                 to the queue that the routing key names
    exchange_type=topic          topic, direct, fanout or headers
    declare=on|off               off: the exchange must be there
    routing_key={kind}.{id}      for messages that name none themselves
    unroutable=reject|ignore     what becomes of a message that no queue wants
    window=4096                  how many messages may be under way
    channels=2                   over how many channels the resources are shared out
    largest=16777216             how many bytes a message may have
    timeout=5s                   how long connecting, and each answer of the server, may take
    heartbeat=10s                how often both ends give a sign of life
    password_file=FILE           the user's password; or password_env=NAME (`sinks.url`)
    ca=FILE                      the authority that signed the server's certificate (amqps); else the public ones
    cert=FILE&key=FILE           what this machine shows to the server

Without a user it is guest, with the password guest. Several hosts are the members of one cluster, tried in turn.
"""

import ssl
from dataclasses import dataclass, field
from datetime import timedelta

from rota.model.errors import Invalid
from rota.sinks.amqp.frames import MOST_SHORT
from rota.sinks.template import Template, compile_template
from rota.sinks.url import Options, Password, SinkUrl

PORTS = {"amqp": 5672, "amqps": 5671}
LARGEST = 16 * 1024 * 1024
MOST_CHANNELS = 64
LONGEST_HEARTBEAT = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class AmqpSettings:
    """How to reach a RabbitMQ, and how to publish there."""

    shown: str
    """The URL without its password."""
    addresses: list[tuple[str, int]]
    tls: ssl.SSLContext | None
    user: str
    password: Password = field(repr=False)
    vhost: str
    exchange: str
    exchange_type: str
    is_declared: bool
    routing_key: Template
    is_mandatory: bool
    window: int
    channels: int
    largest: int
    timeout: timedelta
    heartbeat: timedelta


def read(url: SinkUrl) -> AmqpSettings:
    """What the URL says; Invalid names what is wrong with it."""
    options = Options(url)
    if not url.hosts:
        raise options.wrong("no host; write amqp://host/vhost")
    settings = AmqpSettings(
        shown=str(url),
        addresses=url.addresses(PORTS[url.scheme]),
        tls=_tls(url, options),
        user=url.user or "guest",
        password=options.password("" if url.user else "guest"),
        vhost=_vhost(url, options),
        exchange=_name(options, "exchange", "rota"),
        exchange_type=options.choice("exchange_type", ("topic", "direct", "fanout", "headers")),
        is_declared=options.choice("declare", ("on", "off")) == "on",
        routing_key=_template(options),
        is_mandatory=options.choice("unroutable", ("reject", "ignore")) == "reject",
        window=options.window(),
        channels=_at_most(options, "channels", 2, MOST_CHANNELS),
        largest=options.number("largest", LARGEST, least=1),
        timeout=options.duration("timeout", timedelta(seconds=5)),
        heartbeat=_heartbeat(options),
    )
    options.done()
    return settings


def _vhost(url: SinkUrl, options: Options) -> str:
    """The vhost: `/` unless the path names one, and `//`, which is `/%2F` decoded, names `/` too."""
    name = url.path.removeprefix("/") or "/"
    if len(name.encode()) > MOST_SHORT:
        raise options.wrong(f"the vhost has more than {MOST_SHORT} bytes")
    return name


def _name(options: Options, option: str, default: str) -> str:
    text = options.text(option)
    if text is None:
        return default
    if len(text.encode()) > MOST_SHORT:
        raise options.wrong(f"{option} has more than {MOST_SHORT} bytes")
    return text


def _template(options: Options) -> Template:
    text = options.text("routing_key")
    try:
        return compile_template("{kind}.{id}" if text is None else text)
    except ValueError as error:
        raise options.wrong(f"routing_key={text}: {error}") from None


def _at_most(options: Options, name: str, default: int, most: int) -> int:
    number = options.number(name, default, least=1)
    if number > most:
        raise options.wrong(f"{name}={number}; at most {most}")
    return number


def _heartbeat(options: Options) -> timedelta:
    heartbeat = options.duration("heartbeat", timedelta(seconds=10))
    if not timedelta(seconds=1) <= heartbeat <= LONGEST_HEARTBEAT:
        raise options.wrong("heartbeat must be from 1s to 1h")
    return heartbeat


def _tls(url: SinkUrl, options: Options) -> ssl.SSLContext | None:
    ca, cert, key = options.text("ca"), options.text("cert"), options.text("key")
    if url.scheme == "amqp":
        if ca or cert or key:
            raise options.wrong("ca=, cert= and key= are for amqps://")
        return None
    if key and not cert:
        raise options.wrong("key= without cert=; give both, or neither")
    try:
        made = ssl.create_default_context(cafile=ca)
        if cert:
            made.load_cert_chain(cert, key)
    except OSError as error:
        raise Invalid(f"sink {url}: the certificate files cannot be used: {error}") from None
    return made
