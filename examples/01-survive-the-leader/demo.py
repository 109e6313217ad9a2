"""Three nodes, one leader, and two ways to lose it.

The nodes are real processes (`rota node`), the store is an SQLite file in a temporary folder, and what you see is read
from that store, as any other program could.
"""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from rota.model import codec, keys
from rota.model.node import Leader, Node
from rota.store import Store, open_store

TTL = 3.0
NAMES = ("ann", "bob", "eve")


@dataclass
class View:
    """What the store says, and what we did to it."""

    leader: Leader | None = None
    term: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def tell(self, what: str) -> None:
        """A line below the table, or on a plain terminal."""
        line = f"{time.monotonic() - self.started:5.1f} s  {what}"
        self.told.append(line)
        if not CONSOLE.is_terminal:
            print(line, flush=True)

    def __rich__(self) -> Group:
        table = Table("node", "pid", "state", title="three nodes on one SQLite file", title_justify="left")
        for name in NAMES:
            node = self.nodes.get(name)
            table.add_row(name, str(node.pid) if node else "", self.marks.get(name) or self._state(name))
        return Group(table, *self.told)

    def _state(self, name: str) -> str:
        if self.leader is not None and self.leader.node == name:
            return f"[bold green]leads[/] in term {self.term}"
        return "follows" if name in self.nodes else "[dim]not in the fleet[/]"


CONSOLE = Console()


class Fleet:
    """Three processes, and what the store says of them."""

    def __init__(self, folder: Path, store: Store, view: View) -> None:
        self._url = f"sqlite:///{folder / 'rota.db'}"
        self._folder = folder
        self._store = store
        self._looked = asyncio.Event()
        self.view = view
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start one node."""
        rota = Path(sys.executable).with_name("rota")
        argv = [
            rota,
            "node",
            "--store",
            self._url,
            "--id",
            name,
            "--data",
            self._folder / name,
            "--lease-ttl",
            f"{TTL:g}s",
        ]
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def send(self, name: str, number: signal.Signals, mark: str) -> None:
        """Send a signal to a node, and remember it."""
        self.running[name].send_signal(number)
        self.view.marks[name] = mark

    def freeze(self, name: str) -> None:
        """Stop a node where it stands, but not within a write."""
        # There it would hold the lock of the SQLite file until it wakes or is killed, and nobody could be elected. So
        # one that has the lock goes on for a moment. With a server as the store this would not be needed.
        while not self._is_frozen_between_writes(name):
            self.send(name, signal.SIGCONT, "")
            time.sleep(0.05)

    def _is_frozen_between_writes(self, name: str) -> bool:
        self.send(name, signal.SIGSTOP, "[yellow]frozen[/]")
        os.waitpid(self.running[name].pid, os.WUNTRACED)  # until it stands still
        with closing(sqlite3.connect(self._folder / "rota.db", timeout=0.2, isolation_level=None)) as file:
            try:
                file.execute("BEGIN IMMEDIATE")  # a node that runs has the lock for milliseconds, and we wait for that
            except sqlite3.OperationalError:
                return False
            file.execute("ROLLBACK")
            return True

    def stop(self) -> None:
        """End every process we started."""
        for process in self.running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def look(self) -> None:
        """Keep the view up to date, for ever."""
        while True:
            entry = await self._store.get(keys.LEADER)
            self.view.leader = codec.decode(Leader, entry.value) if entry else None
            self.view.term = entry.created if entry else 0
            listing = await self._store.scan(keys.NODES)
            nodes = [codec.decode(Node, entry.value) for entry in listing.entries]
            self.view.nodes = {node.id: node for node in nodes}
            self._looked.set()
            await asyncio.sleep(0.05)

    async def until(self, condition: Callable[[View], bool], what: str) -> None:
        """Wait for the store to show something; say so if it never does."""
        try:
            async with asyncio.timeout(6 * TTL):
                while not condition(self.view):
                    self._looked.clear()
                    await self._looked.wait()
        except TimeoutError:
            logs = "\n".join(log.read_text()[-500:] for log in self._folder.glob("*.log"))
            raise SystemExit(f"demo: waited in vain until {what}; the nodes said:\n{logs}") from None


async def story(fleet: Fleet) -> None:
    """What happens."""
    view = fleet.view
    for name in NAMES:
        fleet.start(name)
    view.tell(f"three nodes start, each with a lease of {TTL:g} s")
    await fleet.until(lambda view: len(view.nodes) == 3 and view.leader is not None, "three nodes had a leader")
    first = _leader(view)
    view.tell(f"{first} leads in term {view.term}")
    await asyncio.sleep(1)

    fleet.send(first, signal.SIGKILL, "[red]killed[/]")
    killed = time.monotonic()
    view.tell(f"kill -9 {first}")
    await fleet.until(lambda view: view.leader is not None and view.leader.node != first, "another node led")
    second = _leader(view)
    view.tell(f"{second} leads in term {view.term}, {time.monotonic() - killed:.1f} s after the kill")
    await asyncio.sleep(1)

    fleet.freeze(second)
    view.tell(f"kill -STOP {second}: it still believes that it leads")
    await fleet.until(lambda view: view.leader is not None and view.leader.node != second, "the third node led")
    third = _leader(view)
    view.tell(f"{third} leads in term {view.term}")
    fleet.send(second, signal.SIGCONT, "")
    view.tell(f"kill -CONT {second}: its term is over, whatever it had in mind to write")
    await fleet.until(lambda view: second in view.nodes, f"{second} was back")
    view.tell(f"{second} is back with a new session and follows {third}")
    await asyncio.sleep(1)


def _leader(view: View) -> str:
    assert view.leader is not None
    return view.leader.node


@contextmanager
def shown(view: View) -> Iterator[None]:
    """The view, live on a terminal."""
    if not CONSOLE.is_terminal:
        yield
        return
    with Live(view, console=CONSOLE, refresh_per_second=10):
        yield


async def main() -> None:
    """The demo."""
    view = View()
    async with AsyncExitStack() as up:
        folder = Path(up.enter_context(tempfile.TemporaryDirectory(prefix="rota-demo-")))
        store = await up.enter_async_context(open_store(f"sqlite:///{folder / 'rota.db'}"))
        fleet = Fleet(folder, store, view)
        up.callback(fleet.stop)
        up.enter_context(shown(view))
        looking = asyncio.create_task(fleet.look())
        try:
            await story(fleet)
        finally:
            looking.cancel()
            await asyncio.wait([looking])
    print("demo: one fleet, two lost leaders, never two at once")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
