"""Which leases are over: the verdict of one observer.

A lease on SQL has an expiry on the database's clock. That clock may step, and a suspended database serves nobody; so
the clock alone ends no lease. An observer looks again and again, and calls a lease over only when the database's
clock says so *and* it saw the renewal counter stand still for the whole ttl on its own monotonic clock.

If its own look came late (the process was frozen, the database out of reach), nothing is known about the time in
between, and the count starts over: an outage may prolong a lease, never shorten it.

Nor is anything known of a time in which no process could write: a disk was full, a lock held, the database read-only.
All counters stand still then, also those of live holders. A counter that moves, and a lease that is granted or ends,
show that writing works; live holders renew each third of a ttl. If nothing moves for longer than that, the observer
requests a write of its own (`needs_proof`), and without one it counts nothing.

Every process observes, but not all as often: the holders of the first few leases look all the time, the others five
times less often unless a lease seems to be expiring. So a fleet of a thousand nodes does not read a thousand leases two
thousand times a second. The price: if those few die at once, a lease ends up to a quarter of its ttl later.

Pure. `store.sql.log` reads the leases, and has the database check the counter again when it ends a lease.
"""

from collections.abc import Iterable, Mapping, Set
from heapq import nsmallest
from typing import NamedTuple

from rota.model.ids import Instant, LeaseId

SHORTEST_LOOK, LONGEST_LOOK = 0.1, 0.5

EAGER = 3
"""Leases whose holders look all the time: the first by their ids, which are random."""

RARELY = 0.25
"""Fraction of the shortest ttl after which the others look again."""

QUIET = 0.4
"""Fraction of a ttl without any write after which proof is needed that writing works: live holders renew at a third."""

SILENT = 0.55
"""Fraction of a ttl without any write after which nothing is counted: a holder that last renewed a third of a ttl
before that, and renews as soon as it can, is in time."""


class LeaseRow(NamedTuple):
    """One lease as the database shows it."""

    id: LeaseId
    renewals: int
    ttl: float
    is_overdue: bool
    """Over by the database's clock, or that clock was set back and does not show it."""


class LeaseObserver:
    """Remembers since when each lease has stood still."""

    def __init__(self) -> None:
        self._still: dict[LeaseId, tuple[int, Instant]] = {}
        self._looked: Instant | None = None
        self._written: Instant | None = None
        """When writing was last known to work."""
        self.needs_proof = False
        """Must a write show that writing works, because no other was seen lately?"""
        self.interval = LONGEST_LOOK
        """Seconds until the next look is wanted: a twentieth of the shortest ttl, or a quarter if others look."""

    def wrote(self, now: Instant) -> None:
        """Note that writing works."""
        self._written = now

    def look(self, leases: Iterable[LeaseRow], now: Instant, own: Set[LeaseId] = frozenset()) -> list[LeaseRow]:
        """The leases that are over at `now`; `own` are those that this process holds."""
        is_late = self._looked is not None and now - self._looked > 1.0 + 2 * self.interval
        before = {} if is_late else self._still
        found = {lease.id: lease for lease in leases}
        if self._written is None or is_late or _has_moved(before, found):
            self._written = now
        quiet = now - self._written
        self._looked = now
        self._still = {lease.id: (lease.renewals, _since(lease, before, quiet, now)) for lease in found.values()}
        shortest = min((lease.ttl for lease in found.values()), default=LONGEST_LOOK * 20)
        self.needs_proof = bool(found) and quiet >= QUIET * shortest
        is_eager = len(found) <= EAGER or not own.isdisjoint(nsmallest(EAGER, found)) or self._has_suspects(found, now)
        self.interval = _interval(shortest, is_eager=is_eager)
        return [each for each in found.values() if each.is_overdue and now - self._still[each.id][1] >= each.ttl]

    def _has_suspects(self, found: Mapping[LeaseId, LeaseRow], now: Instant) -> bool:
        """Has a lease stood still for longer than live holders let it?"""
        return any(now - since >= QUIET * found[lease].ttl for lease, (_, since) in self._still.items())


def _interval(shortest: float, *, is_eager: bool) -> float:
    if is_eager:
        return min(LONGEST_LOOK, max(SHORTEST_LOOK, shortest / 20))
    return min(LONGEST_LOOK * 20 * RARELY, max(SHORTEST_LOOK, shortest * RARELY))


def _has_moved(before: Mapping[LeaseId, tuple[int, Instant]], found: Mapping[LeaseId, LeaseRow]) -> bool:
    """Has any lease come, gone or been renewed?"""
    return before.keys() != found.keys() or any(before[each.id][0] != each.renewals for each in found.values())


def _since(lease: LeaseRow, before: Mapping[LeaseId, tuple[int, Instant]], quiet: float, now: Instant) -> Instant:
    """Since when a lease has stood still though it could have been renewed."""
    renewals, since = before.get(lease.id, (-1, now))
    return now if renewals != lease.renewals or quiet > SILENT * lease.ttl else since
