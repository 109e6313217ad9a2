"""The relay's shell: sockets, sinks, spools, memory and time around the core.

The agent sends workers' lines, the map, and the addresses of the other relays. The core decides what is to be done, and
`pump` does it, after every event. Nothing here decides what becomes of a message.
"""

import asyncio
import itertools
import socket
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rota.kit.time.clock import Clock
from rota.model.ids import NodeId
from rota.relay.core.core import Relay
from rota.relay.core.held import RelayLimits
from rota.relay.core.outlet import Outlet
from rota.relay.core.records import RelayStatus, ResourceTally
from rota.relay.process.lines import InboundConnections
from rota.relay.process.memory import RelayMemory
from rota.relay.process.pipe import (
    AskRest,
    AskTallies,
    BeRelay,
    Fences,
    RelayIs,
    RelaysAre,
    RelayTold,
    Revoked,
    Tokens,
)
from rota.relay.process.ways import PeerLinks
from rota.relay.process.wire import Socket
from rota.relay.process.works import OutletRunner, left_behind
from rota.runtime.pipes.channel import PipeMessage

if TYPE_CHECKING:
    from rota.kit.crypto.authority import Certificate
    from rota.relay.process.tls import RelayTls

TICK = 0.25
"""Seconds between two checks of what no event announces."""

FORGET = 24 * 3600.0
"""Seconds without a message after which a resource's counts are dropped."""

TELL = 1.0
"""Seconds between status reports to the agent, and between signs of life to other relays."""


class Shell:
    """One relay process."""

    def __init__(
        self,
        brief: BeRelay,
        say: Callable[[PipeMessage], None],
        parts: asyncio.TaskGroup,
        clock: Clock,
        since: datetime,
        tls: "RelayTls | None" = None,
    ) -> None:
        self._brief, self._say, self._parts, self._clock, self._since = brief, say, parts, clock, since
        node = NodeId(brief.node)
        limits = RelayLimits(messages=brief.held_messages, bytes=brief.held_bytes, window=brief.window)
        self._core = core = Relay(node, clock.monotonic(), limits)
        self._root = Path(brief.folder)
        self._memory = RelayMemory(self._root / "memory")
        core.window.take_in(self._memory.recall(clock.wall().timestamp()), clock.monotonic())
        core.window.fresh = []
        self._works: dict[str, OutletRunner] = {}
        self._lines = InboundConnections(core, node, brief.token, clock, self.pump)
        self._ways = PeerLinks(core, brief.token, clock, self.pump, parts.create_task, tls)
        self._members: dict[NodeId, str] = {}
        self._reported: RelayStatus | None = None
        for sink in left_behind(self._root):
            core.home.outlet(sink)
        self.pump()

    # What the agent says

    def take_worker(self, sender: str, sock: socket.socket) -> None:
        """A worker's line came from the agent."""
        self._lines.take_worker(sender, sock)

    def revoke(self, revoked: Revoked) -> None:
        """Certificates were taken back."""
        self._lines.revoke(revoked.serials)
        self._ways.revoke(revoked.serials)

    def admit(self, tokens: Tokens) -> None:
        """Show this token to other relays from now on, and accept tokens with these digests."""
        self._ways.token = tokens.token
        self._lines.admit(tokens.taken)

    def sender_gone(self, sender: str) -> None:
        """A worker has ended."""
        self._lines.sender_gone(sender)

    def follow(self, fleet: RelaysAre) -> None:
        """Use this map, and these addresses of relays."""
        now = self._clock.monotonic()
        self._members = {NodeId(node): address for node, address in fleet.members.items()}
        self._core.members_are(self._members, now)
        if fleet.relay_map is not None:
            for line in self._core.map_changed(fleet.relay_map, now):
                self._lines.end(line)
        self._ways.follow(self._members)
        self.pump()
        self._report()

    def fence(self, fences: Fences) -> None:
        """Refuse messages of exclusive tasks of earlier epochs."""
        for kind, resource, epoch in fences.fences:
            self._core.fence(kind, resource, epoch)

    def answer(self, question: AskTallies | AskRest) -> RelayTold:
        """Answer a question of the agent."""
        match question:
            case AskTallies(number=number, kind=kind, resource=resource):
                return RelayTold(number, self._tallies(kind, resource))
            case AskRest(number=number):
                is_quiet = self._core.senders.is_quiet_here and self._lines.is_complete
                return RelayTold(
                    number, is_idle=self._core.is_idle and is_quiet, is_safe=self._core.is_safe and is_quiet
                )

    def take_stranger(self, sock: Socket, certificate: "Certificate | None" = None) -> None:
        """A connection came in through the door."""
        self._lines.take_stranger(sock, certificate)

    # Time

    async def run(self) -> None:
        """Let the core's time pass, until cancelled."""
        told = 0.0
        while True:
            now = self._clock.monotonic()
            self._core.advance(now)
            for works in self._works.values():
                works.look()
                works.wake()
            self._ways.ship()
            if now - told >= TELL:
                told = now
                self._lines.tick()
                self._ways.tick()
                self._forget(now)
                self._memory.forget(self._clock.wall().timestamp(), self._core.window.reach(now))
                self._report()
            self.pump()
            await asyncio.sleep(TICK)

    def _forget(self, now: float) -> None:
        """Drop the counts of resources that have been silent for long, a few at a time."""
        silent = (name for name, tally in self._core.tallies().items() if tally.last and now - tally.last > FORGET)
        for kind, resource in list(itertools.islice(silent, 100)):
            self._core.drop(kind, resource)

    def close(self) -> None:
        """Close all lines and files."""
        self._lines.close()
        self._memory.close()

    # Doing what the core asks for

    def pump(self) -> None:
        """Do everything that the core asks for now."""
        while any(touched := self._core.take_touched()):
            self._remember()
            for line in touched.lines:
                self._lines.update(line)
            for outlet in touched.outlets:
                (self._works.get(outlet.sink) or self._begin(outlet)).wake()
            for peer in touched.peers:
                self._ways.pass_on(peer)

    def _remember(self) -> None:
        """Write down what was settled. Acks are sent after this, so the next process knows all that senders have
        dropped."""
        window = self._core.window
        if window.fresh:
            self._memory.keep(window.fresh, self._clock.wall().timestamp())
            window.fresh = []

    def _begin(self, outlet: Outlet) -> OutletRunner:
        works = OutletRunner(self._core, outlet, self._root, self._brief.spool_bytes, self._clock, self.pump)
        self._works[outlet.sink] = works
        self._parts.create_task(works.run(), name=f"outlet {outlet.sink}")
        return works

    # Figures

    def _report(self) -> None:
        """Send the agent the relay's status, if it changed."""
        status = self._status()
        if status != self._reported:
            self._reported = status
            self._say(RelayIs(status))

    def _status(self) -> RelayStatus:
        core = self._core
        by_sinks = {why for works in self._works.values() for why in works.rejected_for}
        return RelayStatus(
            address=self._brief.address,
            since=self._since,
            map_version=core.map.version if core.map else 0,
            is_moving=core.moves.are_going_on,
            lines=len(self._lines),
            window=len(core.window),
            passed_on=core.passed_on,
            waiting=core.elsewhere,
            unreached={str(node): why for node, why in self._ways.trouble.items()},
            refused={why: count for why, count in core.home.rejections.items() if why not in by_sinks},
            sinks=tuple(works.status() for works in self._works.values()),
        )

    def _tallies(self, kind: str, resource: str | None) -> tuple[ResourceTally, ...]:
        now = self._clock.monotonic()
        return tuple(
            ResourceTally(
                kind=tally.kind,
                resource=tally.resource,
                unique=tally.unique,
                duplicates=tally.duplicates,
                seen_by_one=tally.seen_by_one,
                last_s=None if tally.last is None else round(now - tally.last, 3),
            )
            for (of_kind, name), tally in self._core.tallies().items()
            if of_kind == kind and resource in (None, name) and (tally.unique or tally.duplicates)
        )
