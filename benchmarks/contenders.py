"""Who answers requests in the measurement of services: Rota, burst, and peers of other trades.

A contender is a context manager; inside it serves on `port`. `ask` has it asked by so many connections and returns
what came of it, with the CPU time that each part of it spent. How Rota is started and what it serves is `Rota` here
and nowhere else.
"""

import importlib.util
import json
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

import psutil

from benchmarks import load
from benchmarks.load import Load
from rota.client import ServiceClient
from rota.model.errors import RotaError
from tests.kit.burst_server import Burst
from tests.kit.node import NodeUnderTest
from tests.kit.process import Process
from tests.kit.servers import free_port, wait_until

WORKERS = 2
BODY = 100
CMD = 1


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What came of being asked."""

    per_second: float
    p50_us: float
    p99_us: float
    cpu_us: Mapping[str, float]
    """CPU time per request, by part."""


class Contender(ABC):
    """Something that answers."""

    name: ClassVar[str]
    http: ClassVar[bool] = False

    def __init__(self, base: Path) -> None:
        self.base = base
        self.port = free_port()

    @abstractmethod
    def process(self) -> Process:
        """What serves: started inside, and the root of its processes."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers."""

    def part_of(self, title: str) -> str:
        """Which part of it a process is."""
        return "all"

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Inside, it answers."""
        self._running = self.process()
        with self._running:
            wait_until(self._is_ready, f"{self.name} on port {self.port}")
            yield

    def ask(self, connections: int, seconds: float) -> Figures:
        """Have it asked."""
        before = self._cpu_seconds()
        ledger = load.run(
            Load(port=self.port, connections=connections, seconds=seconds, body=BODY, cmd=CMD, http=self.http)
        )
        if ledger.faults or set(ledger.rets) != {0}:
            raise RuntimeError(f"{self.name} did not answer every request well: {ledger}")
        return self.figures(ledger.per_second, ledger.p50_us, ledger.p99_us, ledger.answered, before)

    def figures(self, rate: float, p50_us: float, p99_us: float, answered: int, before: Mapping[str, float]) -> Figures:
        """The figures of a turn, with the CPU time since `before`."""
        spent = {part: seconds - before.get(part, 0.0) for part, seconds in self._cpu_seconds().items()}
        cpu = {part: seconds / answered * 1e6 for part, seconds in spent.items()}
        return Figures(per_second=rate, p50_us=p50_us, p99_us=p99_us, cpu_us=cpu)

    def _is_ready(self) -> bool:
        if not self._running.is_running:
            raise RuntimeError(f"{self.name} ended: {self._running.complaint()}")
        return self.is_ready()

    def _cpu_seconds(self) -> dict[str, float]:
        spent: defaultdict[str, float] = defaultdict(float)
        root = psutil.Process(self._running.pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                spent[self.part_of(" ".join(process.cmdline()))] += times.user + times.system
        return dict(spent)


class _Boxes(Contender):
    """One that speaks Box."""

    def is_ready(self) -> bool:
        try:
            with ServiceClient(f"127.0.0.1:{self.port}", timeout="1s", size=1) as client:
                return client.call(CMD, b"ready?").ret == 0
        except RotaError:
            return False

    def part_of(self, title: str) -> str:
        return next((part for part in ("proxy", "worker") if part in title), "other")


class Original(_Boxes):
    """burst as released."""

    name = f"burst {version('burst')}"

    def process(self) -> Process:
        burst = Burst(self.base, workers=WORKERS)
        self.port = burst.port
        return burst


APP = """
import rota

app = rota.App("bench")
echo = app.service("echo", port={port}, groups={{1: {workers}}}, concurrency={concurrency})


@echo.on({cmd}, group=1)
{word} answer(request):
    return request.body
"""


class _Rota(_Boxes):
    """A node with a service that answers with the request's body."""

    concurrency: ClassVar[int]
    word: ClassVar[str]

    def process(self) -> Process:
        app = APP.format(port=self.port, workers=WORKERS, concurrency=self.concurrency, cmd=CMD, word=self.word)
        return NodeUnderTest(self.base, name="bench", app=app)

    def part_of(self, title: str) -> str:
        """By the titles that a node gives to its processes."""
        if title.startswith("rota: proxy"):
            return "proxy"
        return "worker" if title.startswith("rota: service") else "other"


class Strict(_Rota):
    """A request goes to an idle worker only; the handler is a plain function."""

    name = "rota, strict"
    concurrency, word = 1, "def"


class Wide(_Rota):
    """A worker has up to 16 requests at a time; the handler is async."""

    name = "rota, concurrency=16"
    concurrency, word = 16, "async def"


class _Http(Contender):
    """One that speaks HTTP; it answers in the process that accepts, with no proxy between."""

    http = True

    def is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as sock:
            sock.settimeout(2)
            sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return sock.recv(100).startswith(b"HTTP/1.1 200")
        return False


class Gunicorn(_Http):
    """Sync workers: no keep-alive, a connection for each request."""

    name = f"gunicorn {version('gunicorn')} sync"

    def process(self) -> Process:
        argv = [sys.executable, "-m", "gunicorn", "-w", WORKERS, "-b", f"127.0.0.1:{self.port}", "--log-level", "error"]
        return Process([*argv, "benchmarks.peers.http_hello:wsgi"], self.base / "gunicorn.out")


class Uvicorn(_Http):
    """Keep-alive, with the loop and the parser that are installed here."""

    loop = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"
    parser = "httptools" if importlib.util.find_spec("httptools") else "h11"
    name = f"uvicorn {version('uvicorn')}, {loop}, {parser}"

    def process(self) -> Process:
        argv = [sys.executable, "-m", "benchmarks.peers.http_hello", self.port, WORKERS]
        return Process(argv, self.base / "uvicorn.out")


class Grpc(Contender):
    """One process, asked by another in Python: a rate of the pair."""

    name = f"grpc.aio {version('grpcio')}"

    def process(self) -> Process:
        return Process(
            [sys.executable, "-m", "benchmarks.peers.grpc_hello", "serve", self.port], self.base / "grpc.out"
        )

    def is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def ask(self, connections: int, seconds: float) -> Figures:
        before = self._cpu_seconds()
        argv = [sys.executable, "-m", "benchmarks.peers.grpc_hello", "ask", self.port, connections, seconds]
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        return self.figures(told["per_second"], told["p50_us"], told["p99_us"], told["answered"], before)


RIVALS: tuple[type[Contender], ...] = (Original, Strict, Wide)
PEERS: tuple[type[Contender], ...] = (Gunicorn, Uvicorn, Grpc)
