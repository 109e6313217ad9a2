"""Trials of leadership with real processes: what happens when a leader is killed, and when it is frozen.

Tests ask whether the rules held; `make show-ground` prints the figures too.
"""

import asyncio
import time
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path

from rota.kit.time.durations import parse
from rota.model import codec, keys
from rota.model.errors import Unavailable, Unknown
from rota.model.node import Leader, Node
from rota.store import Commit, Entry, Put, Store, open_store
from tests.kit.cli import ROTA
from tests.kit.process import Process, Script
from tests.kit.servers import Server
from tests.kit.stubborn import PROBE
from tests.kit.waiting import Recorder, eventually


@dataclass(frozen=True)
class Takeover:
    """A leader was killed."""

    old: str
    new: str
    seconds: float
    """From the kill to the new leader's term."""


@dataclass(frozen=True)
class Thaw:
    """A leader was frozen past its ttl, deposed, and thawed."""

    old_term: int
    new_term: int
    refused: int
    """How many writes it tried in vain."""

    accepted: int
    """How many of its writes were accepted after the new term began."""


async def kill_the_leader(url: str, folder: Path, ttl: str = "2s", nodes: int = 3) -> Takeover:
    """Three nodes; the leader is killed −9; another leads."""
    async with AsyncExitStack() as up:
        store = await up.enter_async_context(open_store(url))
        running = {name: up.enter_context(rota_node(url, name, folder, ttl)) for name in "abc"[:nodes]}
        await eventually(lambda: count_nodes(store, nodes))
        first = await leader_other_than(store, None)
        killed = time.monotonic()
        running[first.node].kill()
        second = await leader_other_than(store, first)
        return Takeover(first.node, second.node, time.monotonic() - killed)


async def freeze_the_leader(url: str, folder: Path, ttl: str = "2s", attempts: int = 50) -> Thaw:
    """Two stubborn nodes; the leader is frozen until the other leads, and then tries to write on."""
    async with AsyncExitStack() as up:
        store = await up.enter_async_context(open_store(url))
        probes = await up.enter_async_context(Recorder(store, PROBE, await store.revision()))
        running = {name: up.enter_context(stubborn(url, name, folder, ttl)) for name in "ab"}
        first = await leader_other_than(store, None)
        old_term = int(await eventually(lambda: _said(running[first.node], "accepted")))
        running[first.node].freeze_between_writes(url)
        second = await leader_other_than(store, first)
        new_term = int(await eventually(lambda: _said(running[second.node], "accepted")))
        running[first.node].thaw()
        refused = await eventually(lambda: _enough(running[first.node], f"refused {old_term}", attempts), within=30)
        await probes.reach(await store.revision())
        late = [commit for commit in probes.commits if commit.revision > new_term and _term(commit) == old_term]
        return Thaw(old_term, new_term, refused, len(late))


@dataclass(frozen=True)
class Outage:
    """The store's server was killed and came back."""

    lost_sessions: int
    """Nodes that were declared dead for it."""

    leaders: int
    """Sessions that lead after it: one."""

    has_kept: bool
    """Is everything there that was there before?"""

    timeline: tuple[str, ...]


async def take_the_store_away(url: str, server: Server, folder: Path, seconds: float, ttl: str = "10s") -> Outage:
    """Three nodes; the server is killed −9, stays away, and comes back."""
    async with AsyncExitStack() as up:
        store = await up.enter_async_context(open_store(url))
        for name in "abc":
            up.enter_context(rota_node(url, name, folder, ttl))
        told, started = list[str](), time.monotonic()

        def tell(what: str) -> None:
            told.append(f"{time.monotonic() - started:6.1f} s  {what}")

        await eventually(lambda: count_nodes(store, 3))
        before, first = await sessions(store), await leader_other_than(store, None)
        await store.commit(Put("/kept", b"this"))
        tell(f"three nodes, {first.node} leads")
        server.kill()
        tell("the server is killed")
        await asyncio.sleep(seconds)
        server.start()
        tell("the server is back")
        await eventually(lambda: count_nodes(store, 3), within=60, despite=(Unavailable, Unknown))
        back = await eventually(lambda: store.get(keys.LEADER), within=60, despite=(Unavailable, Unknown))
        tell(f"{_leader(back).node} leads")
        await asyncio.sleep(2 * parse(ttl).total_seconds())
        after, kept = await sessions(store), await store.get("/kept")
        tell(f"two leases later: {len(after)} nodes, {len(before & after)} of them in the session from before")
        leaders = (await store.scan(keys.LEADER)).entries
        return Outage(len(before - after), len(leaders), kept is not None and kept.value == b"this", tuple(told))


async def sessions(store: Store) -> set[str]:
    """The sessions of the nodes there are."""
    return {codec.decode(Node, entry.value).session for entry in (await store.scan(keys.NODES)).entries}


async def leader_other_than(store: Store, before: Leader | None) -> Leader:
    """The leader, as soon as it is another node than `before`."""
    listing = await store.scan(keys.LEADER)
    for entry in listing.entries:
        if _is_another(found := _leader(entry), before):
            return found
    async with asyncio.timeout(60), aclosing(store.watch(keys.LEADER, listing.revision)) as commits:
        async for commit in commits:
            entry = commit.changes[0].entry
            if entry is not None and _is_another(found := _leader(entry), before):
                return found
    raise AssertionError("a watch does not end")


def _is_another(found: Leader, before: Leader | None) -> bool:
    return before is None or found.node != before.node


async def count_nodes(store: Store, nodes: int) -> bool:
    """Are there as many nodes?"""
    return len((await store.scan(keys.NODES)).entries) == nodes


def rota_node(url: str, name: str, folder: Path, ttl: str) -> Process:
    """`rota node`, as a user would start it."""
    argv = [ROTA, "node", "--store", url, "--id", name, "--data", folder / name, "--lease-ttl", ttl]
    return Process(argv, folder / f"{name}.out")


def stubborn(url: str, name: str, folder: Path, ttl: str) -> Script:
    """A node that writes on when it should not."""
    return Script("stubborn", url, name, ttl, folder / name, output=folder / f"{name}.out")


def _leader(entry: Entry) -> Leader:
    return codec.decode(Leader, entry.value)


def _said(process: Process, word: str) -> str | None:
    """What the process last said after `word`."""
    return next((line.split()[1] for line in reversed(process.lines()) if line.startswith(word)), None)


def _enough(process: Process, line: str, count: int) -> int:
    said = process.lines().count(line)
    return said if said >= count else 0


def _term(commit: Commit) -> int:
    entry = commit.changes[0].entry
    assert entry is not None
    return int(entry.value)
