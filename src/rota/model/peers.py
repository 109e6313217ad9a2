"""The nodes' checks of each other, and which of them does a chore."""

from datetime import datetime
from enum import StrEnum

import msgspec

from rota.model.codec import stored
from rota.model.ids import NodeId, SessionId


class Standing(StrEnum):
    """The other nodes' verdict on a node. It decides which nodes are sent work; ownership depends on the lease
    alone."""

    ONLINE = "online"
    SUSPECT = "suspect"
    """Some check of it failed; it still gets work."""

    OFFLINE = "offline"
    """It gets no work."""


@stored()
class Strikes(msgspec.Struct, frozen=True, kw_only=True):
    """Checks of one node by one other that failed in a row; under the observer's lease."""

    node: NodeId
    session: SessionId
    """The life of the node that did not answer; those of an earlier one count no more."""

    observer: NodeId
    at: list[datetime]
    """When, by the store's clock; the first three."""

    why: str
    """What the last check met."""


@stored()
class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a node is online, for the whole fleet; rewritten once per transition."""

    node: NodeId
    is_online: bool
    since: datetime
    """When that began, by the store's clock."""

    why: str
    falls: list[datetime] = msgspec.field(default_factory=list)
    """When it went offline lately; who falls often comes back slowly."""


@stored()
class DutyHeld(msgspec.Struct, frozen=True, kw_only=True):
    """Which beat of a duty was claimed last, and by whom. The beat only grows."""

    beat: int
    node: NodeId
    session: SessionId
