"""Messages as AMQP frames: basic.publish, a header with the properties, and the body.

What all messages of one resource from one node have in common is made once and kept (`PublishRoute`). The rest is
packed in one go, for this is what a message costs us: about two microseconds.
"""

import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from rota.sinks.amqp import methods
from rota.sinks.amqp.frames import BODY, END, HEADER, OVERHEAD, PREFIX, FieldReader, field, frame, short
from rota.sinks.port import Message
from rota.sinks.template import Template

KIND, RESOURCE, NODE, TIME, KEY = "rota-kind", "rota-resource", "rota-node", "rota-time-ms", "rota-key"
"""Headers of ours."""

ID_BYTES = 16
MOST_HEADERS = 32 * 1024
"""How many bytes key and headers may have: all properties go in one frame."""

MOST_ROUTES = 50_000
"""How many are kept; then all are made anew."""

_HAS_HEADERS, _HAS_MODE, _HAS_ID, _HAS_TIMESTAMP = 0x2000, 0x1000, 0x0080, 0x0040
_FLAGS = _HAS_HEADERS | _HAS_MODE | _HAS_ID | _HAS_TIMESTAMP
_PERSISTENT = 2

_HEAD = struct.Struct("!BHI HHQH I")  # the frame; class, weight, size of the body, flags; size of the table
_MILLISECONDS = struct.Struct("!q")
_TAIL = struct.Struct("!BB32sq c")  # delivery mode, message id, timestamp; the frame's end
_TIME_FIELD = short(TIME) + b"l"
_FIXED = _HEAD.size - PREFIX.size + _TAIL.size - len(END)
"""Bytes of a header beside its table."""


class PublishRoute:
    """What messages have in common that go the same way."""

    def __init__(self, channel: int, method: bytes, fields: bytes) -> None:
        self.channel = channel
        self.method = method
        """The frame that announces a message."""
        self.fields = fields
        """The headers that are always the same, and the name of the one that follows."""


class Encoder:
    """Makes frames of messages; resources are shared out over channels."""

    def __init__(
        self, *, exchange: str, routing_key: Template, is_mandatory: bool, channels: int, largest_payload: int
    ) -> None:
        self._exchange, self._routing_key, self._is_mandatory = exchange, routing_key, is_mandatory
        self._channels, self._largest_payload = channels, largest_payload
        self._routes: dict[tuple[str, str, str, str], PublishRoute] = {}

    def route(self, message: Message) -> PublishRoute:
        """The way of a message; ValueError says why it can have none."""
        way = (message.kind, message.resource, message.node, message.to)
        route = self._routes.get(way)
        if route is None:
            if len(self._routes) >= MOST_ROUTES:
                self._routes.clear()
            route = self._routes[way] = self._make_route(message)
        return route

    def check(self, message: Message) -> PublishRoute:
        """The way of a message that can be sent; ValueError says why it cannot."""
        if len(message.id) != ID_BYTES:
            raise ValueError(f"its id has {len(message.id)} bytes; ids have {ID_BYTES}")
        if len(message.payload) > self._largest_payload:
            raise ValueError(f"it has {len(message.payload)} bytes; at most {self._largest_payload} may be sent")
        if (message.key or message.headers) and len(_more(message)) > MOST_HEADERS:
            raise ValueError(f"its key and headers have more than {MOST_HEADERS} bytes")
        return self.route(message)

    def encode(self, messages: Iterable[Message], largest_frame: int) -> bytes:
        """The frames of checked messages."""
        return b"".join([self._encode(message, largest_frame) for message in messages])

    def _encode(self, message: Message, largest_frame: int) -> bytes:
        route, payload = self.route(message), message.payload
        more = _more(message) if message.key or message.headers else b""
        time = message.time.timestamp()
        table = len(route.fields) + _MILLISECONDS.size + len(more)
        head = _HEAD.pack(HEADER, route.channel, _FIXED + table, 60, 0, len(payload), _FLAGS, table)
        tail = _TAIL.pack(_PERSISTENT, 32, message.id.hex().encode(), int(time), END)
        body = _body(route.channel, payload, largest_frame - OVERHEAD)
        return b"".join((route.method, head, route.fields, _MILLISECONDS.pack(int(time * 1000)), more, tail, body))

    def _make_route(self, message: Message) -> PublishRoute:
        channel = channel_of(message.kind, message.resource, self._channels)
        key = message.to or self._routing_key(message)
        try:
            method = methods.publish(channel, self._exchange, key, is_mandatory=self._is_mandatory)
        except ValueError as error:
            raise ValueError(f"routing key {error}") from None
        names: Mapping[str, str] = {KIND: message.kind, RESOURCE: message.resource, NODE: message.node}
        fields = b"".join(field(name, value) for name, value in names.items())
        return PublishRoute(channel, method, fields + _TIME_FIELD)


def channel_of(kind: str, resource: str, channels: int) -> int:
    """The channel on which a resource's messages go: 1, 2, …"""
    return int.from_bytes(blake2b(f"{kind}/{resource}".encode(), digest_size=8).digest()) % channels + 1


def _more(message: Message) -> bytes:
    """The headers that differ from message to message."""
    key = field(KEY, message.key) if message.key else b""
    return key + b"".join(field(name, value) for name, value in message.headers.items())


def _body(channel: int, payload: bytes, most: int) -> bytes:
    """The body in frames; none if it is empty."""
    if len(payload) <= most:
        return PREFIX.pack(BODY, channel, len(payload)) + payload + END if payload else b""
    pieces = (payload[start : start + most] for start in range(0, len(payload), most))
    return b"".join(frame(BODY, channel, piece) for piece in pieces)


def returned_id(header: bytes) -> bytes:
    """The id of a message that came back, from its header frame; empty if it has none of ours."""
    reader = FieldReader(header)
    reader.number(12)
    flags = reader.number(2)
    if flags != _FLAGS:
        return b""
    reader.long()
    reader.number(1)
    return bytes.fromhex(reader.short())
