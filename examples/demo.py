"""`make demo`: the tour on three nodes; the leader is killed with all its work, and what came of it is counted.

The nodes are real processes (`rota node`), everything is in a temporary folder, and no server is needed. In a terminal
the fleet goes on until Ctrl-C, to be looked at in the dashboard; elsewhere it ends when the story does. Nothing is left
behind in either case: the nodes hold a lifeline, and would even end if this program were killed.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.error import URLError
from urllib.request import Request, urlopen

from rich.console import Console

from rota import Unavailable, Unknown
from rota.client import ServiceClient

HERE = Path(__file__).resolve().parent
ROTA = Path(sys.executable).with_name("rota")
NAMES = ("n1", "n2", "n3")
TTL = "3s"
"""How long the fleet waits for a silent node; 10 s unless somebody says so."""

WARM = 5
"""Seconds of work before the kill, and after the fleet is whole again."""

PATIENCE = 90.0
FIRST_START = 600.0
"""Seconds until all work runs for the first time: on a cold and busy machine imports alone take long."""

FIRST_WORD, NEXT_WORD = 5.0, 10.0
"""Seconds of waiting until a line says for what, and from one such line to the next."""

STOP = 5.0
PRICE = 1
STARTED = time.monotonic()
CONSOLE = Console(highlight=False, soft_wrap=True)
T = TypeVar("T")


def tell(what: str, style: str = "") -> None:
    """A line with its time."""
    CONSOLE.print(f"{time.monotonic() - STARTED:5.1f} s  {what}", style=style, markup=False)


class Fleet:
    """Three nodes in a folder, and what they say."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_urlsafe(24)
        self.alive: dict[str, subprocess.Popen[bytes]] = {}
        self._doors = {name: f"127.0.0.1:{_free_port()}" for name in NAMES}
        self._lifeline = os.pipe()
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(self.token)

    @property
    def store(self) -> str:
        """Its store."""
        return f"sqlite:///{self.folder}/rota.db"

    def start(self, name: str) -> None:
        """Start a node; what it says, and the messages that leave the fleet there, go to a file."""
        doors = ["--http", self._doors[name], "--grpc", "127.0.0.1:0", "--token", f"file:{self.folder}/token"]
        own = ["--id", name, "--data", self.folder / name, "--lease-ttl", TTL, "--executors", "2"]
        with self.output(name).open("ab") as output:
            self.alive[name] = subprocess.Popen(
                [ROTA, "node", "--store", self.store, *own, *doors, HERE / "tour.py"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,  # Ctrl-C is ours
                pass_fds=[self._lifeline[0]],
                env={**os.environ, "ROTA_LIFELINE": str(self._lifeline[0]), "TOUR_FOLDER": str(self.folder / "tour")},
            )

    def kill(self, name: str) -> None:
        """End a node as a power cut would."""
        victim = self.alive.pop(name)  # before it ends: nobody takes that for an accident
        victim.kill()
        victim.wait()

    def stop(self) -> None:
        """End every node."""
        for node in self.alive.values():
            node.send_signal(signal.SIGINT)
        for node in self.alive.values():
            try:
                node.wait(STOP)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        for end in self._lifeline:
            os.close(end)

    def output(self, name: str) -> Path:
        """What a node has said."""
        return self.folder / f"{name}.log"

    def dashboard(self, name: str) -> str:
        """Where a node shows the fleet."""
        return f"http://{self._doors[name]}/"

    def ask(self, path: str) -> Any:
        """What the API says, at whichever node answers."""
        for name in tuple(self.alive):
            asked = Request(f"{self.dashboard(name)}v1/{path}", headers={"authorization": f"Bearer {self.token}"})
            with suppress(URLError, OSError), urlopen(asked, timeout=5) as answer:
                return json.load(answer)
        raise Unavailable("no node answers")

    def rota(self, *arguments: str) -> str:
        """What a command says; the demo ends if it fails."""
        argv = [ROTA, *arguments, "--store", self.store]
        done = subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"demo: rota {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def until(self, look: Callable[[], T | None], what: str, within: float = PATIENCE) -> T:
        """Wait for something that comes true; say what is waited for if it takes long, and fail if a node ends."""
        began = time.monotonic()
        next_word = FIRST_WORD
        while (waited := time.monotonic() - began) < within:
            with suppress(Unavailable):
                if found := look():
                    return found
            if ended := [name for name, node in tuple(self.alive.items()) if node.poll() is not None]:
                raise SystemExit(f"demo: {', '.join(ended)} ended while waiting until {what}; {self._last_words()}")
            if waited > next_word:
                next_word = waited + NEXT_WORD
                tell(f"waiting until {what}, for {waited:.0f} s; {self._doing()}")
            time.sleep(0.1)
        raise SystemExit(f"demo: waited in vain for {within:g} s until {what}; {self._last_words()}")

    def _doing(self) -> str:
        """The last line of each node's log, without its time; the messages of sinks are not part of it."""
        logs = {name: self.output(name).read_text().splitlines() for name in tuple(self.alive)}
        lasts = {name: [line for line in lines if not line.startswith("{")][-1:] for name, lines in logs.items()}
        return "; ".join(f"{name}: {last[0].partition(' ')[2] if last else 'starting'}" for name, last in lasts.items())

    def _last_words(self) -> str:
        """The end of what each node has said."""
        return "the nodes said:\n" + "\n".join(self.output(name).read_text()[-1000:] for name in NAMES)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# What the fleet says


def homes(fleet: Fleet, without: str = "") -> dict[str, set[str]] | None:
    """Where each resource is, if all tasks run, and none on the node that is gone."""
    listed, seen = fleet.ask("resources?limit=1000")["resources"], fleet.ask("overview")
    found = {f"{each['kind']}/{each['id']}": _nodes(each["status"]) for each in listed}
    is_whole = all(each["status"] and each["status"]["assigned"] == each["status"]["replicas"] for each in listed)
    is_all_there = {"room", "shop", "stream:clicks"} == {each["kind"] for each in listed}
    is_running = seen["tasks_running"] == seen["tasks"]
    return found if is_whole and is_all_there and is_running and without not in set().union(*found.values()) else None


def _nodes(status: dict[str, Any] | None) -> set[str]:
    return {each.partition("|")[0] for each in status["AssignedNode"].split(",")} if status else set()


def shown(resource: str) -> str:
    """A resource as people call it; groups of a stream have no names that mean something."""
    kind = resource.partition("/")[0]
    return f"readers of {kind.removeprefix('stream:')}" if kind.startswith("stream:") else resource


def leader(fleet: Fleet, other_than: str = "") -> dict[str, Any] | None:
    """Who leads, if it is not that one."""
    leads: dict[str, Any] | None = fleet.ask("overview")["leader"]
    return leads if leads and leads["node"] != other_than else None


def departure(fleet: Fleet, name: str) -> dict[str, Any] | None:
    """The event that a node has gone."""
    events = fleet.ask("events?kind=node.left&limit=10")["events"]
    return next((each for each in events if each["subject"] == name), None)


def is_published(fleet: Fleet) -> bool:
    """Has the stream, which is to rest, published all that it has read?"""
    seen = fleet.ask("streams/clicks/status")
    return seen["stream"]["state"] == "suspended" and not seen["groups"]


# What is counted


class Customers:
    """One for each node, who asks at its till again and again; who gets no answer asks at another node."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._over = fleet, threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=[place], daemon=True) for place in range(len(NAMES))]
        self._lock = threading.Lock()
        self.asked = self.answered = self.again = 0

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self, within: float = PATIENCE) -> None:
        """Ask nothing more; what was asked is answered first."""
        self._over.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(within)

    def _ask(self, place: int) -> None:
        tills = self._tills()
        while not self._over.wait(0.02):
            with self._lock:
                self.asked += 1
            end, count = time.monotonic() + PATIENCE / 2, 0
            while not (answered := self._is_answered(tills[(place + count) % len(tills)])) and time.monotonic() < end:
                tills, count = self._tills(), count + 1
            with self._lock:
                self.answered += answered
                self.again += count > 0

    def _is_answered(self, till: str) -> bool:
        try:
            with ServiceClient(till, timeout="1s", size=1) as client:
                return client.call(PRICE, json={"article": "tea"}).ret == 0
        except (Unavailable, Unknown):
            return False

    def _tills(self) -> list[str]:
        def look() -> list[str]:
            nodes = self._fleet.ask("services")["nodes"]
            return [
                at for node in nodes for each in node["services"] if each["stat"] for at in each["stat"]["listening"]
            ]

        return [each.partition("://")[2] or each for each in self._fleet.until(look, "a till is open")]


def messages(fleet: Fleet, rooms: set[str], last: int) -> Counter[tuple[str, int]] | None:
    """How often the sinks got what each room said in each second, if they have got everything up to the last."""
    found: Counter[tuple[str, int]] = Counter()
    for name in NAMES:
        for line in fleet.output(name).read_bytes().splitlines():
            if line.startswith(b'{"id":') and line.endswith(b"}"):
                said = json.loads(json.loads(line)["text"])
                found[said["room"], said["second"]] += 1
    until = Counter({at: count for at, count in found.items() if at[1] <= last})
    return until if all((room, last) in until for room in rooms) else None


def unheard(found: Counter[tuple[str, int]], last: int) -> int:
    """How many seconds of a room nobody has told of, from the first that somebody has."""
    firsts: dict[str, int] = {}
    for room, second in sorted(found, reverse=True):
        firsts[room] = second
    return sum((room, second) not in found for room, first in firsts.items() for second in range(first, last + 1))


def runs(fleet: Fleet, last: int) -> list[dict[str, Any]] | None:
    """The runs of the job, if each one that was due by then is over."""
    listed = fleet.ask("runs?job=look_around&limit=1000")["runs"]
    due = [run for run in listed if _second(run) <= last]
    return due if any(_second(run) == last for run in due) and all(run["ended"] for run in due) else None


def _second(run: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(run["due"]).timestamp())


def undone(due: list[dict[str, Any]], last: int) -> int:
    """How many due times have no run that succeeded, from the first one on."""
    done = {_second(run) for run in due if run["state"] == "succeeded"}
    return sum(second not in done for second in range(min(_second(run) for run in due), last + 1))


# The story


def story(fleet: Fleet, customers: Customers) -> bool:
    """What happens; was nothing lost?"""
    for name in NAMES:
        fleet.start(name)
    tell(f"three nodes start on one SQLite file; one that is silent for {TTL} counts as lost")
    before = fleet.until(lambda: homes(fleet), "all tasks run", FIRST_START)
    leads = fleet.until(lambda: leader(fleet), "a node leads")
    victim = leads["node"]
    tell(f"{victim} leads in term {leads['term']}; all four kinds of work run on the nodes:")
    for name, nodes in sorted(before.items()):
        tell(f"  {shown(name)}: {', '.join(sorted(nodes))}")
    survivor = next(name for name in NAMES if name != victim)
    tell(f"the dashboard is at {fleet.dashboard(survivor)} and asks for this token: {fleet.token}", "bold")
    customers.start()
    rooms = {name.partition("/")[2] for name in before if name.startswith("room/")}
    fleet.until(lambda: messages(fleet, rooms, int(time.time()) - 1), "every room is heard")
    time.sleep(WARM)

    fleet.kill(victim)
    killed, wall = time.monotonic(), time.time()
    held = sum(victim in nodes for nodes in before.values())
    tell(f"kill -9 {victim}: the leader is gone, with {held} tasks, its till and its runs", "bold red")
    new = fleet.until(lambda: leader(fleet, victim), "another node leads")
    tell(f"{new['node']} leads in term {new['term']}, {time.monotonic() - killed:.1f} s after the kill")
    left = fleet.until(lambda: departure(fleet, victim), "the others notice it")
    noticed = datetime.fromisoformat(left["at"]).timestamp() - wall
    tell(f"{left['node']} noticed that {victim} is gone, {noticed:.1f} s after the kill")
    after = fleet.until(lambda: homes(fleet, victim), "every task runs elsewhere")
    tell(f"every task runs again, {time.monotonic() - killed:.1f} s after the kill; moved were:", "bold green")
    for name, nodes in sorted(after.items()):
        if victim in before.get(name, ()):  # groups of a stream come and go
            tell(f"  {shown(name)}: {victim} → {', '.join(sorted(nodes - before[name]))}")
    fleet.start(victim)
    fleet.until(lambda: fleet.ask("overview")["nodes_up"] == len(NAMES), f"{victim} is back")
    tell(f"{victim} is started again, and is back in the fleet")
    time.sleep(WARM)
    return count(fleet, customers, rooms)


def count(fleet: Fleet, customers: Customers, rooms: set[str]) -> bool:
    """Tell what came of everything that was asked, said, clicked and due; was nothing lost?"""
    customers.stop()
    last = int(time.time())
    said = fleet.until(lambda: messages(fleet, rooms, last), "all messages have come")
    due = fleet.until(lambda: runs(fleet, last), "all runs are over")
    fleet.rota("streams", "suspend", "clicks", "--no-wait")
    fleet.until(lambda: is_published(fleet), "all that was read is published")
    proof = fleet.rota("streams", "verify", "clicks", "--by", "part,number").splitlines()[-1]
    lost = {
        "requests": customers.asked - customers.answered,
        "messages": unheard(said, last),
        "runs": undone(due, last),
    }
    twice, again = sum(count > 1 for count in said.values()), sum(run["attempt"] > 1 for run in due)
    tell("what came of it all:", "bold")
    tell(f"  requests  {customers.asked} asked, {lost['requests']} lost; {customers.again} asked again at another node")
    tell(
        f"  messages  {len(said)} of {len(rooms)} rooms, {lost['messages']} lost; {twice} came twice, with the same id"
    )
    tell(f"  runs      {len(due)} due, {lost['runs']} lost; {again} began again on another node")
    tell(f"  records   {proof}")
    return not any(lost.values())


@contextmanager
def uninterrupted() -> Iterator[None]:
    """No second Ctrl-C while everything is put away."""
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)


def _leave(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    """The demo; its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with ExitStack() as up:
        folder = Path(up.enter_context(tempfile.TemporaryDirectory(prefix="rota-demo-")))
        fleet = Fleet(folder)
        up.callback(fleet.stop)
        customers = Customers(fleet)
        up.callback(customers.stop, STOP)
        up.enter_context(uninterrupted())
        if not story(fleet, customers):
            CONSOLE.print("demo: something was lost, which must not be; please report it with the lines above")
            return 1
        CONSOLE.print("demo: the leader died with all its work, and nothing was lost", style="bold green")
        if CONSOLE.is_terminal:
            fleet.rota("streams", "resume", "clicks")
            tell("the fleet goes on; look at the dashboard, and end it with Ctrl-C", "bold")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
