"""The log algorithm: what each operation of the store does to the tables, as driver-free steps.

State is kept twice. `rota_log` has every change under its revision; `rota_live` has the keys that exist now. Reading
the present is one look-up however long the history is; watches, and pages at a fixed revision, read the log.

Key order is the order of UTF-8 bytes. No key contains a control character or U+10FFFF, so a prefix is the range from
itself to itself + U+10FFFF, and the first key behind K is not before K + U+0001.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from rota.model.errors import Compacted, Conflict, Invalid, LeaseLost, Rewound
from rota.model.ids import Key, LeaseId, Revision
from rota.store.port import At, Change, Commit, Entry, Expect, Put, ScanResult, Write
from rota.store.sql.steps import NothingChanged, Row, SqlBatch, SqlQuery, Steps, Together
from rota.store.sql.sweep import LeaseRow

PAGE = 256
"""Rows of the log read at once by a watch."""

FORGET_AT_ONCE = 1000
"""Rows compacted in one transaction: other writers wait no longer than that takes."""

WINDOW = 500
"""Rows of the log that a compaction looks through at once, and those of the same commit."""

KeysParameter = Callable[[Sequence[str]], object]


class CommitPage(NamedTuple):
    """Part of the log: whole commits, and the revision up to which there are no others."""

    commits: list[Commit]
    reached: Revision
    is_last: bool


def prefix_range(prefix: Key) -> tuple[Key, Key]:
    """The range of the keys that start with `prefix`: its start, and its exclusive end."""
    return prefix, prefix + "\U0010ffff"


def get(key: Key) -> Steps[Entry | None]:
    """One entry."""
    rows = yield SqlQuery("get", (key,))
    return Entry(*rows[0]) if rows else None


def scan(prefix: Key, after: Key | None, limit: int, at: Revision | None) -> Steps[ScanResult]:
    """One page of entries, now or at an earlier revision."""
    ((newest, compacted),) = yield SqlQuery("counter")
    low, high = prefix_range(prefix)
    if after is not None:
        low = max(low, after + "\x01")
    count = limit + 1
    if at is None or at == newest:
        rows = yield SqlQuery("scan", (low, high, count))
    elif at > newest:
        raise Invalid(f"revision {at} is in the future; the newest is {newest}")
    elif at < compacted:
        raise Compacted(at, compacted)
    else:
        rows = yield SqlQuery("scan_at", (low, high, at, at, count))
    entries = tuple(Entry(*row) for row in rows[:limit])
    return ScanResult(entries, newest if at is None else at, more=len(rows) > limit)


class CommitRequest(NamedTuple):
    """One requested commit."""

    writes: Sequence[Write]
    expect: Sequence[Expect]


Outcome: TypeAlias = Revision | Conflict | LeaseLost
"""The outcome of a request: its revision, or why it was refused."""


class GroupResult(NamedTuple):
    """The outcome of each request, and the commits as a watch sees them."""

    outcomes: list[Outcome]
    commits: list[Commit]


def commit(requests: Sequence[CommitRequest], seen: Revision, keys_parameter: KeysParameter) -> Steps[GroupResult]:
    """Carry out requests one after the other in one transaction, each under a revision of its own.

    A refused request leaves the others alone: as if each had had its own transaction. A store that is behind a
    revision already `seen` would give out the same revision twice, and every fence with it: Rewound.
    """
    ((top,),) = yield SqlQuery("bump", (len(requests),))
    if top - len(requests) < seen:
        raise Rewound(Revision(top - len(requests)), seen)
    keys = {part.key for request in requests for part in (*request.writes, *request.expect)}
    rows = yield SqlQuery("state_of", (keys_parameter(sorted(keys)),))
    leases = {part.lease for request in requests for part in request.writes if isinstance(part, Put) and part.lease}
    alive = (yield SqlQuery("lease_ids", (keys_parameter(sorted(leases)),))) if leases else []
    ledger = TableChanges(top - len(requests), rows, {lease for (lease,) in alive})
    outcomes = [ledger.carry_out(request) for request in requests]
    if not ledger.logged:
        raise NothingChanged(GroupResult(outcomes, []))
    if ledger.revision < top:
        yield SqlQuery("set_counter", (ledger.revision,))
    changes: list[SqlQuery | SqlBatch] = [SqlBatch("append", ledger.logged)]
    if placed := ledger.placed:
        changes.append(SqlBatch("place", placed))
    if removed := ledger.removed:
        changes.append(SqlQuery("remove", (keys_parameter(removed),)))
    yield Together(tuple(changes))
    return GroupResult(outcomes, list(commits_of(sorted(ledger.logged, key=lambda row: row[:2]))))


class TableChanges:
    """What a group of requests does to the tables, worked out from what was there before. Pure."""

    def __init__(self, revision: int, live: Iterable[Row], leases: set[LeaseId]) -> None:
        self.revision = revision
        self.logged: list[Row] = []
        self._live: dict[Key, tuple[int, int]] = {key: (created, modified) for key, created, modified in live}
        self._leases = leases
        self._touched: dict[Key, Put | None] = {}

    def carry_out(self, request: CommitRequest) -> Outcome:
        """Apply a request under the next revision; or return why not, and change nothing."""
        stale = [expectation.key for expectation in request.expect if not self._holds(expectation)]
        if stale:
            return Conflict(f"{', '.join(stale)}: changed since you read it", stale)
        for write in request.writes:
            if isinstance(write, Put) and write.lease is not None and write.lease not in self._leases:
                return LeaseLost(write.lease)
        before = len(self.logged)
        for write in request.writes:
            self._write(write, self.revision + 1)
        if len(self.logged) > before:
            self.revision += 1
        return Revision(self.revision)

    @property
    def placed(self) -> list[Row]:
        """The rows of the keys that were written and are there in the end."""
        return [(key, put.value, *self._live[key], put.lease) for key, put in self._touched.items() if put]

    @property
    def removed(self) -> list[Key]:
        """The keys that were written and are gone in the end."""
        return [key for key, put in self._touched.items() if put is None]

    def _holds(self, expectation: Expect) -> bool:
        there = self._live.get(expectation.key)
        if isinstance(expectation, At):
            return there is not None and there[1] == expectation.revision
        return there is None

    def _write(self, write: Write, revision: int) -> None:
        key, there = write.key, self._live.get(write.key)
        if isinstance(write, Put):
            created = there[0] if there else revision
            self._live[key] = (created, revision)
            self._touched[key] = write
            self.logged.append((revision, key, write.value, created, write.lease))
        elif there:
            del self._live[key]
            self._touched[key] = None
            self.logged.append((revision, key, None, there[0], None))


def tail(prefix: Key, after: Revision) -> Steps[CommitPage]:
    """Commits past `after`: one page of them, cut between commits."""
    low, high = prefix_range(prefix)
    rows = yield SqlQuery("tail", (after, low, high, PAGE))
    newest, compacted = next(row[:2] for row in rows if row[0] is not None)
    if after < compacted:
        raise Compacted(after, compacted)
    if after > newest:
        raise Rewound(newest, after)
    found = [row[2:] for row in rows if row[2] is not None]
    if len(found) < PAGE:
        return CommitPage(list(commits_of(found)), newest, is_last=True)
    cut = found[-1][0]
    whole = [row for row in found if row[0] < cut]
    if not whole:  # one commit larger than a page: the end of a lease with very many keys
        rows = yield SqlQuery("one_revision", (cut, low, high))
        if after < (compacted := rows[0][0]):  # since the first query; then some of its rows may be gone
            raise Compacted(after, compacted)
        whole = [row[1:] for row in rows]
    return CommitPage(list(commits_of(whole)), whole[-1][0], is_last=False)


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
    yield SqlQuery("grant", (lease, ttl_ms, ttl_ms))


def renew(lease: LeaseId) -> Steps[None]:
    """Restart the ttl, even after its end as long as the lease was not ended."""
    changed = yield SqlQuery("renew", (lease,))
    if not changed:
        raise LeaseLost(lease)


def revoke(lease: LeaseId, keys_parameter: KeysParameter) -> Steps[Revision | None]:
    """End a lease: its keys go in one commit, whose revision comes back if there were any."""
    yield SqlQuery("lock")
    yield SqlQuery("end_lease", (lease,))
    return (yield from drop_keys(lease, keys_parameter))


def expire(seen: LeaseRow, keys_parameter: KeysParameter) -> Steps[Revision | None]:
    """End a lease unless it was renewed since it was seen."""
    yield SqlQuery("lock")
    if not (yield SqlQuery("expire_lease", (seen.id, seen.renewals))):
        raise NothingChanged(None)
    return (yield from drop_keys(seen.id, keys_parameter))


def drop_keys(lease: LeaseId, keys_parameter: KeysParameter) -> Steps[Revision | None]:
    """Delete the keys of an ended lease in one commit. The counter is locked."""
    held = yield SqlQuery("keys_of_lease", (lease,))
    if not held:
        return None
    ((revision,),) = yield SqlQuery("bump", (1,))
    yield SqlBatch("append", [(revision, key, None, created, None) for key, created in held])
    yield SqlQuery("remove", (keys_parameter([key for key, _ in held]),))
    return Revision(revision)


def leases() -> Steps[list[LeaseRow]]:
    """Every lease, for the sweep."""
    rows = yield SqlQuery("leases")
    return [LeaseRow(LeaseId(lease), renewals, ttl_ms / 1000, bool(over)) for lease, renewals, ttl_ms, over in rows]


def prove(lease: LeaseId) -> Steps[None]:
    """Write without a lasting effect: a lease that no reader sees. Fails where a renewal would."""
    yield SqlQuery("grant", (lease, 0, 0))
    yield SqlQuery("end_lease", (lease,))


def counter() -> Steps[Revision]:
    """The newest revision."""
    ((newest, _),) = yield SqlQuery("counter")
    return Revision(newest)


def now() -> Steps[int]:
    """The database's clock in milliseconds."""
    ((milliseconds,),) = yield SqlQuery("now")
    return int(milliseconds)


def mark_compacted(before: Revision) -> Steps[Revision]:
    """From now on history starts at `before`; older revisions are refused, and the rows can be deleted."""
    ((newest, compacted),) = yield SqlQuery("lock")
    start = max(compacted, min(before, newest))
    if start > compacted:
        yield SqlQuery("mark_compacted", (start,))
    return Revision(start)


def window_end(after: Revision, until: Revision) -> Steps[Revision]:
    """The end of the next window of the log, after `after` and not past `until`.

    It counts rows and not revisions: few rows may be left of the revisions.
    """
    rows = yield SqlQuery("window_end", (after, until, WINDOW - 1))
    return Revision(rows[0][0]) if rows else until


def superseded(after: Revision, until: Revision) -> Steps[list[Row]]:
    """The values that were replaced between two revisions."""
    return (yield SqlQuery("superseded", (after, until)))


def tombstones(after: Revision, until: Revision) -> Steps[list[Row]]:
    """The deletions between two revisions; they may be dropped once no older value is left that they hide."""
    return (yield SqlQuery("tombstones", (after, until)))


def forget(rows: Sequence[Row]) -> Steps[None]:
    """Drop rows of the log."""
    yield SqlBatch("forget", rows)
