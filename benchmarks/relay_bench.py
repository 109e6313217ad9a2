"""The relay's dedup: checks per second, and what a remembered message costs in memory.

A check is all that is done for one copy of a message: its id from kind, resource and payload, looking it up, reserving
and settling it if it is the first, and its share of forgetting old ones. Half of the copies are duplicates, as with two
replicas. The core's row adds hand-overs and acks: everything between a host's batch and the sink, and back.

Memory is what the process holds more, measured in a process of its own, with ids made as they are in life; then
everything expires, and what is left must be little.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from time import thread_time

import psutil

from benchmarks import measure
from benchmarks.measure import Goal, Row
from rota.model.ids import Instant, NodeId
from rota.relay.core.core import Relay
from rota.relay.core.dedup import DedupWindow, Ids
from rota.relay.core.held import Emission, InboundLine
from rota.relay.core.records import RelayMap
from rota.sinks import Message

MESSAGES = 200_000
ROOMS = 1_000
BODY = b"x" * 190
ENTRIES = 1_000_000
BATCH = 100

CHECKS = Goal(at=500_000, short=300_000)
BYTES = Goal(at=120, short=150)
LEFT = Goal(at=10, short=25)


def rows(rounds: int) -> list[Row]:
    """Every figure of the relay that needs no server."""
    memory = [_memory() for _ in range(rounds)]
    return [
        measure.alone("relay: dedup, id and all", "/s", [checks_per_second() for _ in range(rounds)], CHECKS),
        measure.alone("relay: dedup, ids known", "/s", [checks_per_second(False) for _ in range(rounds)]),
        measure.alone("relay: core, batches of 100", "/s", [core_per_second() for _ in range(rounds)]),
        measure.alone("relay: memory of 1,000,000 messages", "B each", [held for held, _ in memory], BYTES),
        measure.alone("relay: memory left after they expired", "%", [left for _, left in memory], LEFT),
    ]


def checks_per_second(with_ids: bool = True) -> float:
    """Copies checked per second: each message twice, the second soon after the first."""
    window: DedupWindow[int] = DedupWindow(Instant(0.0))
    rooms = [(Ids("room", str(number)), window.tally("room", str(number))) for number in range(ROOMS)]
    work = [(*rooms[number % ROOMS], b"%d" % number + BODY) for number in range(MESSAGES)]
    known = [ids.of(None, payload) for ids, _, payload in work]
    reserved, is_known, settle = window.reserved, window.is_known, window.settle
    now, before = 0.0, thread_time()
    for start in range(0, MESSAGES, BATCH):
        first = list(range(start, start + BATCH))
        for slot in (0, 1):
            for number in first:
                ids, tally, payload = work[number]
                message_id = ids.of(None, payload) if with_ids else known[number]
                if message_id in reserved or is_known(message_id, slot):
                    tally.duplicates += 1
                else:
                    tally.unique += 1
                    reserved[message_id] = number
            if not slot:
                for number in first:
                    settle(known[number], work[number][1], 0)
        now += 0.05
        window.advance(Instant(now))
    seconds = thread_time() - before
    assert sum(tally.duplicates for _, tally in rooms) == MESSAGES
    return 2 * MESSAGES / seconds


def core_per_second() -> float:
    """Copies that pass through the core per second, from hand-over to ack; each message from two hosts."""
    node = NodeId("a")
    relay = Relay(node, Instant(0.0))
    relay.map_changed(RelayMap(version=1, nodes=(node,)), Instant(0.0))
    lines = [InboundLine("one"), InboundLine("two")]
    for line in lines:
        relay.join(line, None, Instant(0.0))
    outlet = relay.home.outlet("memory://")
    ids = [Ids("room", str(number)) for number in range(ROOMS)]
    time = datetime(2026, 1, 1, tzinfo=UTC)
    emissions = []
    for number in range(MESSAGES // 4):
        payload, room = b"%d" % number + BODY, number % ROOMS
        name = ids[room].of(None, payload)
        made = Message(id=name, kind="room", resource=str(room), payload=payload, node=node, time=time)
        emissions.append([Emission(made, "memory://", slot, 1) for slot in (0, 1)])
    before = thread_time()
    for sequence, start in enumerate(range(0, len(emissions), BATCH), 1):
        now = Instant(sequence * 0.05)
        batch = emissions[start : start + BATCH]
        for slot, line in enumerate(lines):
            relay.took(line, sequence, [each[slot] for each in batch], 0.01, now)
        relay.home.confirmed(outlet, outlet.to_publish(BATCH), now)
        relay.take_touched()
        relay.advance(now)
    seconds = thread_time() - before
    assert [line.acked for line in lines] == [len(emissions) // BATCH] * 2
    return 2 * len(emissions) / seconds


def fill_and_forget() -> tuple[float, float]:
    """Bytes per remembered message, and what per cent of that is left when all are forgotten."""
    process = psutil.Process(os.getpid())
    window: DedupWindow[int] = DedupWindow(Instant(0.0))
    rooms = [(Ids("room", str(number)), window.tally("room", str(number))) for number in range(ROOMS)]
    base = process.memory_info().rss
    for number in range(ENTRIES):
        ids, tally = rooms[number % ROOMS]
        window.settle(ids.of(None, b"%d" % number), tally, 0)
        if number % 10_000 == 0:
            window.advance(Instant(number * 29.0 / ENTRIES))
    assert window.remembered == ENTRIES
    full = process.memory_info().rss - base
    window.advance(Instant(40.0))
    window.advance(Instant(100.0))
    assert window.remembered == 0
    return full / ENTRIES, 100 * (process.memory_info().rss - base) / full


def _memory() -> tuple[float, float]:
    code = "from benchmarks.relay_bench import fill_and_forget; print(*fill_and_forget())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    held, left = told.split()
    return float(held), float(left)
