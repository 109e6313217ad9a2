"""Carrying faults out, one after the other, and seeing that the fleet gets over each of them.

Two rows run side by side: faults of nodes, and faults of servers. A fault of a node begins when the fleet has got over
the one before, for two replicas stand one loss at a time. What a server does meanwhile does not matter.

Beside them somebody tends the nodes as systemd does (`deploy/systemd`): one that ended by itself is started again.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psutil

from rota.kit.record import replace
from rota.model.errors import RotaError
from tests.kit.chaos import grounds
from tests.kit.chaos.clients import Death
from tests.kit.chaos.fleet import NAMES, TTL, Arena
from tests.kit.chaos.plan import AT_ONCE, DEADLY, OF_PARTITIONS, Fault, Harm, node_faults, server_faults
from tests.kit.node import NodeUnderTest, is_alive
from tests.kit.servers import Server
from tests.kit.waiting import eventually

SPARED = "a"
"""The node whose agent is never killed, so that its memory can be watched all the time."""

AGAIN = 1.0
"""Seconds until a node that ended by itself is started again."""

GONE = 5.0
"""Seconds within which nothing may be left of a node whose agent was killed; the kernel needs some milliseconds."""

OVER = 90.0
"""Seconds within which a fleet must be whole after a fault."""

WORKERS = ("rota: host", "rota: executor", "rota: service", "rota: task", "rota: run")

Say = Callable[[str], None]


@dataclass
class Damage:
    """What was done, and how the fleet stood it."""

    faults: list[Fault] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    """Processes that outlived their agent."""

    stuck: list[str] = field(default_factory=list)
    """Faults that the fleet had not got over in time."""

    ended: list[tuple[str, int]] = field(default_factory=list)
    """Nodes that ended by themselves, and with which code."""

    slowest: tuple[float, str] = (0.0, "")
    """The longest time until the fleet was whole again, and after what."""


class Faults:
    """What is done to one fleet."""

    def __init__(self, arena: Arena, seed: int, say: Say) -> None:
        self._arena, self._seed, self._say = arena, seed, say
        self._began = time.monotonic()
        self._down: set[str] = set()
        """Nodes that are to be down for a while."""

        self.damage = Damage()

    async def rage(self, seconds: float) -> None:
        """Do harm for so long, then let everybody get over it."""
        end = self._began + seconds
        async with asyncio.TaskGroup() as rows:
            rows.create_task(self._harm_nodes(end))
            rows.create_task(self._harm_servers(end))
        await self._get_over("all of it")

    async def tend(self) -> None:
        """Start nodes again that ended by themselves, for ever."""
        while True:
            await asyncio.sleep(AGAIN)
            for name, node in self._arena.fleet.nodes.items():
                code = node.exit_code
                if code is not None and name not in self._down:
                    self.damage.ended.append((name, code))
                    self.tell(f"{name} ended with {code}, and is started again: {node.complaint()[-300:].strip()}")
                    node.start()

    def tell(self, what: str) -> None:
        """Say something with its time."""
        self._say(f"{datetime.now(UTC):%H:%M:%S}  {time.monotonic() - self._began:7.1f} s  {what}")

    async def _harm_nodes(self, end: float) -> None:
        for fault in node_faults(self._seed, NAMES, SPARED, TTL, impossible()):
            await asyncio.sleep(fault.pause)
            if time.monotonic() + fault.seconds > end:
                return
            found = await self._aimed(fault)
            self._note(found)
            await self._harm_node(found)
            await self._get_over(str(found))

    async def _harm_servers(self, end: float) -> None:
        for fault in server_faults(self._seed, list(self._arena.servers), TTL):
            await asyncio.sleep(fault.pause)
            if time.monotonic() + fault.seconds > end:
                return
            self._note(fault)
            await _harm_server(self._arena.servers[fault.victim], fault)
            self.tell(f"{fault.victim} is back")

    def _note(self, fault: Fault) -> None:
        self.damage.faults.append(fault)
        self.tell(str(fault))

    async def _get_over(self, what: str) -> None:
        began = time.monotonic()
        try:
            await self._arena.until_whole(within=OVER)
        except AssertionError as error:
            self.damage.stuck.append(f"{what}: {error}")
            self.tell(f"not whole after {OVER:g} s: {error}")
        self.damage.slowest = max(self.damage.slowest, (time.monotonic() - began, what))

    async def _aimed(self, fault: Fault) -> Fault:
        """The fault as it hits: who leads is known only now, and the spared node is frozen instead."""
        if fault.harm is not Harm.KILL_LEADER:
            return fault
        leader = await eventually(self._arena.fleet.leader, within=OVER, despite=(RotaError,))
        return replace(fault, victim=leader, harm=Harm.FREEZE_AGENT if leader == SPARED else fault.harm)

    async def _harm_node(self, fault: Fault) -> None:
        name, harm = fault.victim, fault.harm
        if harm in DEADLY:
            await self._kill_agent(name, fault.seconds)
        elif harm in KILLS:
            self._kill_child(name, fault)
        else:
            async with TROUBLES[harm](self._arena, name, harm):
                await asyncio.sleep(0 if harm in AT_ONCE else fault.seconds)

    async def _kill_agent(self, name: str, seconds: float) -> None:
        node = self._arena.fleet.nodes[name]
        kin = node.leftovers()
        self._arena.deaths.append(Death(name, time.monotonic()))
        self._down.add(name)
        if node.is_running:
            await asyncio.to_thread(node.kill)
        with suppress(AssertionError):
            await eventually(lambda: not any(map(is_alive, kin)), within=GONE)
        self.damage.orphans += [_told(each) for each in kin if is_alive(each)]
        await asyncio.sleep(seconds)
        node.start()
        self._down.remove(name)

    def _kill_child(self, name: str, fault: Fault) -> None:
        family = self._arena.fleet.nodes[name].family()
        found = sorted((each for each in family if title(each).startswith(KILLS[fault.harm])), key=lambda one: one.pid)
        if not found:
            return
        victim = found[int(fault.pick * len(found))]
        self.tell(f"… {_told(victim)}")
        if fault.harm is Harm.KILL_PROXY:
            self._arena.deaths.append(Death(name, time.monotonic()))
        with suppress(psutil.Error):
            victim.kill()


KILLS: dict[Harm, tuple[str, ...]] = {
    Harm.KILL_LOADER: ("rota: loader",),
    Harm.KILL_WORKER: WORKERS,
    Harm.KILL_RELAY: ("rota: relay",),
    Harm.KILL_PROXY: ("rota: proxy",),
}


@asynccontextmanager
async def _frozen(arena: Arena, name: str, harm: Harm) -> AsyncIterator[None]:
    node = arena.fleet.nodes[name]
    processes = [psutil.Process(node.pid), *(node.leftovers() if harm is Harm.FREEZE_NODE else ())]
    for each in processes:
        _signal(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in reversed(processes):
            _signal(each, signal.SIGCONT)


@asynccontextmanager
async def _bad_link(arena: Arena, name: str, harm: Harm) -> AsyncIterator[None]:
    """Something is wrong with its way to the store."""
    link = arena.links[name]
    match harm:
        case Harm.CUT:
            link.cut()
        case Harm.STRAND:
            link.strand()
        case Harm.REFUSE:
            await link.refuse()
        case Harm.SILENCE:
            link.freeze()
        case Harm.HOLD_REQUESTS:
            link.hold_requests()
        case Harm.HOLD_ANSWERS:
            link.hold_answers()
    try:
        yield
    finally:
        await link.heal()


@asynccontextmanager
async def _dropped(_: Arena, name: str, harm: Harm) -> AsyncIterator[None]:
    host, answers = grounds.address(NAMES.index(name)), harm is Harm.DROP_ANSWERS
    grounds.drop(host, answers=answers)
    try:
        yield
    finally:
        grounds.deliver(host, answers=answers)


@asynccontextmanager
async def _full_disk(arena: Arena, name: str, _: Harm) -> AsyncIterator[None]:
    rest = await asyncio.to_thread(arena.disks[name])
    try:
        yield
    finally:
        rest.unlink()


LINKS = (Harm.CUT, Harm.STRAND, Harm.REFUSE, Harm.SILENCE, Harm.HOLD_REQUESTS, Harm.HOLD_ANSWERS)

TROUBLES: dict[Harm, Callable[[Arena, str, Harm], AbstractAsyncContextManager[None]]] = {
    **dict.fromkeys((Harm.FREEZE_AGENT, Harm.FREEZE_NODE), _frozen),
    **dict.fromkeys(LINKS, _bad_link),
    **dict.fromkeys(OF_PARTITIONS, _dropped),
    Harm.FILL_DISK: _full_disk,
}
"""What lasts for a while: inside, it is so; a node's name, and what exactly."""


async def _harm_server(server: Server, fault: Fault) -> None:
    is_killed = fault.harm is Harm.KILL_SERVER
    await asyncio.to_thread(server.kill if is_killed else server.freeze)
    await asyncio.sleep(fault.seconds)
    try:
        await asyncio.to_thread(server.start if is_killed else server.thaw)
    except TimeoutError:  # it looks through what it wrote, with all nodes knocking: that may take twice as long
        await asyncio.to_thread(server.wait_ready)


def impossible() -> frozenset[Harm]:
    """What cannot be done here."""
    return frozenset() if grounds.is_own() else OF_PARTITIONS | {Harm.FILL_DISK}


def left_behind(nodes: Iterable[NodeUnderTest]) -> list[str]:
    """The processes that are left of nodes that have ended."""
    return [_told(each) for node in nodes for each in node.leftovers()]


def title(process: psutil.Process) -> str:
    """What a process calls itself; nothing if it is gone."""
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.Error:
        return ""


def _told(process: psutil.Process) -> str:
    return f"{title(process)} ({process.pid})"


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
