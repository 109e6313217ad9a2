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


@pytest.mark.parametrize("setting", sorted(kafka.FIXED))
def test_a_setting_that_is_not_the_users_is_refused_by_name_with_the_next_move(setting: str) -> None:
    with pytest.raises(Invalid) as refused:
        kafka.read(urls.parse(f"kafka://host/clicks?consumer.{setting}=pssst"))
    said = str(refused.value)
    assert said == f"source kafka://host/clicks: consumer.{setting} cannot be set: {kafka.FIXED[setting]}"
    assert any(move in said for move in ("write ", "leave it out", "name the files", "name a key", "make the topic"))


@pytest.mark.parametrize("setting", ["sasl.password", "ssl.key.password", "group.id", "isolation.level"])
def test_a_setting_is_ours_however_it_is_written(setting: str) -> None:
    coded = "".join(f"%{ord(letter):02X}" for letter in setting)
    with pytest.raises(Invalid, match=f"consumer.{setting} cannot be set"):
        kafka.read(urls.parse(f"kafka://host/clicks?timeout=1s&consumer.{coded}=x"))


@pytest.mark.parametrize(
    "setting",
    [
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
    ],
)
def test_any_other_secret_of_the_client_is_refused_and_not_repeated(setting: str) -> None:
    with pytest.raises(Invalid) as refused:
        kafka.read(urls.parse(f"kafka://host/clicks?consumer.{setting}=pssst"))
    said = str(refused.value)
    assert f"consumer.{setting} cannot be set: a URL is no place for a secret; log in with sasl= and" in said
    assert "pssst" not in said


def test_settings_that_hold_no_secret_are_the_users() -> None:
    text = "kafka://host/clicks?consumer.ssl.ca.pem=x&consumer.ssl.certificate.pem=y&consumer.client.id=z"
    assert set(kafka.read(urls.parse(text)).more) == {"ssl.ca.pem", "ssl.certificate.pem", "client.id"}


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
