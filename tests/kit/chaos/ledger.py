"""The ledger of a fleet under chaos: what went in, what came out, and how much of a difference is allowed.

`reckon` lets everything come to its end and counts; the rest is pure.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from tests.kit.chaos.clients import Served, settle
from tests.kit.chaos.faults import Damage, left_behind
from tests.kit.chaos.fleet import NAMES, RATE, ROOMS, TTL, WINDOW, Arena
from tests.kit.chaos.plan import DEADLY, OF_LEASES, OF_SERVERS, Fault, Harm
from tests.kit.chaos.processors import was_taken
from tests.kit.chaos.vitals import Growth
from tests.kit.job_storm import Account, Calm, account_of, come_to_rest
from tests.kit.stream_places import sums
from tests.kit.waiting import eventually

Sums = dict[int, tuple[int, int]]
"""Partition → how many records, and their checksum."""

STOP = 30.0
"""Seconds for a node to stop in good order."""


@dataclass(frozen=True)
class Ledger:
    """All of it."""

    damage: Damage
    messages: dict[str, int]
    """The verdict of the example's check."""

    repeats: int
    """How many messages may have come twice."""

    requests: Served
    runs: Account
    crowded: int
    """Due times that were late while other machines had much of the processors."""

    produced: Sums
    published: Sums
    acts: int
    """What exclusive tasks did."""

    late_acts: tuple[str, ...]
    """What they did after a later one had begun."""

    left: tuple[str, ...]
    """Processes that were left when all nodes had stopped."""

    growth: tuple[Growth, ...]


def allowed_repeats(faults: Iterable[Fault]) -> int:
    """How many messages may come twice, by what docs/explanation/relay.md says of each fault."""
    return round(sum(map(_repeats, faults)))


def _repeats(fault: Fault) -> float:
    """What was under way, a window, when the sink broke or a relay ended.

    When a node was gone or cut off from the store, also what was said in the rooms that are at home there until it was
    back. Nothing else repeats a message.
    """
    if fault.harm in OF_SERVERS:
        return len(NAMES) * WINDOW if fault.victim == "rabbitmq" else 0
    if fault.harm is Harm.KILL_RELAY:
        return WINDOW
    if fault.harm in DEADLY or (fault.harm in OF_LEASES and fault.seconds >= TTL / 2):
        return WINDOW + RATE * ROOMS / len(NAMES) * (fault.seconds + TTL)
    return 0


def late_acts(lines: Iterable[str]) -> list[str]:
    """Acts of exclusive tasks that came after a task of a later epoch had acted; each line: resource, epoch, time."""
    acts: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for line in lines:
        resource, epoch, at = line.split()
        acts[resource].append((float(at), int(epoch)))
    found = []
    for resource, each in acts.items():
        newest = 0
        for when, which in sorted(each):
            if which < newest:
                found.append(f"{resource} acted under {which} at {when:.3f}, after {newest} had begun")
            newest = max(newest, which)
    return found


async def reckon(arena: Arena, damage: Damage) -> Ledger:
    """Let everything come to its end, stop the nodes, and count."""
    messages = await arena.rooms.verdict()
    await come_to_rest(arena.store)
    runs = await account_of(arena.fleet, Calm(), 0)
    await arena.producing.delivered()
    await arena.trial.until_lag(0, within=180)
    await arena.trial.end()
    published, produced = sums(await arena.trial.rows()), sums(arena.trial.expected())
    growth = arena.vitals.longest()
    left = await _stop(arena)
    acts = arena.acts()
    return Ledger(
        damage=damage,
        messages=messages,
        repeats=allowed_repeats(damage.faults),
        requests=settle(arena.requests, arena.served(), arena.deaths),
        runs=runs,
        crowded=sum(was_taken(arena.processors.looks, due) for due in runs.missed_when),
        produced=produced,
        published=published,
        acts=len(acts),
        late_acts=tuple(late_acts(acts)),
        left=tuple(left),
        growth=tuple(growth),
    )


async def _stop(arena: Arena) -> list[str]:
    """Stop all nodes in good order; what is left of them."""
    nodes = arena.fleet.nodes.values()
    await asyncio.gather(*(asyncio.to_thread(node.stop, within=STOP) for node in nodes))
    with suppress(AssertionError):
        await eventually(lambda: not left_behind(nodes))
    return left_behind(nodes)
