"""The store port: what Rota asks of etcd, a database, a file or a dict, and the laws it relies on.

Keys are ordered by their UTF-8 bytes. Each commit has a revision, and revisions only grow. `scan` returns the revision
it read at, and `watch` continues from there, so no commit is lost between reading and watching.

Adapters are opened by URL (`store.open`) and translate their driver's errors at the edge; no caller imports one.
"""

from collections.abc import AsyncGenerator, Iterable
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import msgspec

from rota.model.ids import Instant, Key, LeaseId, Revision

# Structs rather than dataclasses: a scan makes one per entry, and these are built ten times as fast.


class Put(msgspec.Struct, frozen=True):
    """Write a value; under a lease it vanishes when the lease ends."""

    key: Key
    value: bytes
    lease: LeaseId | None = None


class Delete(msgspec.Struct, frozen=True):
    """Remove a key; removing an absent one changes nothing."""

    key: Key


class At(msgspec.Struct, frozen=True):
    """Expect a key as it was last written at `revision`."""

    key: Key
    revision: Revision


class Absent(msgspec.Struct, frozen=True):
    """Expect that a key does not exist."""

    key: Key


Write: TypeAlias = Put | Delete
Expect: TypeAlias = At | Absent


class Entry(msgspec.Struct, frozen=True):
    """A key's value, and the revisions at which it was created and last written."""

    key: Key
    value: bytes
    created: Revision
    modified: Revision
    lease: LeaseId | None = None


class ScanResult(msgspec.Struct, frozen=True):
    """Entries in key order as they were at `revision`; `more` says that the limit cut them short."""

    entries: tuple[Entry, ...]
    revision: Revision
    more: bool = False


class Change(msgspec.Struct, frozen=True):
    """One key of a commit: what it became, or None when it went away."""

    key: Key
    entry: Entry | None


class Commit(msgspec.Struct, frozen=True):
    """What one commit changed below the watched prefix, in key order."""

    revision: Revision
    changes: tuple[Change, ...]


class Lease(msgspec.Struct, frozen=True):
    """A promise of the store to keep keys until `ttl` has passed unrenewed.

    `deadline` is counted from before the request, on the holder's own clock: the store cannot end the lease earlier.
    """

    id: LeaseId
    ttl: timedelta
    deadline: Instant


class Store(Protocol):
    """Ordered keys with revisions. Every adapter keeps these laws (`tests/contract/test_store.py`):

    1. A commit is all or nothing and writes each key once; its revision is greater than every earlier one. A commit
       that only deletes absent keys changes nothing and returns the present revision.
    2. A commit with a stale expectation raises Conflict, naming the keys, and changes nothing.
    3. `watch(prefix, after)` yields each commit past `after` that touches the prefix whole, once and in order, or
       raises Compacted.
    4. The keys of a lease vanish in one commit, never before its ttl has passed unrenewed, and soon after.
    5. `scan` returns entries and the revision they were read at; a further page asked `at` that revision fits on.
    6. 100 writes and 1 MiB of values pass; beyond that, and for a bad key, Invalid, the same on every adapter.
    7. Of concurrent commits expecting the same, one wins: 8 processes × 50 increments end at 400.
    8. The server may be killed and restarted at any point: nothing missed, nothing doubled. A commit whose outcome
       is not known raises Unknown, and no retry hides it.
    9. An unreachable, frozen or half cut server gives Unavailable or Unknown within the time-out, and the store works
       again by itself when the server does.
    10. All this holds between processes as between coroutines (`memory://`, which lives in one process, apart).
    """

    async def get(self, key: Key) -> Entry | None:
        """The entry, or None."""

    async def scan(
        self, prefix: Key, *, after: Key | None = None, limit: int | None = None, at: Revision | None = None
    ) -> ScanResult:
        """Entries whose key starts with `prefix`, from behind `after`; `at` an earlier revision if given."""

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        """Apply all writes if every expectation holds, and return the revision they got."""

    def watch(self, prefix: Key, after: Revision) -> AsyncGenerator[Commit, None]:
        """Commits past `after`, until cancelled; outages of the server only delay it."""

    async def grant(self, ttl: timedelta) -> Lease:
        """A new lease; the store may round the ttl up, and the lease says to what."""

    async def renew(self, lease: Lease) -> Instant:
        """The new deadline, counted from before the call; LeaseLost if the lease has ended."""

    async def revoke(self, lease: LeaseId) -> None:
        """End a lease and its keys now; an unknown lease is fine."""

    async def now(self) -> datetime:
        """The store's clock; nothing's uniqueness rests on it."""

    async def revision(self) -> Revision:
        """The revision of the newest commit."""

    async def compact(self, before: Revision) -> None:
        """Forget history older than `before`; the present state stays."""

    async def close(self) -> None:
        """Let go of connections, threads and files; end your watches first."""
