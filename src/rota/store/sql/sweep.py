"""Which leases are over: the verdict of one observer.

A lease on SQL has an expiry on the database's clock. That clock may step, and a suspended database serves nobody; so
the clock alone ends no lease. An observer looks again and again, and calls a lease over only when the database's
clock says so *and* it saw the renewal counter stand still for the whole ttl on its own monotonic clock.

If its own look came late (the process was frozen, the database out of reach), nothing is known about the time in
between, and the count starts over: an outage may prolong a lease, never shorten it.

Pure. `store.sql.log` looks, and lets the database check the counter once more when it ends the lease.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rota.model.ids import Instant, LeaseId

SHORTEST_LOOK, LONGEST_LOOK = 0.1, 0.5


class Seen(NamedTuple):
    """One lease as the database shows it."""

    id: LeaseId
    renewals: int
    ttl: float
    is_overdue: bool
    """Over by the database's clock, or that clock was set back and cannot tell."""


class Observer:
    """Remembers since when each lease has stood still."""

    def __init__(self) -> None:
        self._still: dict[LeaseId, tuple[int, Instant]] = {}
        self._looked: Instant | None = None
        self.interval = LONGEST_LOOK
        """Seconds until the next look is wanted: a twentieth of the shortest ttl."""

    def look(self, leases: Iterable[Seen], now: Instant) -> list[Seen]:
        """The leases that are over at `now`."""
        is_late = self._looked is not None and now - self._looked > 1.0 + 2 * self.interval
        before = {} if is_late else self._still
        self._looked, self._still = now, {}
        over, shortest = [], LONGEST_LOOK * 20
        for lease in leases:
            renewals, since = before.get(lease.id, (-1, now))
            if renewals != lease.renewals:
                since = now
            self._still[lease.id] = (lease.renewals, since)
            shortest = min(shortest, lease.ttl)
            if lease.is_overdue and now - since >= lease.ttl:
                over.append(lease)
        self.interval = max(SHORTEST_LOOK, shortest / 20)
        return over
