"""Relays without one of their safeguards: the scenario must find each of them.

They override private parts of the relay, because its safeguards are not meant to be switched off.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from rota.model.ids import Instant
from rota.relay.core.core import Relay
from rota.relay.core.dedup import DedupWindow, Excerpt, Tally
from rota.relay.core.held import Emission, HeldMessage, InboundBatch, InboundLine
from rota.relay.core.outlet import Outlet
from rota.relay.core.peers import PeerRelay
from rota.relay.core.records import RelayMap
from rota.relay.sim.relaying import Safeguards
from rota.sinks.port import Message


class _Confirm(Safeguards):
    """Acks what the sink has taken and not confirmed."""

    def publishing(self, core: Relay, outlet: Outlet, messages: Sequence[Message]) -> None:
        for message in messages:
            core.home._settle(outlet.under_way[message.id])


class _Fsync(Safeguards):
    """Acks what the disk has not synced yet."""

    def writing(self, core: Relay, outlet: Outlet) -> None:
        for held in outlet._writing:
            core.home._settle(held)


class _Fate(Safeguards):
    """Acks a duplicate although the outcome of the first copy is unknown."""

    class relay(Relay):  # noqa: N801
        def _route(self, emission: Emission, batch: InboundBatch, since: Instant, now: Instant) -> None:
            if emission.message.id in self.window.reserved:
                self._touches.done(batch)
            else:
                super()._route(emission, batch, since, now)


class _Shipping(Safeguards):
    """Ships nothing when resources move."""

    class window(DedupWindow[HeldMessage]):  # noqa: N801
        def export(self, moves: Callable[[Tally], bool], now: Instant) -> list[Excerpt]:
            return []


class _Holding(Safeguards):
    """Does not wait for what is shipped."""

    class relay(Relay):  # noqa: N801
        def map_changed(self, relay_map: RelayMap, now: Instant) -> list[InboundLine]:
            over = super().map_changed(relay_map, now)
            self._stop_waiting(list(self.moves.waited_for), now)
            return over


class _Horizon(Safeguards):
    """Forgets after the span, although a sender may still hold a copy."""

    class window(DedupWindow[HeldMessage]):  # noqa: N801
        def advance(self, now: Instant, oldest: Instant | None = None) -> None:
            super().advance(now)


class _Queueing(Safeguards):
    """Lets live messages overtake those in the spool."""

    class outlet(Outlet):  # noqa: N801
        def to_publish(self, most: int) -> list[Message]:
            if self._queue and self.is_up:
                self._read.extendleft(reversed(self._queue))
                self._queue.clear()
            return super().to_publish(most)


class _Epoch(Safeguards):
    """Accepts messages of exclusive tasks of any epoch."""

    class relay(Relay):  # noqa: N801
        def _route(self, emission: Emission, batch: InboundBatch, since: Instant, now: Instant) -> None:
            super()._route(msgspec.structs.replace(emission, is_exclusive=False), batch, since, now)


class _Requeue(Safeguards):
    """Forgets what was under way to a relay when the way there breaks."""

    class relay(Relay):  # noqa: N801
        def peer_broke(self, peer: PeerRelay) -> None:
            peer.acked(sys.maxsize)
            super().peer_broke(peer)


class _Batches(Safeguards):
    """Mistakes what a host sends after it reconnected for batches it had before: the host numbers them anew."""

    class relay(Relay):  # noqa: N801
        def took(
            self, line: InboundLine, sequence: int, emissions: Sequence[Emission], age: float | None, now: Instant
        ) -> None:
            had = vars(self).setdefault("had", Counter())
            is_known = sequence <= had[line.sender]
            had[line.sender] = max(sequence, had[line.sender])
            super().took(line, sequence, () if is_known else emissions, age, now)


UNGUARDED: Mapping[str, Safeguards] = {
    "confirm": _Confirm(),
    "fsync": _Fsync(),
    "fate": _Fate(),
    "shipping": _Shipping(),
    "holding": _Holding(),
    "horizon": _Horizon(),
    "queueing": _Queueing(),
    "epoch": _Epoch(),
    "requeue": _Requeue(),
    "batches": _Batches(),
}
