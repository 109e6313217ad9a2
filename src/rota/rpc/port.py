"""The node link port: what nodes say to each other, and the laws both ends rely on.

A `Link` is one node's way to another; a `Handler` is what answers at the other end. Instructions do not travel here:
they are in the store. The link carries what may get lost (reports), what is asked of one node alone (starts, controls)
and what is too much for the store (messages, logs).

Adapters are opened by address (`rpc.open`) and translate their transport's errors at the edge; nobody imports one.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

from rota.decide.access import TurnedAway
from rota.model.errors import Conflict
from rota.model.ids import NodeId, Revision, SessionId
from rota.model.link import (
    Accepted,
    AttemptId,
    Batch,
    Chunk,
    Control,
    NotLeader,
    Presence,
    Refused,
    Report,
    Start,
    Whom,
)

Admit: TypeAlias = Callable[[str, str | None], TurnedAway | None]
"""Judges a call by its method, in the adapter's own terms, and by its `authorization`; None lets it in."""

TakeNote: TypeAlias = Callable[[TurnedAway, str, str], TurnedAway]
"""Hears who was not let in: why, by which method, from which address; and returns what the caller is told."""

Shown: TypeAlias = str | Callable[[], str] | None
"""The token that is shown with each call, or what gives it: it may change while a link is open."""

IsRevoked: TypeAlias = Callable[[str], bool]
"""Was the certificate with this serial, in hex, taken back?"""


class NotMe(Conflict):
    """Somebody else answers at this address; look the node up again."""

    def __init__(self, meant: Whom, node: NodeId, session: SessionId) -> None:
        super().__init__(f"{meant} was meant, but node {node}, session {session} is here; look its address up again")
        self.meant, self.node, self.session = meant, node, session


class StaleEpoch(Conflict):
    """The thing is bound under a later epoch; read its assignment again."""

    def __init__(self, what: str, epoch: Revision, current: Revision) -> None:
        super().__init__(f"{what}: epoch {epoch} is over, the present one is {current}; read its assignment again")
        self.what, self.epoch, self.current = what, epoch, current


class OtherMap(Conflict):
    """The receiver goes by another version of the relay map; hand over again under the right one."""

    def __init__(self, version: int, current: int) -> None:
        super().__init__(f"relay map {version} was handed over by, but {current} is in force here; read the map again")
        self.version, self.current = version, current


class Link(Protocol):
    """The way to one node. Every adapter keeps these laws (`tests/contract/test_link.py`):

    1. A link may say whom it means. Where another node or session answers, everything is refused with NotMe, naming
       who is there, and nothing happens.
    2. Reports of a session reach the handler in the order of their sequence and at most once: one that comes after a
       later one is dropped. A receiver that does not lead says so, with the term it knows of.
    3. A start reaches the handler once per run, attempt and epoch: asked again, meanwhile or later, it gets the same
       answer. Under an older epoch than one seen it is StaleEpoch. It is not given up because its caller gave up. Of
       starts that travel together each has its own answer; what one alone would raise is then a refusal.
    4. A control under an older epoch is StaleEpoch, naming the present one.
    5. Batches reach the handler in the order of their sequence. At most `window` are under way at a time. An ack of n
       says that the handler has returned for every batch up to n; acks only grow.
    6. A hand-over by another version of the relay map is OtherMap, naming the one in force; its batches do not reach
       the handler.
    7. The chunks of a log fit on to each other from the offset asked for, each at most 64 KiB, and end with the log.
    8. Every call ends within its time-out, and a stream within `silence` of its peer's last word. What certainly did
       not happen is Unavailable; what may have happened is Unknown. The link never sends a thing twice by itself.
    9. A peer that is unreachable, frozen or half cut off costs no more than law 8 says, and the link works again by
       itself when the peer does.
    10. A record beyond the limits is Invalid, naming the limit, before anything is sent; the same on every adapter.
    11. A slow handler, a slow stream or a slow reader holds up nothing but itself.
    12. What the door does not admit is Denied, with the door's sentence, and nothing reaches the handler.
    """

    async def check(self, *, timeout: timedelta | None = None) -> Presence:
        """Who answers, and how it is."""

    async def report(self, report: Report, *, timeout: timedelta | None = None) -> NotLeader | None:
        """Tell the leader; None says that the report got there, not what came of it."""

    async def dispatch(self, start: Start, *, timeout: timedelta | None = None) -> Accepted | Refused:
        """Have an attempt started."""

    async def dispatch_many(
        self, starts: Sequence[Start], *, timeout: timedelta | None = None
    ) -> list[Accepted | Refused]:
        """Have attempts started that travel together; an answer for each."""

    async def control(self, control: Control, *, timeout: timedelta | None = None) -> bool:
        """Whether there is such a task or attempt; what was asked of it is then under way."""

    def hand_over(
        self, source: NodeId, relay_map: int, batches: AsyncIterable[Batch], *, silence: timedelta | None = None
    ) -> AsyncGenerator[int, None]:
        """The sequences acked so far, as they grow; ends when `batches` has ended and all are acked.

        When it breaks off, what was not acked may have been kept: hand it over again, the relay knows copies.
        """

    def follow_log(
        self, attempt: AttemptId, offset: int = 0, *, silence: timedelta | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """The log of an attempt from `offset`, as it grows; Unavailable when it breaks off: ask again from there."""

    async def close(self) -> None:
        """Let go of the connection; calls under way end."""


class Handler(Protocol):
    """What a node answers with. What it raises of Rota's errors reaches the caller as the same error.

    `presence` and `report` are plain functions: they take note and return, and whoever acts on it does so later.
    """

    def presence(self) -> Presence:
        """Who we are at this moment, and how we are."""

    def report(self, report: Report) -> NotLeader | None:
        """Take a report, or say that we do not lead."""

    async def dispatch(self, start: Start) -> Accepted | Refused:
        """Take an attempt and start it; asked once for each epoch of it."""

    async def control(self, control: Control) -> bool:
        """Begin what is asked; False if there is no such thing here, StaleEpoch if the epoch is over."""

    async def hand_over(self, source: NodeId, batch: Batch) -> None:
        """Return when the batch is safe. Begun in the order of the batches, up to `window` at the same time."""

    def follow_log(self, attempt: AttemptId, offset: int) -> AsyncGenerator[bytes, None]:
        """The log from `offset` in pieces of any size, until it ends; Invalid if there is none here."""


class Server(Protocol):
    """A node's open door."""

    @property
    def address(self) -> str:
        """Where it is open, with the port it got."""

    async def close(self, grace: timedelta) -> None:
        """Take nothing new, end streams, give calls under way `grace`, then end them too."""
