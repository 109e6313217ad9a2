"""What the agent offers of the services that it serves: figures and a few orders.

The admin door, the control socket and the metrics ask through this, and know nothing of proxies and workers.
"""

from collections.abc import Sequence
from typing import Protocol

from rota.services.core.admin_spec import AdminSpec
from rota.services.core.records import ServiceStat


class ServicesDoor(Protocol):
    """The services of one node, by name."""

    def names(self) -> list[str]:
        """Every service that the app declares."""
        ...

    async def stat(self, service: str) -> ServiceStat:
        """Its figures; Unavailable if its proxy does not answer in 5 s. This and the methods below raise NotFound for
        an unknown service."""
        ...

    async def clear(self, service: str, groups: Sequence[int] | None) -> dict[int, int]:
        """Drop the requests that wait, in these groups or in all; returns the number dropped by group. NotFound names
        an unknown group."""
        ...

    async def resize(self, service: str, group: int, count: int) -> int:
        """Set a group's number of workers until the next reload; returns the number before. NotFound names an unknown
        group."""
        ...

    def admin(self, service: str) -> AdminSpec | None:
        """Its admin door, as declared; None if it has none."""
        ...
