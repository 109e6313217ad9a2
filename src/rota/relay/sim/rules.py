"""What must hold of messages on their way from replicas to a sink, whatever goes wrong (`relay.sim.scenario`).

- No message that a host was acked for as safe is missing in the sink at the end, unless the sink rejected it after it
  was spooled. None is missing that was emitted by a host that did not die, unless the sink rejected it.
- A message is in the sink twice only if a relay died, the broker broke off, or a move was not planned or not finished.
- Messages of a resource with one emitter are in order, apart from repeats, unless a relay died or a move was cut short.
- An exclusive resource's messages are there in the order of their epochs, under the same condition.
- A relay never holds more than its limits.
- In the end every relay is idle, every outbox and every spool empty, and the window forgotten.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from rota.model.ids import NodeId
from rota.relay.sim.relaying import BATCH, LIMITS, OUTBOX, UNACKED, SimFleet
from rota.sim.world import World


class RelayRules:
    """Checks one run of the scenario, and reports violations to its world."""

    def __init__(self, world: World, fleet: SimFleet, nodes: Sequence[NodeId], pace: float) -> None:
        self._world, self._fleet, self._nodes, self._pace = world, fleet, nodes, pace

    def check(self) -> None:
        """Check what has arrived, and what is left."""
        self._check_drained()
        self._check_delivered()
        self._check_repeats()
        self._check_order()

    async def watch(self) -> None:
        """Check that no relay holds too much; one batch per line that was under way when the line was stopped is
        allowed."""
        while True:
            await asyncio.sleep(0.5 * self._pace)
            for relay in self._fleet.living:
                budgets = 1 + len(relay.core.home.outlets) + len(relay.core.peers)
                most = budgets * (LIMITS.messages + LIMITS.window) + 2 * len(self._nodes) * max(UNACKED * BATCH, OUTBOX)
                if relay.core.held > most:
                    self._world.violate(f"relay-{relay.node} holds {relay.core.held} messages")

    def _check_drained(self) -> None:
        """Nothing is left in relays, spools and hosts."""
        fleet = self._fleet
        for relay in fleet.living:
            if not relay.core.is_idle:
                self._world.violate(f"relay-{relay.node} still has {relay.core.held} messages at the end")
            if left := len(relay.core.window):
                self._world.violate(f"relay-{relay.node} still remembers {left} messages at the end")
        for node, disks in fleet.disks.items():
            for sink, disk in disks.items():
                if disk.unconfirmed:
                    self._world.violate(f"the spool of {node} for {sink} still has {disk.unconfirmed} messages")
        for host in fleet.living_hosts:
            if host.held:
                self._world.violate(f"host-{host.node} still has {len(host.held)} messages without an ack")

    def _check_delivered(self) -> None:
        """Nothing that was emitted is missing."""
        fleet = self._fleet
        arrived = {message.id for broker in fleet.brokers.values() for _, message in broker.log}
        known, safe = arrived | fleet.rejected, arrived | (fleet.rejected & fleet.spooled)
        if lost := [
            message for message in fleet.acked.items() if message[0] not in safe and message[0] not in fleet.outdated
        ]:
            self._world.violate(f"{lost[0][1]} was acked and is lost, and {len(lost) - 1} more")
        if lost := [
            message for message in fleet.emitted.items() if message[0] not in known and message[0] not in fleet.outdated
        ]:
            self._world.violate(f"{lost[0][1]} was emitted and is lost, and {len(lost) - 1} more")

    def _check_repeats(self) -> None:
        """Nothing came twice without a reason."""
        for broker in self._fleet.brokers.values():
            seen: dict[bytes, float] = {}
            for at, message in broker.log:
                before = seen.get(message.id)
                if before is not None and not self._fleet.was_disturbed(before, at):
                    self._world.violate(f"{message.resource} {message.key} was delivered at {before:.3f} and {at:.3f}")
                    return
                seen.setdefault(message.id, at)

    def _check_order(self) -> None:
        """Messages of one emitter are in order, unless something disturbed it."""
        fleet = self._fleet
        for broker in fleet.brokers.values():
            firsts: defaultdict[str, dict[bytes, tuple[float, int]]] = defaultdict(dict)
            for at, message in broker.log:
                epoch, number = message.key.split(".")
                firsts[message.resource].setdefault(message.id, (at, int(epoch) * 1_000_000 + int(number)))
            for resource in fleet.resources:
                if len(resource.where) > 1:
                    continue
                for (before, one), (at, other) in pairwise(firsts[resource.name].values()):
                    if other < one and not fleet.was_disordered(before, at):
                        self._world.violate(f"{resource.name}: {other} was delivered at {at:.3f} after {one}")
                        return
