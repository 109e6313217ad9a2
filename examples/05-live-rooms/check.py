"""Compare what the platform sent with what RabbitMQ got: `python check.py sent.jsonl`.

A message must be there if a connection that it went to was still open a second later. What was sent less than a second
before its last listener died may be there or not. A repeat is a message that is there again with the same id. What one
task heard must be there in its order; a task that has just connected may be ahead of one that is slow.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pika

LIVED = 1.0
"""Seconds for which a connection has to live on so that what it was sent counts."""

QUIET = 3.0
"""Seconds without a message after which the queue is empty."""

EXCHANGE = "live"
"""Also the name of the queue."""

Name = tuple[str, int]
"""A message: its room, and its number there."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of the messages."""

    sent: int
    heard: int
    """Those that must be there."""

    arrived: int
    """Different messages in the queue."""

    lost: int
    repeats: int
    """Messages that came again, with the same id."""

    renamed: int
    """Messages that came again under another id; there must be none."""

    disordered: int
    """Messages that came after a later one that the same task had sent."""

    @property
    def is_well(self) -> bool:
        """Is everything there, and told apart?"""
        return self.lost == self.renamed == 0


def heard(log: Iterable[str]) -> Iterator[tuple[Name, bool]]:
    """Each message of the platform's log, and whether a connection that got it lived on for a second."""
    sent: list[tuple[float, Name, list[int]]] = []
    ended: dict[int, float] = {}
    last = 0.0
    for line in log:
        what, last, *about = json.loads(line)
        if what == "sent":
            room, number, connections = about
            sent.append((last, (room, number), connections))
        else:
            ended[about[0]] = last
    for at, name, connections in sent:
        yield name, any(ended.get(each, last) > at + LIVED for each in connections)


def compare(log: Iterable[str], arrivals: Iterable[tuple[Name, str, str]]) -> Verdict:
    """The verdict, from the platform's log and what arrived, with its id and its node, in the order of the queue."""
    must = dict(heard(log))
    ids: dict[Name, str] = {}
    newest: Counter[tuple[str, str]] = Counter()
    repeats = renamed = disordered = 0
    for name, id, node in arrivals:
        room, number = name
        if name in ids:
            repeats += ids[name] == id
            renamed += ids[name] != id
            continue
        ids[name] = id
        disordered += number < newest[room, node]
        newest[room, node] = max(newest[room, node], number)
    return Verdict(
        sent=len(must),
        heard=sum(must.values()),
        arrived=len(ids),
        lost=sum(is_heard and name not in ids for name, is_heard in must.items()),
        repeats=repeats,
        renamed=renamed,
        disordered=disordered,
    )


def make_queue(url: str) -> None:
    """A durable queue that gets every message, empty."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        channel.queue_declare(EXCHANGE, durable=True)
        channel.queue_bind(EXCHANGE, EXCHANGE, "#")
        channel.queue_purge(EXCHANGE)


def take(url: str) -> Iterator[tuple[Name, str, str]]:
    """The messages of the queue, taken out of it, until none comes for a while."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for method, properties, _ in channel.consume(EXCHANGE, auto_ack=True, inactivity_timeout=QUIET):
            if method is None:
                return
            headers = properties.headers
            name = headers["rota-resource"], int(headers["rota-key"])
            yield name, properties.message_id, headers["rota-node"]


def main() -> None:
    """Compare, and tell."""
    parser = argparse.ArgumentParser(description="Compare what the platform sent with what RabbitMQ got.")
    parser.add_argument("log", type=Path, nargs="?", default=Path("sent.jsonl"))
    parser.add_argument("--make-queue", action="store_true", help="only make the queue, or empty it")
    parser.add_argument("--amqp", default="amqp://guest:guest@127.0.0.1", help="where the queue is")
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_args()
    if asked.make_queue:
        make_queue(asked.amqp)
        return
    with asked.log.open() as log:
        found = compare(log, take(asked.amqp))
    if asked.json:
        print(json.dumps(asdict(found)))
    else:
        for name, figure in asdict(found).items():
            print(f"{name:>10} {figure:>10,}")
    sys.exit(0 if found.is_well else 1)


if __name__ == "__main__":
    main()
