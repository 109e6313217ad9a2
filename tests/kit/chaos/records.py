"""Records for a stream under chaos: produced without a pause, also while Kafka is away."""

import asyncio
import random

from confluent_kafka import KafkaError, Message

from tests.kit.stream_places import TrialTopic
from tests.kit.streams import StreamTrial

PAUSE = 0.1
"""Seconds between two rounds, in each of which every partition gets a few records."""

FLUSH = 120.0


class Producing:
    """A producer that never waits for Kafka; what it could not deliver yet stays with it."""

    def __init__(self, trial: StreamTrial, most: int) -> None:
        assert isinstance(trial.source, TrialTopic)
        self._trial, self._topic, self._most = trial, trial.source, most
        self.failed: list[str] = []

    async def run(self) -> None:
        """Produce, for ever."""
        while True:
            for partition in range(self._trial.partitions):
                for _ in range(random.randint(1, self._most)):
                    self._produce(partition)
            self._topic.producer.poll(0)
            await asyncio.sleep(PAUSE)

    async def delivered(self) -> None:
        """Return once Kafka has all that was produced."""
        left = await asyncio.to_thread(self._topic.producer.flush, FLUSH)
        assert not left, f"Kafka did not take {left} records within {FLUSH:g} s"
        assert not self.failed, self.failed[:3]

    def _produce(self, partition: int) -> None:
        number = self._trial.appended[partition]
        self._trial.appended[partition] += 1
        self._topic.producer.produce(self._topic.space, b"%d" % number, partition=partition, on_delivery=self._heard)

    def _heard(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
