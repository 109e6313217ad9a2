"""The connection settings of every client of librdkafka, and how its refusals are sorted."""

from collections.abc import Mapping

from confluent_kafka import KafkaError

PORT = 9092
MECHANISMS = ("scram-sha-512", "scram-sha-256", "plain")
"""How a user may log in; the first is the default."""

FILES = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
"""The files of a TLS connection: Rota's name and librdkafka's name of each."""

REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors that an operator has to fix: the user, its password or its rights."""

MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""There is no such topic, or no such partition of it."""


def way_in(
    hosts: str, files: Mapping[str, str] | None, *, user: str | None = None, password: str = "", mechanism: str = ""
) -> dict[str, str]:
    """The settings of a connection; without `files` it is not encrypted, without a user it does not log in."""
    protocol = ("sasl_" if user else "") + ("plaintext" if files is None else "ssl")
    login = {"sasl.mechanism": mechanism.upper(), "sasl.username": user, "sasl.password": password} if user else {}
    return {
        "bootstrap.servers": hosts,
        "client.id": "rota",
        "security.protocol": protocol,
        **{FILES[name]: path for name, path in (files or {}).items()},
        **login,
    }
