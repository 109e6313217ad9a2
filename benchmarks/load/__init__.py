"""The load generator, built on use: `run(Load(port=9900))` asks a service and returns the ledger.

It is in C, so that what is measured is the service and not its caller. The binary is kept below `.rota` in the
repository, under a name made from its source.
"""

import json
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from hashlib import sha256
from pathlib import Path

SOURCE = Path(__file__).with_name("boxload.c")
CACHE = Path(__file__).parents[2] / ".rota" / "load"
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror")


class NoCompiler(Exception):
    """There is no C compiler here."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What to ask, how, and for how long."""

    port: int
    host: str = "127.0.0.1"
    connections: int = 16
    body: int = 100
    cmd: int = 1
    seconds: float = 3.0
    pipeline: int = 1
    """Requests out at a time on each connection."""

    rate: float = 0.0
    """Requests a second, whatever the answers do; 0: the next when an answer has come."""

    timeout: float = 0.0
    """Seconds after which a request is given up; 0: never by TCP, 1 by UDP."""

    linger: float = 2.0
    """Seconds to wait in the end for answers that are out."""

    udp: bool = False
    http: bool = False
    """GETs over keep-alive connections instead of Boxes."""

    echo: bool = False
    """Count answers as garbled whose body is not the request's."""

    until_closed: bool = False
    """Do not connect again, and end when the service has closed every connection."""

    heed: int = 0
    """A connection that is answered with this ret asks no more, as a client does that is told of a stop; 0: none."""

    def argv(self) -> list[str]:
        """The command line."""
        argv = [str(build())]
        for each in fields(self):
            value, flag = getattr(self, each.name), f"--{each.name.replace('_', '-')}"
            if value is True:
                argv.append(flag)
            elif value is not False:
                argv += [flag, str(value)]
        return argv


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What became of every request: each is answered, lost, unsent, timed out or unanswered."""

    seconds: float
    sent: int
    answered: int
    per_second: float
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float
    failed_p99_us: float
    """Of the answers whose ret is not 0; 0 if there are none."""

    rets: Mapping[int, int] = field(default_factory=dict)
    lost: int
    """The connection was closed with the whole request sent."""

    unsent: int
    """It was closed with a part of the request sent, or none: the request cannot have run."""

    timed_out: int
    unanswered: int
    """Still out when the lingering was over."""

    late: int
    """Answers to requests that had timed out."""

    twice: int
    """Answers to requests that had been answered."""

    strange: int
    """Answers to requests that were never sent on their connection."""

    garbled: int
    bad_frames: int
    closed: int
    reconnects: int
    refused: int

    @property
    def faults(self) -> dict[str, int]:
        """What an honest service does to nobody, by name; empty if all is well."""
        names = ("lost", "timed_out", "unanswered", "twice", "strange", "garbled", "bad_frames")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


@cache
def build() -> Path:
    """The program, compiled if its source has changed."""
    program = CACHE / f"boxload-{sha256(SOURCE.read_bytes()).hexdigest()[:12]}"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("the load generator is in C, and there is no cc here; install one, like Debian's gcc package")
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = program.with_suffix(f".{id(program)}")
    subprocess.run([compiler, *FLAGS, "-o", fresh, SOURCE], check=True)
    fresh.rename(program)  # whole or not at all, whoever else builds it
    return program


class Running:
    """A load under way; a context manager."""

    def __init__(self, load: Load) -> None:
        self._process = subprocess.Popen(load.argv(), stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def stop(self) -> Ledger:
        """Send nothing new, wait for what is out, and tell."""
        self._process.send_signal(signal.SIGTERM)
        return self.ledger()

    def ledger(self, *, within: float = 120.0) -> Ledger:
        """Wait for its end, and tell."""
        told, _ = self._process.communicate(timeout=within)
        if self._process.returncode != 0:
            raise RuntimeError(f"boxload ended with {self._process.returncode}; its error output says why")
        figures = json.loads(told)
        return Ledger(**{**figures, "rets": {int(ret): count for ret, count in figures["rets"].items()}})


def run(load: Load) -> Ledger:
    """Ask, and tell what became of it."""
    with Running(load) as running:
        return running.ledger(within=load.seconds + load.linger + 60)
