"""Frames and methods of AMQP: pika reads what we write, and we read what a server may say."""

import random

import pika
import pytest
from pika import spec
from pika.frame import decode_frame

from rota.sinks.amqp import methods
from rota.sinks.amqp.frames import BEAT, METHOD, AmqpDecoder, FieldReader, Frame, Garbled, frame, short, table
from rota.sinks.amqp.publishing import MOST_ROUTES, Encoder, returned_id
from rota.sinks.template import compile_template
from tests.kit.sinks import NOON, message

LARGEST_FRAME = 4096


def encoder(**settings: object) -> Encoder:
    usual = {
        "exchange": "e",
        "routing_key": compile_template("{kind}.{id}"),
        "is_mandatory": True,
        "channels": 1,
        "largest_payload": 1 << 20,
    }
    return Encoder(**{**usual, **settings})  # type: ignore[arg-type]


def read_by_pika(data: bytes) -> list[object]:
    """The frames as pika sees them."""
    found = []
    while data:
        size, one = decode_frame(data)
        assert size, "not whole"
        found.append(one)
        data = data[size:]
    return found


def told(method: object, channel: int = 0) -> methods.Told:
    """What we make of a method that pika wrote."""
    (one,) = AmqpDecoder().feed(pika.frame.Method(channel, method).marshal())
    assert one.type == METHOD
    return methods.parse(one.payload)


def test_frames_are_found_however_the_bytes_come() -> None:
    payloads = [bytes([number]) * number for number in range(1, 60)]
    stream = b"".join(frame(METHOD, number, payload) for number, payload in enumerate(payloads))
    decoder, found, start = AmqpDecoder(), [], 0
    chance = random.Random(1)
    while start < len(stream):
        end = start + chance.randrange(1, 40)
        found += decoder.feed(stream[start:end])
        start = end
    assert found == [Frame(METHOD, number, payload) for number, payload in enumerate(payloads)]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"AMQP\x00\x00\x09\x01", "another version of AMQP"),
        (b"HTTP/1.1 400 Bad Request", "type 72"),
        (b"\x01\x00\x00\x7f\xff\xff\xff" + bytes(10), "frame of 2147483647 bytes"),
        (b"\x01\x00\x00\x00\x00\x00\x01ab", "no end"),
    ],
)
def test_what_is_not_amqp_is_said_to_be(data: bytes, why: str) -> None:
    with pytest.raises(Garbled, match=why):
        AmqpDecoder().feed(data)


def test_a_field_that_ends_too_early_is_garbled() -> None:
    with pytest.raises(Garbled, match="middle of a field"):
        FieldReader(b"\x05ab").short()
    with pytest.raises(Garbled, match=r"method 50\.10"):
        methods.parse(bytes([0, 50, 0, 10]))


def test_a_short_text_that_is_too_long_is_refused() -> None:
    assert short("é" * 127)[0] == 254
    with pytest.raises(ValueError, match="256 bytes; at most 255 fit"):
        short("é" * 128)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (spec.Connection.Start(mechanisms=b"PLAIN AMQPLAIN", locales=b"en_US"), methods.Start(("PLAIN", "AMQPLAIN"))),
        (spec.Connection.Tune(2047, 131072, 60), methods.Tune(2047, 131072, 60)),
        (spec.Connection.OpenOk(), methods.Opened()),
        (spec.Connection.Close(403, "ACCESS_REFUSED", 0, 0), methods.Closed(403, "ACCESS_REFUSED")),
        (spec.Connection.CloseOk(), methods.CloseOk()),
        (spec.Connection.Blocked("low on memory"), methods.Blocked("low on memory")),
        (spec.Connection.Unblocked(), methods.Unblocked()),
        (spec.Channel.OpenOk(), methods.ChannelOpened()),
        (spec.Channel.Close(404, "NOT_FOUND", 60, 40), methods.ChannelClosed(404, "NOT_FOUND")),
        (spec.Channel.CloseOk(), methods.ChannelCloseOk()),
        (spec.Exchange.DeclareOk(), methods.Declared()),
        (spec.Confirm.SelectOk(), methods.Selected()),
        (spec.Basic.Ack(7, True), methods.Ack(7, True)),
        (spec.Basic.Ack(8, False), methods.Ack(8, False)),
        (spec.Basic.Nack(9, True), methods.Nack(9, True)),
        (spec.Basic.Return(312, "NO_ROUTE", "e", "k"), methods.Return(312, "NO_ROUTE", "k")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_server_says_is_understood(said: object, expected: methods.Told) -> None:
    assert told(said) == expected


def test_what_we_say_is_understood() -> None:
    said = b"".join(
        [
            methods.start_ok({"product": "rota", "capabilities": {"basic.nack": True}}, "PLAIN", b"\0u\0p"),
            methods.tune_ok(methods.Tune(10, 4096, 5)),
            methods.open_vhost("v"),
            methods.open_channel(3),
            methods.declare_exchange(3, "e", "topic", is_passive=False),
            methods.declare_exchange(3, "e", "topic", is_passive=True),
            methods.confirm_select(3),
            methods.close_channel(3, "enough"),
            methods.channel_close_ok(3),
            methods.close("goodbye"),
            methods.close_ok(),
            BEAT,
        ]
    )
    start, tune, vhost, channel, declare, passive, select, close_channel, *_ = read_by_pika(said)
    assert start.method.client_properties == {"product": "rota", "capabilities": {"basic.nack": True}}
    assert (start.method.mechanism, start.method.response) == ("PLAIN", b"\0u\0p")
    assert (tune.method.channel_max, tune.method.frame_max, tune.method.heartbeat) == (10, 4096, 5)
    assert vhost.method.virtual_host == "v"
    assert isinstance(channel.method, spec.Channel.Open)
    assert (declare.method.exchange, declare.method.type, declare.method.durable) == ("e", "topic", True)
    assert (declare.method.passive, passive.method.passive) == (False, True)
    assert isinstance(select.method, spec.Confirm.Select)
    assert (close_channel.channel_number, close_channel.method.reply_text) == (3, "enough")


def test_a_message_is_published_persistent_and_with_its_properties() -> None:
    one = message(7, "r1", key="k", headers={"colour": "grün"}, payload=b"hello")
    method, header, body = read_by_pika(encoder().encode([one], LARGEST_FRAME))
    assert (method.method.exchange, method.method.routing_key, method.method.mandatory) == ("e", "room.r1", True)
    assert header.body_size == 5
    properties = header.properties
    assert (properties.delivery_mode, properties.message_id) == (2, f"{7:032x}")
    assert properties.timestamp == int(NOON.timestamp())
    assert properties.headers == {
        "rota-kind": "room",
        "rota-resource": "r1",
        "rota-node": "a",
        "rota-time-ms": int(NOON.timestamp() * 1000),
        "rota-key": "k",
        "colour": "grün",
    }
    assert body.fragment == b"hello"


@pytest.mark.parametrize("size", [0, 1, LARGEST_FRAME - 8, LARGEST_FRAME - 7, 3 * LARGEST_FRAME])
def test_a_body_goes_in_as_many_frames_as_it_needs(size: int) -> None:
    payload = random.Random(size).randbytes(size)
    _, header, *body = read_by_pika(encoder().encode([message(1, payload=payload)], LARGEST_FRAME))
    assert header.body_size == size
    assert b"".join(part.fragment for part in body) == payload
    assert all(len(part.fragment) <= LARGEST_FRAME - 8 for part in body)


def test_the_id_of_a_returned_message_is_found() -> None:
    data = encoder().encode([message(7, key="k")], LARGEST_FRAME)
    _, header, _ = AmqpDecoder().feed(data)
    assert returned_id(header.payload) == (7).to_bytes(16)


def test_a_returned_message_of_somebody_else_has_no_id_of_ours() -> None:
    strange = pika.frame.Header(1, 5, pika.BasicProperties(message_id="x")).marshal()
    (header,) = AmqpDecoder().feed(strange)
    assert returned_id(header.payload) == b""


def test_a_resource_stays_on_its_channel_and_resources_are_shared_out() -> None:
    several = encoder(channels=4)
    channels = {f"r{number}": several.check(message(1, f"r{number}")).channel for number in range(100)}
    assert set(channels.values()) == {1, 2, 3, 4}
    assert all(several.check(message(2, name, node="b", to="t")).channel == one for name, one in channels.items())


def test_ways_are_not_kept_for_ever() -> None:
    made = encoder()
    for number in range(MOST_ROUTES + 10):
        made.check(message(1, f"r{number}"))
    assert len(made._routes) <= MOST_ROUTES
    assert made.check(message(1, "r0")).channel == 1


def test_tables_may_be_nested() -> None:
    assert table({"a": {"b": True}}) == b"\x00\x00\x00\x0b\x01aF\x00\x00\x00\x04\x01bt\x01"
