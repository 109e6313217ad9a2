"""Home: what becomes of the messages whose home this relay is.

The first copy is published and the others wait for its outcome: confirmed by the sink, on disk, or rejected. Only then
are their hand-overs acked. Those that were rejected are not remembered: one that is emitted again is tried again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rota.model.ids import Instant, NodeId
from rota.relay.core.dedup import DedupWindow
from rota.relay.core.held import Emission, HeldMessage, InboundBatch, MemoryBudget, RelayedResource, RelayLimits
from rota.relay.core.held_phases import HeldPhase
from rota.relay.core.moves import RelayMoves
from rota.relay.core.outlet import Outlet
from rota.relay.core.touched import Touches
from rota.sinks.port import Message

EARLIER_EPOCH = "earlier epoch"
"""Why a message of an exclusive task is refused after a later task took over."""


class Home:
    """One relay's sinks, and what was taken in for them."""

    def __init__(
        self, node: NodeId, limits: RelayLimits, window: DedupWindow[HeldMessage], moves: RelayMoves, touches: Touches
    ) -> None:
        self._node, self._limits, self._window, self._moves, self._touches = node, limits, window, moves, touches
        self.outlets: dict[str, Outlet] = {}
        self.rejections: Counter[str] = Counter()
        """Messages that can never be delivered, by reason."""

        self.published = self.spooled_count = 0
        self._has_lost = False
        """Do resources count messages as unpublished that a spool has lost?"""

    def outlet(self, sink: str) -> Outlet:
        """The outlet for a sink, opened if need be."""
        outlet = self.outlets.get(sink)
        if outlet is None:
            outlet = self.outlets[sink] = Outlet(sink, MemoryBudget.of(self._limits), window=self._limits.window)
            self._touches.outlet(outlet)
        return outlet

    def recovered(self, outlet: Outlet, messages: Iterable[Message], now: Instant) -> None:
        """An earlier process left these in the spool: they are safe, and will be published from there."""
        for message in messages:
            place = self._moves.place(message.kind, message.resource)
            place.unpublished += 1
            outlet.unread += 1
            self._window.settle(message.id, place.tally, None)
        self._touches.outlet(outlet)

    def not_recovered(self, outlet: Outlet, counts: Mapping[tuple[str, str], int]) -> None:
        """The spool could not be opened after all; `recovered` will report these messages again.

        They stay known, because their senders were acked. Live messages do not wait for them.
        """
        for (kind, resource), count in counts.items():
            self._moves.place(kind, resource).unpublished -= count
            outlet.unread -= count
        self._touches.outlet(outlet)

    def sink_is(self, outlet: Outlet, is_up: bool) -> None:
        """A sink became usable, or failed."""
        outlet.is_up = is_up
        self._touches.outlet(outlet)

    def confirmed(self, outlet: Outlet, messages: Iterable[Message], now: Instant) -> None:
        """The sink has confirmed these messages."""
        for message in messages:
            if (held := outlet.outcome(message.id)) is not None:
                self.published += 1
                if held.sequence is None:
                    self._settle(held)
                self._has_outcome(held.place, now)
        self._has_room(outlet)

    def rejected(self, outlet: Outlet, message: Message, why: str, now: Instant) -> None:
        """The sink can never deliver this one. It is counted, and reported to every sender of a copy.

        A message from the spool is counted only: its senders were acked when it was safe there.
        """
        if (held := outlet.outcome(message.id)) is not None:
            self.rejections[why] += 1
            if held.sequence is None:
                self._refuse(held, why)
            self._has_outcome(held.place, now)
        self._has_room(outlet)

    def spooled(self, outlet: Outlet, first: int) -> None:
        """The spool has written the messages it was given, numbered from `first`."""
        for held in outlet.spooled(first):
            self.spooled_count += 1
            if held.phase is not HeldPhase.DONE:  # otherwise the sink reported its outcome first
                self._settle(held)
        self._has_room(outlet)

    def spool_refused(self, outlet: Outlet) -> None:
        """The disk is full, or fails: messages wait in memory, and the lines they came on are not read."""
        outlet.spool_refused()

    def spool_has_room(self, outlet: Outlet) -> None:
        """Writing to the disk may be retried."""
        outlet.spool_has_room()
        self._touches.outlet(outlet)

    def was_read(self, outlet: Outlet, records: Iterable[tuple[int, Message]], now: Instant) -> None:
        """The spool has read these back, in order."""
        outlet.was_read([(sequence, self._from_spool(outlet, message, now)) for sequence, message in records])
        self._touches.outlet(outlet)

    def spool_lost(self, outlet: Outlet, sequences: Sequence[int], why: str) -> None:
        """The spool has lost these; they are counted, and nothing more can be done for them.

        Their resources are not known; `write_off` finds them by what is left over.
        """
        if count := outlet.lost(sequences):
            self.rejections[why] += count
            self._has_lost = True
        self._touches.outlet(outlet)

    def arrive(
        self, emission: Emission, place: RelayedResource, batch: InboundBatch, since: Instant, now: Instant
    ) -> None:
        """A message has arrived at its home."""
        message_id, tally, window = emission.message.id, place.tally, self._window
        tally.last = now
        if emission.is_exclusive:
            if emission.epoch < place.floor:
                self.rejections[EARLIER_EPOCH] += 1
                batch.refuse(message_id, f"{EARLIER_EPOCH}: a later task of {place.tally.kind} has taken over")
                self._touches.done(batch)
                return
            place.floor = emission.epoch
        first = window.reserved.get(message_id)
        if first is not None:
            tally.duplicates += 1
            first.join(batch, emission.slot)
        elif window.is_known(message_id, emission.slot, has_key=bool(emission.message.key)):
            tally.duplicates += 1
            self._touches.done(batch)
        else:
            tally.unique += 1
            held = window.reserved[message_id] = HeldMessage(emission, place, batch, since)
            place.unpublished += 1
            outlet = self.outlets.get(emission.sink) or self.outlet(emission.sink)
            outlet.put(held)
            if not outlet.is_touched:
                self._touches.outlet(outlet)
            if outlet.budget.is_full:
                self._touches.block(batch.line, outlet.budget)

    def take_back(self) -> Iterator[HeldMessage]:
        """Remove and return the messages whose home is elsewhere now and that neither a sink nor a spool has seen."""
        for outlet in self.outlets.values():
            for held in outlet.take_back(lambda held: held.place.home != self._node):
                self._window.give_back(held.emission.message.id)
                held.place.unpublished -= 1
                held.place.tally.unique -= 1
                yield held

    def _from_spool(self, outlet: Outlet, message: Message, now: Instant) -> HeldMessage:
        # Which replica sent it no longer matters: it was remembered when it was spooled.
        place = self._moves.place(message.kind, message.resource)
        return HeldMessage(Emission(message, outlet.sink, slot=0, epoch=0), place, None, now, HeldPhase.READ_BACK)

    def _settle(self, held: HeldMessage) -> None:
        """A message is safe: remember it, and report that to all batches that wait for it."""
        emission = held.emission
        self._window.settle(emission.message.id, held.place.tally, None if held.is_seconded else emission.slot)
        self._touches.finish(held)

    def _refuse(self, held: HeldMessage, why: str) -> None:
        """A message can never be delivered: report that to all batches that wait for it, and do not remember it."""
        self._window.give_back(held.emission.message.id)
        self._touches.finish(held, why)

    def _has_outcome(self, place: RelayedResource, now: Instant) -> None:
        """The sink is done with a message of a resource."""
        place.unpublished -= 1
        if place.moves_to is not None:
            self._moves.has_outcome(place, now)

    def write_off(self, now: Instant) -> None:
        """Once all spools are read: messages that are neither there nor in memory are lost; stop waiting for them."""
        if not self._has_lost or any(outlet.unread for outlet in self.outlets.values()):
            return
        self._has_lost = False
        left = Counter(held.place for outlet in self.outlets.values() for held in outlet.unpublished)
        for place in self._moves.places.values():
            for _ in range(place.unpublished - left[place]):
                self._has_outcome(place, now)

    def _has_room(self, outlet: Outlet) -> None:
        self._touches.resume(outlet.budget)
        self._touches.outlet(outlet)
