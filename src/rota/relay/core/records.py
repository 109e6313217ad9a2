"""The relay map: which relay the messages of a resource meet at.

The leader writes it as one record. A resource's home is found by rendezvous hashing: every relay has a number for every
resource, and the greatest wins. So a relay that joins takes resources from all others and no others move, and those of
one that leaves are shared out. Every process with the same map computes the same home.

`before` makes a change of the map a planned move. It names the homes of the version before that are still there: what
they know of their resources' messages is shipped to the new homes, who hold messages back until it has come.

What a relay says of itself (`RelayStatus`) is in the store under its node's lease. Figures count from the start of the
relay's process; after a restart `since` differs.
"""

from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from rota.model.codec import stored
from rota.model.ids import NodeId


@stored()
class RelayMap(msgspec.Struct, frozen=True, kw_only=True):
    """One version of it."""

    version: int
    """Grows with every change of the map."""

    nodes: tuple[NodeId, ...]
    """The homes of resources; sorted."""

    before: tuple[NodeId, ...] = ()
    """The homes in the version before, as far as they live; empty if nothing has to be waited for."""

    def home(self, kind: str, resource: str) -> NodeId | None:
        """Whose relay the messages of a resource meet at; None if there is no relay."""
        return home(self.nodes, kind, resource)

    def givers(self, node: NodeId) -> frozenset[NodeId]:
        """From whom a node gets resources in this version."""
        return frozenset(giver for giver in self.before if node in self.takers(giver))

    def takers(self, node: NodeId) -> frozenset[NodeId]:
        """To whom a node gives resources in this version."""
        if node not in self.before:
            return frozenset()
        if node not in self.nodes:
            return frozenset(self.nodes)
        return frozenset(self.nodes).difference(self.before)


def home(nodes: Collection[NodeId], kind: str, resource: str) -> NodeId | None:
    """The node among `nodes` with the greatest number for a resource."""
    place = f"{kind}/{resource}".encode()
    return max(nodes, key=lambda node: (_weight(node, place), node), default=None)


def _weight(node: NodeId, place: bytes) -> bytes:
    return blake2b(place, digest_size=8, key=_key(node)).digest()


@lru_cache(maxsize=10_000)  # all nodes of a large fleet
def _key(node: NodeId) -> bytes:
    return blake2b(node.encode(), digest_size=16).digest()


class SinkState(StrEnum):
    """Can a sink be published to?"""

    UP = "up"
    DOWN = "down"


class SinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One sink, as one relay sees it."""

    sink: str
    """Its URL, without the password and the options."""

    state: SinkState
    """Can it be published to?"""

    published: int = 0
    """Messages handed to the sink."""

    confirmed: int = 0
    """Messages that the sink has confirmed."""

    rejected: dict[str, int] = msgspec.field(default_factory=dict)
    """Reason → messages that can never be delivered."""

    waiting: int = 0
    """Messages in memory that neither sink nor spool has."""

    under_way: int = 0
    """Messages that the sink has, and whose outcome it has not reported."""

    spool_messages: int = 0
    """Messages on disk, because the sink is down."""

    spool_bytes: int = 0
    """Bytes of those messages."""

    spool_limit: int = 0
    """Bytes that the spool may have."""

    last_error: str = ""
    """Why it is down, or was last."""

    @property
    def is_idle(self) -> bool:
        """Is nothing left to publish?"""
        return not (self.waiting or self.under_way or self.spool_messages)

    @property
    def is_down(self) -> bool:
        """Can it not be published to?"""
        return self.state == SinkState.DOWN


@stored()
class RelayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a node's relay is; written by the node under its lease, at most once a second."""

    address: str
    """Where other relays reach it."""

    since: datetime
    """When its process began."""

    map_version: int = 0
    """The version of the relay map that it uses; 0 for none."""

    is_moving: bool = False
    """Is a planned move not finished here?"""

    is_leaving: bool = False
    """Does its node stop? Then it wants to be left out of the map, and to hand over first."""

    lines: int = 0
    """Workers and other relays that hand messages over to it."""

    window: int = 0
    """Messages that are remembered, or on their way."""

    passed_on: int = 0
    """Messages that other relays have taken over."""

    waiting: int = 0
    """Messages in memory that another relay should get, or that a planned move holds back."""

    unreached: dict[str, str] = msgspec.field(default_factory=dict)
    """Node → why there is no way to its relay; messages that meet there wait."""

    refused: dict[str, int] = msgspec.field(default_factory=dict)
    """Reason → messages that were given up here: of an earlier epoch, damaged in the spool, of a worker that ended."""

    sinks: tuple[SinkStatus, ...] = ()
    """The sinks it publishes to."""

    @property
    def is_idle(self) -> bool:
        """Is nothing left to publish?"""
        return not self.waiting and all(sink.is_idle for sink in self.sinks)


class ResourceTally(msgspec.Struct, frozen=True, kw_only=True):
    """What a relay has counted of one resource's messages since its process began."""

    kind: str
    """The kind of the resource."""

    resource: str
    """The id of the resource."""

    unique: int
    """Different messages."""

    duplicates: int
    """Copies beyond the first."""

    seen_by_one: int
    """Messages that only one replica had sent when they were forgotten."""

    last_s: float | None = None
    """Seconds since the last copy came; None if none did."""


Tallies: TypeAlias = Callable[[str, str], Awaitable[ResourceTally]]
"""What the relay at which a resource's messages meet has counted of them, by kind and id."""
