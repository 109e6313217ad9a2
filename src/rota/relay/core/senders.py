"""Senders: the hosts and relays that hand messages over to a relay, and since when each may hold some without an ack.

As long as any sender may hold a copy of a message, the message must be remembered. Each sender reports the age of its
oldest message without an ack, once a second. A sender that reports nothing more may be frozen or cut off, and may hold
messages emitted after its last report. When a line breaks, the sender's last report counts until it reconnects or is
gone. A relay that has not connected yet counts from when it should have: it may have been cut off from the beginning,
and hold messages.
"""

from collections.abc import Collection

from rota.model.ids import Instant
from rota.relay.core.held import InboundLine


class Senders:
    """The senders of one relay."""

    def __init__(self) -> None:
        self.lines: list[InboundLine] = []
        self._absent_hosts: dict[str, Instant] = {}
        self._absent_peers: dict[str, Instant] = {}

    def join(self, line: InboundLine, age: float | None, now: Instant) -> None:
        """A sender connected; its oldest message without an ack has this age, None if it holds none."""
        self._absent(line).pop(line.sender, None)
        line.hear(age, now)
        self.lines.append(line)

    def lost(self, line: InboundLine) -> None:
        """A line broke; its sender counts as away, unless it has reconnected on another line already."""
        line.close()
        self.lines.remove(line)
        if not any(other.sender == line.sender and other.is_peer == line.is_peer for other in self.lines):
            self._absent(line)[line.sender] = line.since

    def host_gone(self, sender: str) -> None:
        """A host will not come back."""
        self._absent_hosts.pop(sender, None)

    def expect_peers(self, peers: Collection[str], now: Instant) -> None:
        """Exactly these other relays may have messages for this one."""
        here = {line.sender for line in self.lines if line.is_peer}
        self._absent_peers = {peer: self._absent_peers.get(peer, now) for peer in peers if peer not in here}

    def absent_since(self, since: Instant) -> None:
        """Relays that have not connected may hold messages since this time, when they had them for another home."""
        self._absent_peers = {peer: min(since, before) for peer, before in self._absent_peers.items()}

    @property
    def is_quiet_here(self) -> bool:
        """Does no host of this node report a message without an ack?"""
        return not self._absent_hosts and all(line.is_peer or line.behind is None for line in self.lines)

    def since_here(self) -> Instant | None:
        """Since when hosts of this node may hold messages."""
        return min([*self._since(is_peer=False), *self._absent_hosts.values()], default=None)

    def since(self) -> Instant | None:
        """Since when any sender may hold messages."""
        elsewhere = [*self._since(is_peer=True), *self._absent_peers.values()]
        return earliest(self.since_here(), *elsewhere)

    def _since(self, *, is_peer: bool) -> list[Instant]:
        return [line.since for line in self.lines if line.is_peer == is_peer]

    def _absent(self, line: InboundLine) -> dict[str, Instant]:
        return self._absent_peers if line.is_peer else self._absent_hosts


def earliest(*instants: Instant | None) -> Instant | None:
    """The earliest of these times; None if there is none."""
    return min([instant for instant in instants if instant is not None], default=None)
