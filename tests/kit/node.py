"""One node under test, with an app of the test's own, and a look at all its processes."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from rota.model import codec, keys
from rota.model.errors import RotaError
from rota.model.ids import NodeId
from rota.resources.core.assignment import Assignment
from rota.runtime import control_socket
from rota.store import Delete, Put, open_store
from tests.kit.cli import ROTA, Answer, rota
from tests.kit.process import Process
from tests.kit.waiting import eventually

APP = """
import asyncio, os, time
import rota

app = rota.App("trial")
HERE = os.path.dirname(__file__)


def note(*words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


@app.resource(start_within="1h")
async def room(task: rota.Task) -> None:
    note("start", task.id, os.getpid(), time.monotonic())
    try:
        await asyncio.Event().wait()
    finally:
        note("stop", task.id, os.getpid(), time.monotonic())


@app.resource(exclusive=True, start_within="1h")
async def single(task: rota.Task) -> None:
    while True:
        note("act", task.id, os.getpid(), time.monotonic())
        await asyncio.sleep(0.05)


@app.resource(start_within="1h")
def stuck(task: rota.Task) -> None:
    note("start", task.id, os.getpid(), time.monotonic())
    if task.spec.get("how") == "regex":  # inside C code, holding the interpreter
        import re
        re.match(r"(a+)+$", "a" * 60 + "b")
    while True:
        time.sleep(60)


@app.resource()
async def blocking(task: rota.Task) -> None:
    note("start", task.id, os.getpid(), time.monotonic())
    await asyncio.sleep(0.3)
    time.sleep(60)


@app.job()
def short(run: rota.Run) -> None:
    time.sleep(0.002)
    note("did", run.id)


@app.job()
def long(run: rota.Run) -> None:
    note("run", run.id, os.getpid())
    time.sleep(3)  # longer than a reload takes on a busy machine
    note("done", run.id, os.getpid())


@app.job()
def held(run: rota.Run) -> None:
    note("run", run.id, os.getpid())
    while not os.path.exists(os.path.join(HERE, "gate")):
        time.sleep(0.01)
    note("done", run.id, os.getpid())


logic = app.service("logic", port=0, groups={1: 2})


@logic.on(101, group=1)
def login(request):
    return b"ok"
"""


AT_ONCE = {"ROTA_SUPERVISOR_SETTLE": "0s"}
"""A leader that waits for no other nodes of a new fleet: hundreds of tests would wait with it."""


def when_open(gate: Path) -> str:
    """Code that goes on when there is a file `gate`."""
    return f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)\n"


class NodeUnderTest(Process):
    """`rota node` on a SQLite file, with an app that notes what it does."""

    def __init__(
        self,
        folder: Path,
        *flags: object,
        name: str = "a",
        app: str = APP,
        environ: Mapping[str, str] | None = None,
        store: str = "",
        by_flag: bool = True,
    ) -> None:
        # A name of its own, so that its processes are known among all others of the machine.
        self.name = f"{name}-{os.getpid()}-{re.sub('[^a-z0-9]', '', folder.name.lower())[-20:]}"
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.app = folder / "app.py"
        self.app.write_text(app)
        self.data = folder / "data"
        self.store = store or f"sqlite:///{folder}/rota.db"
        # Nobody leads unless the test says so: what it assigns by hand is not a leader's to take away.
        usual = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--role", "work")
        told = ("--store", self.store) if by_flag else ()  # or else by the environment
        argv = [ROTA, "node", *told, "--id", self.name, "--data", self.data, *usual, *flags, self.app]
        super().__init__(argv, folder / "node.out", environ={**os.environ, **AT_ONCE, **(environ or {})})

    @property
    def gate(self) -> Path:
        """The file for which runs of the job `held` wait."""
        return self.folder / "gate"

    @property
    def token(self) -> str:
        """What its doors ask for."""
        return (self.data / "token").read_text().strip()

    async def status(self) -> dict[str, Any]:
        """What it says of itself."""
        answer: dict[str, Any] = await control_socket.call(self.data, "status", 30)
        return answer

    async def ready(self, within: float = 120.0) -> dict[str, Any]:
        """Its status, once it is ready."""

        async def look() -> dict[str, Any] | None:
            assert self.is_running, self.complaint()
            status = await self.status()
            return status if status["is_ready"] else None

        return await eventually(look, within=within, despite=(RotaError,))

    async def until(self, condition: Callable[[dict[str, Any]], object], within: float = 60.0) -> dict[str, Any]:
        """Its status, once `condition` holds for it."""

        async def look() -> dict[str, Any] | None:
            status = await self.status()
            return status if condition(status) else None

        return await eventually(look, within=within, despite=(RotaError,))

    async def assign(self, kind: str, tasks: Iterable[str], *, exclusive: bool = False, **spec: object) -> None:
        """Order tasks, as a leader would."""
        async with open_store(self.store) as store:
            for task in tasks:
                record = Assignment(kind=kind, resource=task, slot=0, spec=spec, exclusive=exclusive)
                await store.commit(Put(self._key(kind, task), codec.encode(record)))

    async def unassign(self, kind: str, tasks: Iterable[str]) -> None:
        """Take tasks back."""
        async with open_store(self.store) as store:
            for task in tasks:
                await store.commit(Delete(self._key(kind, task)))

    def notes(self) -> list[list[str]]:
        """What the app wrote down, word by word."""
        file = self.folder / "notes"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def rota(self, *arguments: object, within: float = 60.0) -> Answer:
        """A command about this node."""
        return rota(*arguments, "--data", self.data, cwd=self.folder, within=within)

    def family(self) -> list[psutil.Process]:
        """Every loader and worker of this node that is alive, whoever its parent is."""
        return [each for each in self.leftovers() if not title(each).startswith("rota: guard")]

    def leftovers(self) -> list[psutil.Process]:
        """Every process of this node but the agent: loaders, workers and their guards."""
        found = [each for each in psutil.process_iter() if title(each).startswith("rota: ")]
        return [each for each in found if title(each).endswith(f" of {self.name}") and is_alive(each)]

    def _key(self, kind: str, task: str) -> str:
        return f"{keys.assignments(NodeId(self.name))}{kind}/{task}#0"


def title(process: psutil.Process) -> str:
    """What it is called, with its arguments; empty if it has ended meanwhile."""
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.Error:
        return ""


def child_called(pid: int, word: str) -> psutil.Process:
    """The child of a process that has this word in its command line."""
    return next(each for each in psutil.Process(pid).children() if word in title(each).split())


def is_alive(process: psutil.Process) -> bool:
    """Does it run? A zombie has ended; somebody only has to take note."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def is_gone(pid: int) -> bool:
    """Has the process ended?"""
    try:
        return not is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def workers(status: dict[str, Any], pool: str, phase: str = "ready") -> list[int]:
    """The pids of a pool's workers in a phase."""
    return [
        worker["pid"]
        for worker in status["processes"]["workers"]
        if worker["pool"].startswith(pool) and worker["phase"] == phase and worker["pid"]
    ]


def children(status: dict[str, Any]) -> set[int]:
    """The pids of all processes that a node says it has."""
    processes = status["processes"]
    proxies = (proxy["pid"] for proxy in processes["proxies"])
    relay = [processes["relay"]] if processes["relay"] else []
    return {*workers(status, ""), *processes["loaders"].values(), *proxies, *relay}


def loader(status: dict[str, Any]) -> int:
    """The pid of the current generation's loader; 0 if it has none."""
    return int(status["processes"]["loaders"].get(str(status["work"]["generation"]), 0))


SOON = timedelta(seconds=2)
