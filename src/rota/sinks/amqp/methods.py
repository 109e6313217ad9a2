"""Methods of AMQP 0-9-1: those a publisher sends, as bytes, and those it receives, as records.

Only what publishing takes is here. `parse` returns a record for what a server may say to a publisher, and raises
Garbled for anything else.
"""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from rota.sinks.amqp.frames import METHOD, FieldReader, Garbled, Value, frame, long, short, table

NAME = struct.Struct("!HH")
MANDATORY = 1


class Start(NamedTuple):
    """The server's greeting."""

    mechanisms: tuple[str, ...]


class Tune(NamedTuple):
    """What the server proposes; 0 is no limit, and no heartbeat."""

    most_channels: int
    largest_frame: int
    heartbeat: int


class Opened(NamedTuple):
    """The vhost is open."""


class Closed(NamedTuple):
    """The server ends the connection, and why."""

    code: int
    text: str


class CloseOk(NamedTuple):
    """The server agrees that the connection ends."""


class Blocked(NamedTuple):
    """The server takes no messages until further notice."""

    why: str


class Unblocked(NamedTuple):
    """It takes them again."""


class ChannelOpened(NamedTuple):
    """The channel is there."""


class ChannelClosed(NamedTuple):
    """The server ends the channel, and why."""

    code: int
    text: str


class ChannelCloseOk(NamedTuple):
    """The server agrees that the channel ends."""


class Declared(NamedTuple):
    """The exchange is there."""


class Selected(NamedTuple):
    """From now on the server confirms."""


class Ack(NamedTuple):
    """The server has the message of that number, or all up to it."""

    number: int
    is_multiple: bool


class Nack(NamedTuple):
    """The server could not take the message of that number, or all up to it."""

    number: int
    is_multiple: bool


class Return(NamedTuple):
    """A message comes back; its header and body follow."""

    code: int
    text: str
    routing_key: str


Told: TypeAlias = (
    Start
    | Tune
    | Opened
    | Closed
    | CloseOk
    | Blocked
    | Unblocked
    | ChannelOpened
    | ChannelClosed
    | ChannelCloseOk
    | Declared
    | Selected
    | Ack
    | Nack
    | Return
)

_CONFIRMATION = struct.Struct("!QB")


def _start(reader: FieldReader) -> Start:
    reader.number(2)  # version
    reader.long()  # the server's properties
    return Start(tuple(reader.long().decode(errors="replace").split()))


def _return(reader: FieldReader) -> Return:
    code, text = reader.number(2), reader.short()
    reader.short()  # exchange
    return Return(code, text, reader.short())


PARSERS: Mapping[tuple[int, int], Callable[[FieldReader], Told]] = {
    (10, 10): _start,
    (10, 30): lambda reader: Tune(reader.number(2), reader.number(4), reader.number(2)),
    (10, 41): lambda reader: Opened(),
    (10, 50): lambda reader: Closed(reader.number(2), reader.short()),
    (10, 51): lambda reader: CloseOk(),
    (10, 60): lambda reader: Blocked(reader.short()),
    (10, 61): lambda reader: Unblocked(),
    (20, 11): lambda reader: ChannelOpened(),
    (20, 40): lambda reader: ChannelClosed(reader.number(2), reader.short()),
    (20, 41): lambda reader: ChannelCloseOk(),
    (40, 11): lambda reader: Declared(),
    (60, 50): _return,
    (60, 80): lambda reader: Ack(reader.number(8), bool(reader.number(1) & 1)),
    (60, 120): lambda reader: Nack(reader.number(8), bool(reader.number(1) & 1)),
    (85, 11): lambda reader: Selected(),
}

_ACK = NAME.pack(60, 80)


def parse(payload: bytes) -> Told:
    """What the server says."""
    if payload[: NAME.size] == _ACK and len(payload) == NAME.size + _CONFIRMATION.size:
        number, bits = _CONFIRMATION.unpack_from(payload, NAME.size)  # by far the most frequent
        return Ack(number, bool(bits & 1))
    reader = FieldReader(payload)
    name = (reader.number(2), reader.number(2))
    if name not in PARSERS:
        raise Garbled(f"the server said method {name[0]}.{name[1]}, which no publisher expects")
    return PARSERS[name](reader)


def start_ok(properties: Mapping[str, Value], mechanism: str, response: bytes) -> bytes:
    """Who we are."""
    return _method(0, 10, 11, table(properties) + short(mechanism) + long(response) + short("en_US"))


def tune_ok(tune: Tune) -> bytes:
    """What we agree on."""
    return _method(0, 10, 31, struct.pack("!HIH", *tune))


def open_vhost(name: str) -> bytes:
    """Open a vhost."""
    return _method(0, 10, 40, short(name) + short("") + b"\0")


def close(text: str) -> bytes:
    """End the connection."""
    return _method(0, 10, 50, struct.pack("!H", 200) + short(text) + NAME.pack(0, 0))


def close_ok() -> bytes:
    """Agree that the connection ends."""
    return _method(0, 10, 51)


def open_channel(channel: int) -> bytes:
    """Open a channel."""
    return _method(channel, 20, 10, short(""))


def close_channel(channel: int, text: str) -> bytes:
    """End a channel."""
    return _method(channel, 20, 40, struct.pack("!H", 200) + short(text) + NAME.pack(0, 0))


def channel_close_ok(channel: int) -> bytes:
    """Agree that a channel ends."""
    return _method(channel, 20, 41)


def declare_exchange(channel: int, name: str, kind: str, *, is_passive: bool) -> bytes:
    """Make a durable exchange unless it is there; passive: only ask whether it is."""
    passive, durable = 1, 2
    return _method(
        channel, 40, 10, b"\0\0" + short(name) + short(kind) + bytes([passive if is_passive else durable]) + table({})
    )


def confirm_select(channel: int) -> bytes:
    """Ask for confirmations."""
    return _method(channel, 85, 10, b"\0")


def publish(channel: int, exchange: str, routing_key: str, *, is_mandatory: bool) -> bytes:
    """Announce a message; its header and body follow."""
    bits = bytes([MANDATORY if is_mandatory else 0])
    return _method(channel, 60, 40, b"\0\0" + short(exchange) + short(routing_key) + bits)


def _method(channel: int, kind: int, number: int, arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, NAME.pack(kind, number) + arguments)
