"""Whether an error of Kafka concerns one message, or the broker and so every message.

A message is rejected only if others would not fare the same. A topic that it names itself (`to=`) and that is not
there, or not to be written to, is its own affair; the topic of the sink's URL is the operator's. A topic to which the
same producer has delivered before is not missing: a broker that has just started may not know it yet. Kafka refuses
records by the batch, and does not always say which of them it objects to: such an error is a suspicion, and becomes
the message's own when the message was alone in its batch.
"""

from collections.abc import Collection

from confluent_kafka import KafkaError

from rota.kit.drivers import librdkafka
from rota.model.errors import Denied, Invalid, RotaError, Unavailable
from rota.sinks.port import Message

OF_THE_MESSAGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.TOPIC_EXCEPTION, KafkaError._INVALID_ARG})
"""Why the client itself does not take one message, and would take another: its size, its topic's name, its headers."""

OF_THE_TOPIC = librdkafka.MISSING | {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION}
"""Why the broker takes nothing for one topic, and would for another."""

TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
OF_THE_BATCH = TOO_LARGE | {KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
"""Why the broker does not take a batch: one of its records, or all together."""

SUSPICIONS = OF_THE_BATCH | {KafkaError._INVALID_DIFFERENT_RECORD}


def objection(error: KafkaError, message: Message, *, is_alone: bool, reached: Collection[str]) -> str | None:
    """Why this message can never be delivered; None if that is not known, or others would fare the same.

    `is_alone`: it had a batch of its own. `reached`: topics that messages have named and that took one.
    """
    if message.to and message.to not in reached and error.code() in OF_THE_TOPIC:
        return f"topic {message.to}: {error.str()}"
    if is_alone and error.code() in TOO_LARGE:
        return f"it has {len(message.payload)} bytes; the topic's max.message.bytes is less than that with its headers"
    if is_alone and error.code() in OF_THE_BATCH:
        return error.str()
    return None


def refusal(error: KafkaError, message: Message, *, reached: Collection[str]) -> str | None:
    """As `objection`, for what the client itself did not take."""
    if error.code() in OF_THE_MESSAGE:
        return error.str()
    return objection(error, message, is_alone=False, reached=reached)


def is_suspicion(error: KafkaError) -> bool:
    """May one message of the batch be at fault?"""
    return error.code() in SUSPICIONS


def translate(shown: str, error: KafkaError) -> RotaError:
    """The error for what concerns every message of the sink `shown`."""
    said = f"sink {shown}: {error.str()}"
    if error.code() in librdkafka.REFUSED:
        return Denied(f"{said}; check the user, its password and its permissions")
    if error.code() in librdkafka.MISSING:
        return Invalid(f"{said}; make the topic, or correct the URL's path")
    return Unavailable(said)
