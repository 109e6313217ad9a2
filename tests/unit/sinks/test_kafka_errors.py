"""Whose an error of Kafka is: the message's own, or everybody's."""

import pytest
from confluent_kafka import KafkaError

from rota.sinks.kafka_errors import is_suspicion, objection, refusal
from tests.kit.sinks import message

NOWHERE = message(1, to="nowhere")


@pytest.mark.parametrize(
    "code", [KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED]
)
def test_a_topic_that_a_message_names_is_its_own_affair(code: int) -> None:
    error = KafkaError(code)
    assert (objection(error, NOWHERE, is_alone=False, reached=()) or "").startswith("topic nowhere: ")
    assert (refusal(error, NOWHERE, reached=()) or "").startswith("topic nowhere: ")
    assert objection(error, message(1), is_alone=True, reached=()) is None


def test_a_topic_that_took_a_message_a_moment_ago_is_not_missing() -> None:
    assert objection(KafkaError(KafkaError._UNKNOWN_TOPIC), NOWHERE, is_alone=False, reached={"nowhere"}) is None


@pytest.mark.parametrize(
    "code", [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP]
)
def test_what_is_wrong_with_a_batch_is_a_messages_own_only_if_it_was_alone(code: int) -> None:
    error = KafkaError(code)
    assert is_suspicion(error)
    assert objection(error, message(1), is_alone=False, reached=()) is None
    assert objection(error, message(1), is_alone=True, reached=())


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._FATAL, KafkaError._ALL_BROKERS_DOWN]
)
def test_what_is_wrong_with_a_broker_is_no_messages_fault(code: int) -> None:
    error = KafkaError(code)
    assert not is_suspicion(error)
    assert objection(error, NOWHERE, is_alone=True, reached=()) is None
    assert refusal(error, NOWHERE, reached=()) is None
