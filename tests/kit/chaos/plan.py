"""What is done to a fleet under chaos, from one seed: an endless row of faults for nodes, another one for servers.

Each round every harm comes once, in an order of its own, so that a short run has seen each of them. The row depends on
nothing but the seed, the nodes and what may be done here; when a fault begins depends on when the one before is over.
Pure: `faults.py` carries them out.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

Item = TypeVar("Item")


class Harm(StrEnum):
    """What can be done, in the words in which it is told."""

    KILL_AGENT = "kill −9 the agent"
    KILL_LEADER = "kill −9 the leader"
    KILL_LOADER = "kill −9 a loader"
    KILL_WORKER = "kill −9 a worker"
    KILL_RELAY = "kill −9 the relay"
    KILL_PROXY = "kill −9 the proxy"
    FREEZE_AGENT = "freeze the agent"
    FREEZE_NODE = "freeze all processes"
    CUT = "reset the connections to the store"
    REFUSE = "refuse connections to the store"
    SILENCE = "let nothing pass to and from the store"
    HOLD_REQUESTS = "let nothing pass to the store"
    HOLD_ANSWERS = "let nothing pass from the store"
    STRAND = "forget the connections to the store"
    DROP_CALLS = "drop packets from the other nodes"
    DROP_ANSWERS = "drop packets to the other nodes"
    FILL_DISK = "fill the disk"
    KILL_SERVER = "kill −9 and restart"
    FREEZE_SERVER = "freeze"


OF_PARTITIONS = frozenset({Harm.DROP_CALLS, Harm.DROP_ANSWERS})
OF_SERVERS = (Harm.KILL_SERVER, Harm.FREEZE_SERVER)
OF_NODES = tuple(harm for harm in Harm if harm not in OF_SERVERS)

AT_ONCE = frozenset({Harm.KILL_LOADER, Harm.KILL_WORKER, Harm.KILL_RELAY, Harm.KILL_PROXY, Harm.CUT, Harm.STRAND})
"""What is over as soon as it is done."""

OF_LEASES = frozenset(
    {Harm.FREEZE_AGENT, Harm.FREEZE_NODE, Harm.REFUSE, Harm.SILENCE, Harm.HOLD_REQUESTS, Harm.HOLD_ANSWERS}
)
"""What ends a lease if it lasts long enough: it is renewed every third of its ttl."""

DEADLY = frozenset({Harm.KILL_AGENT, Harm.KILL_LEADER})
"""What ends an agent."""


@dataclass(frozen=True)
class Fault:
    """One fault."""

    harm: Harm
    victim: str
    """A node or a server, by its short name."""

    seconds: float
    """How long it lasts; how long who was killed stays away."""

    pause: float
    """Seconds of peace before it."""

    pick: float
    """Which of several processes, from 0 to 1."""

    def __str__(self) -> str:
        lasting = "" if self.harm in AT_ONCE else f", {self.seconds:.1f} s"
        return f"{self.victim}: {self.harm}{lasting}"


def node_faults(seed: int, nodes: Sequence[str], spared: str, ttl: float, without: Collection[Harm]) -> Iterator[Fault]:
    """Faults of nodes; the agent of the spared one is never killed."""
    draw = random.Random(f"nodes {seed}")
    harms = [harm for harm in OF_NODES if harm not in without]
    for harm in _rounds(draw, harms):
        victim = draw.choice(nodes)
        if harm in DEADLY and victim == spared:
            victim = draw.choice([name for name in nodes if name != spared])
        yield Fault(harm, victim, draw.uniform(0.4, 2.0) * ttl, draw.uniform(0.5, 3.0), draw.random())


def server_faults(seed: int, servers: Sequence[str], ttl: float) -> Iterator[Fault]:
    """Faults of servers, with more peace in between: whole outages, and others that a lease outlives."""
    draw = random.Random(f"servers {seed}")
    for victim in _rounds(draw, servers):
        harm = draw.choice(OF_SERVERS)
        yield Fault(harm, victim, draw.uniform(0.0, 2.0) * ttl, draw.uniform(5.0, 15.0), draw.random())


def _rounds(draw: random.Random, items: Sequence[Item]) -> Iterator[Item]:
    while True:
        yield from draw.sample(items, len(items))
