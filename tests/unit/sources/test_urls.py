"""What the URLs of sources say."""

from datetime import timedelta

import pytest

from rota.model.errors import Invalid
from rota.sources import kafka, open_source
from rota.sources import url as urls


def test_kafka_as_little_as_possible() -> None:
    settings = kafka.read(urls.parse("kafka://host/clicks"))
    assert (settings.hosts, settings.topic, settings.timeout) == ("host:9092", "clicks", timedelta(seconds=5))
    told = settings.consumer()
    assert told["security.protocol"] == "plaintext"
    assert told["isolation.level"] == "read_committed"
    assert not told["enable.auto.commit"]
    assert "sasl.username" not in told


def test_kafka_with_a_user_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "pssst")
    text = "kafka://me@a:1,b/clicks?sasl=plain&ca=ca.pem&cert=c.pem&key=k.pem&password_env=SECRET"
    settings = kafka.read(urls.parse(text))
    assert "pssst" not in repr(settings)
    told = settings.client()
    assert told["bootstrap.servers"] == "a:1,b:9092"
    assert told["security.protocol"] == "sasl_ssl"
    assert (told["sasl.mechanism"], told["sasl.username"], told["sasl.password"]) == ("PLAIN", "me", "pssst")
    assert (told["ssl.ca.location"], told["ssl.key.location"]) == ("ca.pem", "k.pem")


def test_kafka_with_settings_of_the_client() -> None:
    text = "kafka://host/clicks?consumer.client.rack=eu-1&consumer.queued.min.messages=5"
    settings = kafka.read(urls.parse(text))
    assert settings.client()["client.rack"] == "eu-1"
    told = settings.consumer()
    assert (told["client.rack"], told["queued.min.messages"], told["group.id"]) == ("eu-1", "5", "rota")


def test_kafka_with_a_pattern() -> None:
    assert kafka.read(urls.parse("kafka://host/^clicks[.](eu|us)")).topic == "^clicks[.](eu|us)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("clicks", '"clicks" is not a URL; write one like kafka://', id="no URL"),
        pytest.param(
            "pulsar://host/topic", r"unknown scheme pulsar; Rota speaks kafka://, log://, memory://", id="scheme"
        ),
        pytest.param("kafka://host", "no host or no topic; write kafka://host/topic", id="no topic"),
        pytest.param("kafka://host/t?ahead=1", "it must be a whole number from 1024", id="no room"),
        pytest.param("kafka://host/t?colour=blue", "unknown option colour", id="an unknown option"),
        pytest.param(
            "kafka://host/t?consumer.colour=blue", 'No such configuration property: "colour"', id="no setting"
        ),
        pytest.param(
            "kafka://host/t?consumer.group.id=g", "consumer.group.id cannot be set: no group is ever joined", id="ours"
        ),
        pytest.param("kafka://host/^cli(cks", "no regular expression: .* write one like", id="no pattern"),
        pytest.param(
            "kafka://me@host/t?password_file=a&password_env=B", "give one of them", id="two ways to a password"
        ),
    ],
)
async def test_a_url_that_is_wrong_is_invalid(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        async with open_source(text):
            pass
