"""Who runs jobs in the measurement of jobs: Rota, and queues of others.

A contender is opened on servers that run already. Inside `working` it has two worker processes; `enqueue` hands it
tasks. Each task appends to `notes` when it was enqueued and when it began, 16 bytes, and every contender pays for that
alike. Peers live in `.venv-peers`, made from their own lock when the bench needs them and by nothing else.
"""

import asyncio
import os
import struct
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psutil

from rota.jobs.fleet import verbs
from rota.model import keys
from rota.store import open_store
from tests.kit import obtain
from tests.kit.harness import PostgresHarness
from tests.kit.node import NodeUnderTest
from tests.kit.process import ROOT, Process
from tests.kit.servers import USER, Postgres, RabbitMQ, Redis, wait_until
from tests.kit.waiting import eventually

WORKERS = 2
NOTE = struct.Struct("<dd")
LOCK = ROOT / "requirements/peers.txt"
VENV = ROOT / ".venv-peers"
PEERS = ROOT / "benchmarks/peers"
BATCH = 500


@dataclass(frozen=True)
class Servers:
    """What the contenders keep their tasks in."""

    redis: Redis
    rabbitmq: RabbitMQ
    postgres: Postgres

    @property
    def urls(self) -> Mapping[str, str]:
        """Where each is."""
        return {
            "redis": f"redis://127.0.0.1:{self.redis.port}/0",
            "rabbitmq": f"amqp://guest:guest@127.0.0.1:{self.rabbitmq.port}/",
            "postgresql": f"postgresql://{USER}@127.0.0.1:{self.postgres.port}/postgres",
        }


class Queue(ABC):
    """Something that runs jobs."""

    name: ClassVar[str]
    durability: ClassVar[str]
    """What a task that was enqueued survives."""

    count: ClassVar[int] = 5000
    rounds: ClassVar[int] = 3
    pace: ClassVar[float] = 0.01
    """Seconds between tasks where latency is measured."""

    can_drain: ClassVar[bool] = True

    def __init__(self, base: Path, servers: Servers) -> None:
        self.base, self.servers = base, servers
        self.notes = base / "notes"

    @abstractmethod
    def working(self) -> "ExitStack":
        """Its workers, started; closing it stops them."""

    @abstractmethod
    def enqueue(self, count: int, pace: float) -> None:
        """Hand it so many tasks, so many seconds apart."""

    @abstractmethod
    def workers(self) -> Sequence[Process]:
        """What is frozen while its queue is filled, each with all its children."""

    def seen(self) -> list[tuple[float, float]]:
        """When each task that has begun was enqueued, and when it began."""
        data = self.notes.read_bytes() if self.notes.exists() else b""
        return list(NOTE.iter_unpack(data[: len(data) // NOTE.size * NOTE.size]))

    def until_done(self, count: int, within: float = 120.0) -> list[tuple[float, float]]:
        """What was noted, once so many have begun."""
        size = count * NOTE.size
        wait_until(
            lambda: self.notes.exists() and self.notes.stat().st_size >= size,
            f"{self.name}: {count} tasks",
            within=within,
        )
        return self.seen()

    def forget(self) -> None:
        """Begin a new file."""
        self.notes.unlink(missing_ok=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside, its workers stand still."""
        family = [each for process in self.workers() for each in _family(process.pid)]
        for each in family:
            each.suspend()
        try:
            yield
        finally:
            for each in reversed(family):
                each.resume()


def _family(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


# Peers


def obtain_peers() -> None:
    """Have `.venv-peers` as its lock says, and the server that most of them need."""
    obtain.obtain(obtain.FOR_BENCH["redis"])
    stamp, want = VENV / ".set-up", LOCK.read_text()
    if stamp.exists() and stamp.read_text() == want:
        return
    uv = ROOT / ".venv/bin/uv"
    for argv in (
        ["venv", "--quiet", "--clear", str(VENV)],
        ["pip", "sync", "--quiet", "--require-hashes", "--python", str(VENV / "bin/python"), str(LOCK)],
    ):
        subprocess.run([str(uv), *argv], check=True, cwd=ROOT)
    stamp.write_text(want)


class Peer(Queue):
    """A queue of somebody else."""

    peer: ClassVar[str]
    server: ClassVar[str]
    argv: ClassVar[tuple[str, ...]]
    """Its worker."""

    processes: ClassVar[int] = 1
    """How many of them are started: some fork their workers themselves."""

    def working(self) -> ExitStack:
        self._running = [
            Process(
                [VENV / "bin/python", *self._argv()], self.base / f"{self.peer}-{number}.out", environ=self._environ()
            )
            for number in range(self.processes)
        ]
        stack = ExitStack()
        for process in self._running:
            stack.enter_context(process)
        self.enqueue(1, 0)
        self.until_done(1, within=60)
        return stack

    def enqueue(self, count: int, pace: float) -> None:
        argv = [str(VENV / "bin/python"), str(PEERS / "queues.py"), str(count), str(pace)]
        subprocess.run(argv, env=self._environ(), check=True, cwd=PEERS, timeout=300)

    def workers(self) -> Sequence[Process]:
        return self._running

    def _argv(self) -> Sequence[str]:
        return [each.replace("URL", self.servers.urls[self.server]) for each in self.argv]

    def _environ(self) -> dict[str, str]:
        told = {"PEER": self.peer, "URL": self.servers.urls[self.server], "NOTES": str(self.notes)}
        return {**os.environ, "PYTHONPATH": str(PEERS), **told}


MEMORY = "nothing: Redis in memory"
ACKNOWLEDGED = "a dead worker: Redis in memory"


class Celery(Peer):
    """Prefork, with its usual prefetch."""

    name, peer, server, durability = "celery, Redis", "celery", "redis", MEMORY
    argv = ("-m", "celery", "-A", "queues", "worker", "-c", "2", "--loglevel", "ERROR", "--without-gossip")


class DramatiqRabbit(Peer):
    """Eight threads in each process."""

    name, peer, server = "dramatiq, RabbitMQ", "dramatiq-rabbitmq", "rabbitmq"
    durability = "a restart of the server: durable queue, not synced for each message"
    argv = ("-m", "dramatiq", "queues", "-p", "2", "-t", "8")


class DramatiqRedis(Peer):
    """Eight threads in each process."""

    name, peer, server, durability = "dramatiq, Redis", "dramatiq-redis", "redis", ACKNOWLEDGED
    argv = ("-m", "dramatiq", "queues", "-p", "2", "-t", "8")


class Huey(Peer):
    """Workers that are processes."""

    name, peer, server, durability = "huey, Redis", "huey", "redis", MEMORY
    argv = ("-m", "huey.bin.huey_consumer", "queues.app", "-k", "process", "-w", "2", "-q")


class Arq(Peer):
    """It looks every 10 ms, and has 100 at a time."""

    name, peer, server, durability = "arq, Redis", "arq", "redis", ACKNOWLEDGED
    argv = ("-m", "arq", "queues.WorkerSettings")
    processes, count, rounds = 2, 2000, 2


class Rq(Peer):
    """A process for each job."""

    name, peer, server, durability = "rq, Redis, a process per job", "rq", "redis", ACKNOWLEDGED
    argv = ("-m", "rq.cli", "worker", "-q", "-u", "URL")
    processes, count, rounds, pace = 2, 300, 2, 0.1


class RqSimple(Peer):
    """Jobs in the worker itself."""

    name, peer, server, durability = "rq, Redis, SimpleWorker", "rq", "redis", ACKNOWLEDGED
    argv = ("-m", "rq.cli", "worker", "-q", "-u", "URL", "-w", "rq.SimpleWorker")
    processes, count, rounds = 2, 1000, 2


class Procrastinate(Peer):
    """One at a time in each process; enqueued 500 at a time."""

    name, peer, server = "procrastinate, PostgreSQL", "procrastinate", "postgresql"
    durability = "a power cut: each commit is synced"
    argv = ("-m", "procrastinate", "--app", "queues.app", "worker", "-c", "1")
    processes, count, rounds = 2, 1000, 2

    def working(self) -> ExitStack:
        argv = [str(VENV / "bin/python"), "-m", "procrastinate", "--app", "queues.app", "schema", "--apply"]
        subprocess.run(argv, env=self._environ(), cwd=PEERS, capture_output=True, check=False)  # it may be there
        return super().working()


class Apscheduler(Peer):
    """What schedules also runs, in a pool of two processes."""

    name, peer, server, durability = "APScheduler 3, memory", "apscheduler", "redis", "nothing: in the process"
    argv = ()
    count, rounds, can_drain = 2000, 2, False

    def working(self) -> ExitStack:
        self._running = []
        return ExitStack()


# Rota

APP = """
import os, struct, time
import rota

app = rota.App("bench")
NOTES = {notes!r}


@app.job(concurrency=None, process={process})
def work(run: rota.Run) -> None:
    fd = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, struct.pack("<dd", run.payload, time.time()))
    os.close(fd)
"""


class Rota(Queue):
    """A node with two executors, on PostgreSQL."""

    name, durability = "rota, PostgreSQL", "a power cut: each commit is synced"
    process: ClassVar[bool] = False
    batch: ClassVar[int] = BATCH

    def working(self) -> ExitStack:
        self.store = PostgresHarness(self.base, self.servers.postgres).url()
        app = APP.format(notes=str(self.notes), process=self.process)
        flags = ("--executors", WORKERS, "--role", "both", "--lease-ttl", "60s")
        self._node = NodeUnderTest(self.base / "node", *flags, name="bench", app=app, store=self.store)
        stack = ExitStack()
        stack.enter_context(self._node)
        asyncio.run(self._ready())
        return stack

    async def _ready(self) -> None:
        await self._node.ready(within=60)
        async with open_store(self.store) as store:
            await eventually(lambda: store.get(keys.job("work")), within=30)
            for number in range(1, 4):  # it must have seen that its runs are short
                await verbs.run_now(store, "work", "bench", payloads=[time.time()] * 50)
                await asyncio.to_thread(self.until_done, 50 * number)

    def enqueue(self, count: int, pace: float) -> None:
        asyncio.run(self._enqueue(count, pace))

    async def _enqueue(self, count: int, pace: float) -> None:
        async with open_store(self.store) as store:
            batch = 1 if pace else self.batch
            for start in range(0, count, batch):
                if pace:
                    await asyncio.sleep(pace)
                await verbs.run_now(store, "work", "bench", payloads=[time.time()] * min(batch, count - start))

    def workers(self) -> Sequence[Process]:
        return [self._node]


class RotaOneByOne(Rota):
    """Each task is enqueued with a commit of its own."""

    name = "rota, PostgreSQL, enqueued one by one"
    batch = 1
    count, can_drain = 1000, False


class RotaProcess(Rota):
    """A process for each run."""

    name = "rota, PostgreSQL, a process per run"
    process = True
    count, rounds, pace = 300, 2, 0.1


OURS: tuple[type[Rota], ...] = (Rota, RotaOneByOne, RotaProcess)
OTHERS: tuple[type[Peer], ...] = (
    Celery,
    DramatiqRabbit,
    DramatiqRedis,
    Huey,
    Arq,
    Rq,
    RqSimple,
    Procrastinate,
    Apscheduler,
)
