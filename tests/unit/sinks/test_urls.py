"""What URLs of sinks may say, and what is said of those that say something else."""

from datetime import timedelta
from pathlib import Path

import pytest

from rota.model.errors import Invalid
from rota.sinks import kafka, open_sink
from rota.sinks.amqp import settings as amqp
from rota.sinks.url import parse
from tests.kit.sinks import Told, message

SECRET = "s3cr3t"


async def refusal(url: str) -> str:
    with pytest.raises(Invalid) as error:
        async with open_sink(url, Told()):
            pass
    assert SECRET not in str(error.value)
    return str(error.value)


def test_an_amqp_url_has_defaults() -> None:
    settings = amqp.read(parse("amqp://host"))
    assert settings.addresses == [("host", 5672)]
    assert (settings.user, settings.password(), settings.vhost) == ("guest", "guest", "/")
    assert (settings.exchange, settings.exchange_type, settings.is_declared) == ("rota", "topic", True)
    assert settings.routing_key(message(1, "r1")) == "room.r1"
    assert (settings.is_mandatory, settings.window, settings.tls) == (True, 4096, None)


def test_an_amqp_url_says_everything() -> None:
    settings = amqp.read(
        parse(
            f"amqp://ann:{SECRET}@one,two:5673/live?exchange=x&exchange_type=direct&declare=off&routing_key={{node}}"
            "&unroutable=ignore&window=10&channels=3&largest=5&timeout=2s&heartbeat=30s"
        )
    )
    assert settings.addresses == [("one", 5672), ("two", 5673)]
    assert (settings.user, settings.password(), settings.vhost) == ("ann", SECRET, "live")
    assert (settings.exchange, settings.exchange_type, settings.is_declared) == ("x", "direct", False)
    assert settings.routing_key(message(1)) == "a"
    assert (settings.is_mandatory, settings.window, settings.channels, settings.largest) == (False, 10, 3, 5)
    assert (settings.timeout, settings.heartbeat) == (timedelta(seconds=2), timedelta(seconds=30))
    assert SECRET not in repr(settings)
    assert settings.shown == "amqp://ann@one,two:5673/live"


@pytest.mark.parametrize("path", ["", "/", "/%2F"])
def test_the_vhost_is_the_root_unless_named(path: str) -> None:
    assert amqp.read(parse(f"amqp://host{path}")).vhost == "/"


def test_a_password_comes_from_a_file_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one\n")
    password = amqp.read(parse(f"amqp://ann@host?password_file={file}")).password
    assert password() == "one"
    file.write_text("two\n")
    assert password() == "two"
    file.unlink()
    with pytest.raises(Invalid, match="cannot read password_file"):
        password()


def test_a_password_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    password = amqp.read(parse("amqp://ann@host?password_env=RABBIT")).password
    monkeypatch.setenv("RABBIT", SECRET)
    assert password() == SECRET
    monkeypatch.delenv("RABBIT")
    with pytest.raises(Invalid, match="no variable RABBIT"):
        password()


def test_a_kafka_url_says_how_to_log_in() -> None:
    url = f"kafka://ann:{SECRET}@one,two:9093/rota.{{kind}}?sasl=plain&tls=on&window=7&linger=20ms"
    settings = kafka.read(parse(url))
    client = settings.client()
    assert client["bootstrap.servers"] == "one:9092,two:9093"
    assert client["security.protocol"] == "sasl_ssl"
    assert (client["sasl.mechanism"], client["sasl.username"], client["sasl.password"]) == ("PLAIN", "ann", SECRET)
    assert (client["enable.idempotence"], client["linger.ms"]) == (True, 20)
    assert settings.topic(message(1)) == "rota.room"
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("nowhere", "is not a URL"),
        ("smoke://signals", "unknown scheme smoke; Rota speaks amqp://"),
        ("amqp://mq..example/shop", "it cannot be opened"),
        ("amqp:///vhost", "no host"),
        ("amqp://host:x", "x is not a port"),
        ("amqp://host?routing_key={colour}", "{colour} is unknown; known are {kind}, {id}, {node}"),
        ("amqp://host?routing_key={kind.__class__}", "is unknown"),
        ("amqp://host?channels=0", "whole number from 1"),
        ("amqp://host?channels=65", "at most 64"),
        ("amqp://host?heartbeat=100ms", "from 1s to 1h"),
        ("amqp://host?exchange_type=round", "choose topic or direct"),
        ("amqp://host?unroutable=maybe", "choose reject or ignore"),
        ("amqp://host?ca=x.pem", "for amqps://"),
        ("amqps://host?key=x.pem", "key= without cert="),
        ("amqps://host?ca=/no/such.pem", "certificate files cannot be used"),
        (f"amqp://ann:{SECRET}@host?colour=red", "unknown option colour"),
        ("amqp://ann@host?password_file=a&password_env=b", "give one of them"),
        (f"amqp://host/{'v' * 300}", "more than 255 bytes"),
        (f"amqp://host?exchange={'e' * 300}", "more than 255 bytes"),
        ("kafka://host", "no topic"),
        ("kafka:///topic", "no host"),
        ("kafka://host/{colour}", "{colour} is unknown"),
        ("file://messages.jsonl", "write file:///path"),
        ("file:///", "names no file"),
        ("file:///no/such/folder/messages.jsonl", "check the folder and its rights"),
        ("stdout://there", "write stdout://"),
        ("memory://m?window=0", "whole number from 1"),
    ],
)
async def test_a_wrong_url_is_refused_with_the_reason(url: str, why: str) -> None:
    assert why in await refusal(url)


async def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("no", name="confluent_kafka")

    monkeypatch.setattr("rota.model.adapters.import_module", missing)
    assert "pip install 'rota[kafka]'" in await refusal("kafka://host/topic")
