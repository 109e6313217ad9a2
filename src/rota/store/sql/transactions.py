"""The log algorithm: what each operation of the store does to the tables, as driver-free steps.

State is kept twice over. `rota_log` has every change under its revision; `rota_live` has the keys that exist now and
points at the log row with the value. Reading the present is one look-up however long the history is; watching, and
pages that hold still, read the log.

Key order is the order of UTF-8 bytes. No key contains a control character or U+10FFFF, so a prefix is the range from
itself to itself + U+10FFFF, and the first key behind K is not before K + U+0001.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rota.model.errors import Compacted, Conflict, Invalid, LeaseLost
from rota.model.ids import Key, LeaseId, Revision
from rota.store.port import At, Change, Commit, Entry, Expect, Listing, Put, Write
from rota.store.sql.steps import Batch, Nothing, Query, Row, Steps
from rota.store.sql.sweep import Seen

ALL = 2**62
"""More rows than there are: a limit that limits nothing."""

PAGE = 256
"""Rows of the log read at once by a watch."""

KeysParameter = Callable[[Sequence[str]], object]


class Page(NamedTuple):
    """Part of the log: whole commits, and the revision up to which there are no others."""

    commits: list[Commit]
    reached: Revision
    is_last: bool


def prefix_range(prefix: Key) -> tuple[Key, Key]:
    """The keys that start with `prefix`: from, and up to but without."""
    return prefix, prefix + "\U0010ffff"


def get(key: Key) -> Steps[Entry | None]:
    """One entry."""
    rows = yield Query("get", (key,))
    return Entry(*rows[0]) if rows else None


def scan(prefix: Key, after: Key | None, limit: int | None, at: Revision | None) -> Steps[Listing]:
    """One page of entries, now or at an earlier revision."""
    ((newest, compacted),) = yield Query("counter")
    low, high = prefix_range(prefix)
    if after is not None:
        low = max(low, after + "\x01")
    count = ALL if limit is None else limit + 1
    if at is None or at == newest:
        rows = yield Query("scan", (low, high, count))
    elif at > newest:
        raise Invalid(f"revision {at} is in the future; the newest is {newest}")
    elif at < compacted:
        raise Compacted(at, compacted)
    else:
        rows = yield Query("scan_at", (low, high, at, at, count))
    entries = tuple(Entry(*row) for row in rows[:limit])
    return Listing(entries, newest if at is None else at, more=limit is not None and len(rows) > limit)


def commit(writes: Sequence[Write], expect: Sequence[Expect], keys_parameter: KeysParameter) -> Steps[Revision]:
    """All of the writes under a new revision, or Conflict and nothing."""
    ((revision,),) = yield Query("bump")
    keys = [write.key for write in writes]
    keys.extend(expectation.key for expectation in expect)
    rows = yield Query("state_of", (keys_parameter(keys),))
    state = {key: (created, modified) for key, created, modified in rows}
    refuse_stale(expect, state)
    leases = {write.lease for write in writes if isinstance(write, Put) and write.lease is not None}
    if leases:
        alive = yield Query("lease_ids", (keys_parameter(sorted(leases)),))
        refuse_lost(leases, alive)
    logged, placed, removed = rows_of(writes, state, revision)
    if not logged:
        raise Nothing(Revision(revision - 1))
    yield Batch("append", logged)
    if placed:
        yield Batch("place", placed)
    if removed:
        yield Batch("remove", removed)
    return Revision(revision)


def refuse_stale(expect: Iterable[Expect], state: dict[Key, tuple[int, int]]) -> None:
    """Conflict, if the state is not as expected."""
    stale = []
    for expectation in expect:
        there = state.get(expectation.key)
        if isinstance(expectation, At):
            if there is None or there[1] != expectation.revision:
                stale.append(expectation.key)
        elif there is not None:
            stale.append(expectation.key)
    if stale:
        raise Conflict(f"{', '.join(stale)}: changed since you read it", stale)


def refuse_lost(leases: set[LeaseId], alive: Iterable[Row]) -> None:
    """LeaseLost, if one of the leases has ended."""
    lost = leases - {lease for (lease,) in alive}
    if lost:
        raise LeaseLost(min(lost))


def rows_of(
    writes: Iterable[Write], state: dict[Key, tuple[int, int]], revision: int
) -> tuple[list[Row], list[Row], list[Row]]:
    """What the writes add to the log, put into and take out of the live keys."""
    logged: list[Row] = []
    placed: list[Row] = []
    removed: list[Row] = []
    for write in writes:
        key = write.key
        there = state.get(key)
        if isinstance(write, Put):
            created = there[0] if there else revision
            logged.append((revision, key, write.value, created, write.lease))
            placed.append((key, created, revision, write.lease))
        elif there:
            logged.append((revision, key, None, there[0], None))
            removed.append((key,))
    return logged, placed, removed


def tail(prefix: Key, after: Revision) -> Steps[Page]:
    """Commits past `after`: one page of them, cut between commits."""
    ((newest, compacted),) = yield Query("counter")
    if after < compacted:
        raise Compacted(after, compacted)
    if after >= newest:
        return Page([], after, is_last=True)
    low, high = prefix_range(prefix)
    rows = yield Query("tail", (after, low, high, PAGE))
    if len(rows) < PAGE:
        return Page(list(commits_of(rows)), newest, is_last=True)
    cut = rows[-1][0]
    whole = [row for row in rows if row[0] < cut]
    if not whole:  # one commit larger than a page: the end of a lease with very many keys
        whole = yield Query("one_revision", (cut, low, high))
    return Page(list(commits_of(whole)), whole[-1][0], is_last=False)


def commits_of(rows: Iterable[Row]) -> Iterator[Commit]:
    """Log rows as commits."""
    for revision, group in groupby(rows, key=lambda row: row[0]):
        changes = tuple(
            Change(key, None if value is None else Entry(key, value, created, revision, lease))
            for _, key, value, created, lease in group
        )
        yield Commit(Revision(revision), changes)


def grant(lease: LeaseId, ttl_ms: int) -> Steps[None]:
    """A new lease."""
    yield Query("grant", (lease, ttl_ms, ttl_ms))


def renew(lease: LeaseId) -> Steps[None]:
    """Let the ttl run anew, also past its end as long as nobody ended it."""
    rows = yield Query("renew", (lease,))
    if not rows:
        raise LeaseLost(lease)


def revoke(lease: LeaseId) -> Steps[Revision | None]:
    """End a lease: its keys go in one commit, whose revision comes back if there were any."""
    yield Query("lock")
    return (yield from end_lease(lease))


def expire(seen: Seen) -> Steps[Revision | None]:
    """End a lease unless it was renewed since it was seen."""
    yield Query("lock")
    rows = yield Query("lease", (seen.id,))
    if not rows or rows[0] != (seen.renewals, 1):
        return None
    return (yield from end_lease(seen.id))


def end_lease(lease: LeaseId) -> Steps[Revision | None]:
    """The common end of `revoke` and `expire`; the counter is locked."""
    yield Query("end_lease", (lease,))
    held = yield Query("keys_of_lease", (lease,))
    if not held:
        return None
    ((revision,),) = yield Query("bump")
    yield Batch("append", [(revision, key, None, created, None) for key, created in held])
    yield Batch("remove", [(key,) for key, _ in held])
    return Revision(revision)


def leases() -> Steps[list[Seen]]:
    """Every lease, for the sweep."""
    rows = yield Query("leases")
    return [Seen(LeaseId(lease), renewals, ttl_ms / 1000, bool(over)) for lease, renewals, ttl_ms, over in rows]


def counter() -> Steps[Revision]:
    """The newest revision."""
    ((newest, _),) = yield Query("counter")
    return Revision(newest)


def now() -> Steps[int]:
    """The database's clock in milliseconds."""
    ((milliseconds,),) = yield Query("now")
    return int(milliseconds)


def mark_compacted(before: Revision) -> Steps[Revision]:
    """From now on history starts at `before`; nobody may ask for less, and the rows can go in peace."""
    ((newest, compacted),) = yield Query("lock")
    start = max(compacted, min(before, newest))
    if start > compacted:
        yield Query("mark_compacted", (start,))
    return Revision(start)


def forget_superseded(start: Revision, count: int) -> Steps[int]:
    """Drop up to `count` values that later ones replaced before `start`; how many went."""
    rows = yield Query("superseded", (start, start, count))
    yield Batch("forget", rows)
    return len(rows)


def forget_tombstones(start: Revision, count: int) -> Steps[int]:
    """Drop up to `count` deletions before `start`, once nothing older is left for them to hide."""
    rows = yield Query("tombstones", (start, count))
    yield Batch("forget", rows)
    return len(rows)
