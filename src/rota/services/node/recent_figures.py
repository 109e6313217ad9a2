"""The figures of a node's services for metrics scrapers: asked for at most once a second, however many scrape."""

import asyncio
from collections.abc import Callable

from rota.kit.time.clock import Clock
from rota.model.errors import RotaError
from rota.services.core.records import ServiceStat
from rota.services.node.door import ServicesDoor

FRESH = 1.0
"""Seconds for which figures are reused."""


class ServiceFigures:
    """The latest figures of each service."""

    def __init__(self, door: Callable[[], ServicesDoor | None], clock: Clock) -> None:
        self.latest: dict[str, ServiceStat | None] = {}
        """By name; None for a service that did not answer."""

        self._door, self._clock = door, clock
        self._asking = asyncio.Lock()
        self._fresh_until: float | None = None

    async def refresh(self) -> None:
        """Ask for the figures again, unless they are younger than `FRESH`."""
        async with self._asking:
            if self._fresh_until is not None and self._clock.monotonic() < self._fresh_until:
                return
            if (door := self._door()) is not None:
                names = door.names()
                stats = await asyncio.gather(*(_stat(door, name) for name in names))
                self.latest = dict(zip(names, stats, strict=True))
            self._fresh_until = self._clock.monotonic() + FRESH


async def _stat(door: ServicesDoor, name: str) -> ServiceStat | None:
    try:
        return await door.stat(name)
    except RotaError:
        return None
