"""Librdkafka's mock cluster as a Kafka for tests: three brokers in this process, with topics of four partitions.

It is driven through the library that confluent-kafka brings along. Its brokers speak Kafka's protocol on the loopback,
can be taken down, and keep their data in memory.
"""

import ctypes
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record

from rota.model.ids import NodeId
from rota.sinks import Message
from tests.kit.rabbit import EPOCH

BROKERS = (1, 2, 3)
PRODUCER = 0


class MockKafka:
    """A cluster; a context manager."""

    def __init__(self) -> None:
        self._library = _library()
        self._client = self._library.rd_kafka_new(PRODUCER, self._library.rd_kafka_conf_new(), None, 0)
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, len(BROKERS))

    def __enter__(self) -> "MockKafka":
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    @property
    def hosts(self) -> str:
        """Its brokers, separated by commas."""
        return str(self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode())

    def make_topic(self, name: str, partitions: int) -> None:
        """Make a topic with so many partitions; others appear by themselves, with four."""
        failed = self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        assert not failed, f"the mock cluster did not make {name}: error {failed}"

    def stop(self) -> None:
        """No broker answers."""
        for broker in BROKERS:
            self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def start(self) -> None:
        """All answer again."""
        for broker in BROKERS:
            self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def fail_produce(self, *codes: int) -> None:
        """Answer the next requests to produce with these errors."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, 0, len(codes), array)

    def arrived(self, topic: str) -> list[Message]:
        """What is in the topic, partition by partition."""
        consumer = Consumer({"bootstrap.servers": self.hosts, "group.id": "test", "enable.auto.commit": False})
        try:
            return [message for part in _partitions(consumer, topic) for message in _read(consumer, part)]
        finally:
            consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    known = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    return [TopicPartition(topic, number, 0) for number in known]


def _read(consumer: Consumer, part: TopicPartition) -> list[Message]:
    _, end = consumer.get_watermark_offsets(part, timeout=30)
    consumer.assign([part])
    records: list[Record] = []
    while len(records) < end:
        records += consumer.consume(end - len(records), timeout=30)
    return [_message(record) for record in records]


def _message(record: Record) -> Message:
    assert record.error() is None, record.error()
    headers = {name: value.decode() for name, value in record.headers()}
    message = Message(
        id=bytes.fromhex(headers.pop("rota-id")),
        kind=headers.pop("rota-kind"),
        resource=headers.pop("rota-resource"),
        node=NodeId(headers.pop("rota-node")),
        time=EPOCH + timedelta(milliseconds=record.timestamp()[1]),
        key=headers.pop("rota-key", ""),
        payload=record.value() or b"",
        headers=headers,
    )
    assert record.key() == f"{message.kind}/{message.resource}".encode()
    return message


def _library() -> ctypes.CDLL:
    spec = find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    (path,) = Path(spec.origin).parents[1].glob("confluent_kafka.libs/librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, number]),
        ("rd_kafka_mock_cluster_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_topic_create", number, [pointer, text, number, number]),
        ("rd_kafka_mock_broker_set_down", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", number, [pointer, ctypes.c_int32]),
        (
            "rd_kafka_mock_push_request_errors_array",
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(number)],
        ),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
