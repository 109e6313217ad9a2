"""How busy this machine is: measured each second, and written to the store when it has changed.

The whole machine is measured, not only Rota's part of it: other programs slow Rota's work down too. The record has a
key of its own and is not part of the node's status, because the leader follows the statuses, and a figure that always
changes would wake it all the time. It is written at most every 5 s, and, after the first time, only when the score has
moved by a point.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from datetime import timedelta

import psutil

from rota.fleet.core.members.load import Shares, has_moved, score, smoothed
from rota.fleet.members.session import NodeSession
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, LeaseLost, Unavailable, Unknown
from rota.model.ids import Instant
from rota.model.node import NodeLoad
from rota.store.port import Put, Store

log = logging.getLogger(__name__)

PACE = 1.0
"""Seconds from one measurement to the next."""

TOLD = 5.0
"""Seconds from one record to the next, at least."""


def machine() -> tuple[float, float]:
    """Which shares of processors and memory are in use."""
    try:
        return psutil.cpu_percent() / 100, psutil.virtual_memory().percent / 100
    except (
        psutil.Error,
        OSError,
        RuntimeError,
    ):  # a system without these figures, or a locked-down container
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), 0.0


class LoadMeter:
    """Measures one node. `executors` gives how many it has and how many of them are used."""

    def __init__(
        self,
        clock: Clock,
        executors: Callable[[], tuple[int, int]],
        look: Callable[[], tuple[float, float]] = machine,
    ) -> None:
        self._clock, self._executors, self._look = clock, executors, look
        self._shares: Shares | None = None
        self._at = clock.monotonic()
        look()  # the first figure of the processors has no earlier one to compare with

    @property
    def load(self) -> NodeLoad:
        """The latest figures."""
        shares = self._shares or Shares(cpu=0, executors=0, memory=0)
        executors, used = self._executors()
        return NodeLoad(
            score=score(shares),
            cpu=round(shares.cpu, 4),
            memory=round(shares.memory, 4),
            executors=executors,
            executors_used=used,
        )

    def measure(self) -> None:
        """Measure once."""
        now = self._clock.monotonic()
        cpu, memory = self._look()
        executors, used = self._executors()
        fresh = Shares(cpu=cpu, executors=used / executors if executors else 0.0, memory=memory)
        self._shares = smoothed(self._shares, fresh, timedelta(seconds=now - self._at))
        self._at = now

    async def run(self) -> None:
        """Measure each second, until cancelled."""
        while True:
            await asyncio.sleep(PACE)
            self.measure()


async def publish_load(store: Store, session: NodeSession, meter: LoadMeter, clock: Clock) -> None:
    """Write how busy this node is, until cancelled."""
    key, told, at = keys.node_load(session.node.id), None, Instant(-TOLD)
    while True:
        load, now = meter.load, clock.monotonic()
        if has_moved(told, load.score) and (told is None or now - at >= TOLD):
            try:
                put = Put(key, codec.encode(load), session.keeper.lease)
                await store.commit(put, expect=[session.incarnation])
                told, at = load.score, now
            except (Conflict, LeaseLost, Unavailable, Unknown) as error:
                log.debug("load not written", extra={"node": session.node.id, "why": str(error)})
        await asyncio.sleep(PACE)
