"""Messages per second from `emit` in worker processes to confirmed in RabbitMQ, beside aio-pika and pika.

A node runs an app whose tasks emit when they are told to, each message under an id of its own; a turn is over when the
last of every task is confirmed. The clients beside it publish as many from this process, as in `sink_bench`: no outbox,
no dedup, no second process. What each process of ours costs is read from the system. At half of that load the time is
taken that a task spends in `emit`.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import psutil

from benchmarks import measure
from benchmarks.measure import Goal, Row, Samples, Side, Turn
from benchmarks.sink_bench import AIO_PIKA, COUNT, OURS, PIKA, TURNS, by_round, side, through_aio_pika, through_pika
from rota.model import codec, keys
from rota.store import Put, open_store
from tests.kit import rabbit
from tests.kit.fleet import resource
from tests.kit.node import NodeUnderTest, workers
from tests.kit.servers import RabbitMQ
from tests.kit.waiting import eventually

HOSTS = 2
TALKERS = 4
GOALS = {AIO_PIKA: Goal(at=2.0, short=1.2), PIKA: Goal(at=0.8, short=0.0)}
PARTS = ("host", "relay", "agent")
HALF_LOAD = 3.0
"""Seconds."""

APP = """
import asyncio, json, os
from itertools import count
from time import perf_counter

import rota

app = rota.App("talk")
BODY = bytes(184)
BURST = 0.01


@app.resource(replicas=1, start_within="1h", silent_after="1h", sink=os.environ["TALK_SINK"])
async def talker(task: rota.Task) -> None:
    numbers = count()
    reader, writer = await asyncio.open_unix_connection(os.environ["TALK_SOCKET"])
    while line := await reader.readline():
        asked, rate = json.loads(line)
        took = []
        began = perf_counter()
        for done in range(1, asked + 1):
            before = perf_counter()
            await task.emit(b"%016d" % next(numbers) + BODY, confirm=done == asked)
            took.append(perf_counter() - before)
            if rate and (ahead := done / rate - (perf_counter() - began)) > BURST:
                await asyncio.sleep(ahead)
        took.pop()  # the last one waited until all were confirmed
        writer.write(json.dumps(took).encode() + b"\\n")
"""


def rows(rounds: int) -> list[Row]:
    """Rates, what each process costs, and the time in `emit`."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder, RabbitMQ(Path(folder)) as server:
        return asyncio.run(_rows(Path(folder), server, rounds))


async def _rows(folder: Path, server: RabbitMQ, rounds: int) -> list[Row]:
    async with _talking(folder / "node", server) as talk:
        cpu: dict[str, list[float]] = {name: [] for name in (AIO_PIKA, PIKA)}
        sides: Mapping[str, Side] = {
            AIO_PIKA: partial(side, server, "aio-pika", through_aio_pika, cpu[AIO_PIKA]),
            PIKA: partial(side, server, "pika", through_pika, cpu[PIKA]),
            OURS: talk.side,
        }
        played = await measure.play(sides, rounds, TURNS)
        rates = {name: [measure.rate(samples[name]) for samples in played] for name in sides}
        half = [await talk.spoken_at(median(rates[OURS]) / 2) for _ in range(rounds)]
    micro = {name: by_round(seconds, rounds) for name, seconds in (cpu | talk.cpu).items()}
    ours = [sum(each) for each in zip(*(micro[part] for part in PARTS), strict=True)]
    others = (AIO_PIKA, PIKA)
    return [
        *(measure.compare("emit to confirmed", "/s", to, rates[to], rates[OURS], GOALS[to]) for to in others),
        *(measure.compare("emit: CPU a message, all of a node", "µs", to, micro[to], ours) for to in others),
        *(measure.alone(f"emit: CPU a message, {part}", "µs", micro[part]) for part in PARTS),
        measure.alone("emit: p99 at half load", "ms", [measure.percentile(99)(samples) for samples in half]),
    ]


class Talk:
    """Tasks that emit when they are told to."""

    def __init__(self, node: NodeUnderTest, port: int) -> None:
        self.cpu: dict[str, list[float]] = {part: [] for part in PARTS}
        """What each sort of process took in each turn, in seconds."""

        self.talkers: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._node, self._port = node, port

    @asynccontextmanager
    async def side(self) -> AsyncIterator[Turn]:
        """Our side of the comparison."""
        yield self._turn

    async def spoken_at(self, rate: float) -> Samples:
        """How long each message was in `emit`, at so many a second."""
        return await self._speak(round(rate * HALF_LOAD / TALKERS), rate / TALKERS)

    async def _turn(self) -> Samples:
        await asyncio.to_thread(self._purge)
        busy, before = await self._cpu(), perf_counter()
        await self._speak(COUNT // TALKERS, 0)
        took = perf_counter() - before
        for part, seconds in (await self._cpu()).items():
            self.cpu[part].append(seconds - busy[part])
        return [took / COUNT] * COUNT

    async def _speak(self, count: int, rate: float) -> Samples:
        for _, writer in self.talkers:
            writer.write(json.dumps([count, rate]).encode() + b"\n")
        async with asyncio.timeout(60):
            told = await asyncio.gather(*(reader.readline() for reader, _ in self.talkers))
        return [sample for line in told for sample in json.loads(line)]

    async def _cpu(self) -> dict[str, float]:
        status = await self._node.status()
        relays = [each.pid for each in self._node.family() if "rota: relay" in " ".join(each.cmdline())]
        pids = {"host": workers(status, "host"), "relay": relays, "agent": [self._node.pid]}
        return {part: sum(_seconds(pid) for pid in some) for part, some in pids.items()}

    def _purge(self) -> None:
        with rabbit.channel(self._port) as ours:
            ours.queue_purge("rota-talk")


@asynccontextmanager
async def _talking(folder: Path, server: RabbitMQ) -> AsyncIterator[Talk]:
    """A node with all its talkers connected."""
    rabbit.make_queue(server.port, "rota-talk")
    environ = {
        "TALK_SOCKET": str(folder / "talk.sock"),
        "TALK_SINK": f"amqp://127.0.0.1:{server.port}?exchange=rota-talk",
    }
    node = NodeUnderTest(folder, "--role", "both", "--hosts", HOSTS, app=APP, environ=environ)
    talk = Talk(node, server.port)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk.talkers.append((reader, writer))

    async with AsyncExitStack() as up:
        listening = await asyncio.start_unix_server(connected, environ["TALK_SOCKET"], limit=2**24)
        up.push_async_callback(listening.wait_closed)
        up.callback(listening.close)
        up.enter_context(node)
        await node.ready()
        async with open_store(node.store) as store:
            for number in range(TALKERS):
                record = resource("talker", str(number))
                await store.commit(Put(keys.resource(record.kind, record.id), codec.encode(record)))
        await eventually(lambda: len(talk.talkers) == TALKERS, within=30)
        yield talk


def _seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
