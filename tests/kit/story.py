"""The same random story told to two stores, which must answer alike.

Stores count revisions and name leases each in their own way, so the story notes which of one are which of the other
and translates the model's answers before it compares.
"""

from collections.abc import Sequence
from datetime import timedelta
from random import Random

from rota.model.errors import Conflict
from rota.model.ids import Key, LeaseId, Revision
from rota.store import Absent, At, Change, Commit, Delete, Entry, Lease, Put, ScanResult, Store
from rota.store.port import Expect, Write
from tests.kit.waiting import Recorder

KEYS = ("/a", "/a/1", "/a/2", "/a/2/x", "/ab", "/b/1", "/b/é", "/b/😀", "/c")
PREFIXES = ("/", "/a", "/a/", "/b/", "/c")


class Story:
    """A store, the model of it, and what in one is what in the other."""

    def __init__(self, random: Random, store: Store, model: Store) -> None:
        self._random, self._store, self._model = random, store, model
        self._revisions: dict[Revision, Revision] = {}
        self._leases: dict[LeaseId | None, LeaseId | None] = {None: None}
        self._live: list[tuple[Lease, Lease]] = []

    async def tell(self, steps: int) -> None:
        """Begin with two empty stores, take some steps and look back; AssertionError where the answers differ."""
        await self._note()
        (start,) = self._revisions
        weights = {self._commit: 12, self._scan: 5, self._grant: 1, self._revoke: 1}
        for step in self._random.choices([*weights], [*weights.values()], k=steps):
            await step()
        while self._live:
            await self._revoke()
        await self._look_back(start)

    async def _commit(self) -> None:
        random = self._random
        writes = [self._write(key) for key in random.sample(KEYS, random.randint(1, 4))]
        expect = [await self._expectation(key) for key in random.sample(KEYS, random.randint(0, 2))]
        theirs = await outcome(self._model, [write for write, _ in writes], [wanted for wanted, _ in expect])
        ours = await outcome(self._store, [write for _, write in writes], [wanted for _, wanted in expect])
        await self._note()
        assert ours == (self._revisions[theirs] if isinstance(theirs, int) else theirs)

    def _write(self, key: Key) -> tuple[Write, Write]:
        if self._random.random() < 0.3:
            return Delete(key), Delete(key)
        value = self._random.randbytes(4)
        lease = self._random.choice([None, *(theirs.id for theirs, _ in self._live)])
        return Put(key, value, lease), Put(key, value, self._leases[lease])

    async def _expectation(self, key: Key) -> tuple[Expect, Expect]:
        entry = await self._model.get(key)
        if entry is None or self._random.random() < 0.1:
            return Absent(key), Absent(key)
        revision = entry.modified if self._random.random() < 0.8 else entry.created
        return At(key, revision), At(key, self._revisions[revision])

    async def _scan(self) -> None:
        random = self._random
        prefix, at = random.choice(PREFIXES), random.choice([None, *self._revisions])
        after, limit = random.choice([None, *KEYS]), random.choice([None, 1, 2, 3, 9])
        theirs = await self._model.scan(prefix, after=after, limit=limit, at=at)
        ours = await self._store.scan(prefix, after=after, limit=limit, at=None if at is None else self._revisions[at])
        entries = tuple(self._entry(entry) for entry in theirs.entries)
        assert ours == ScanResult(entries, self._revisions[theirs.revision], theirs.more)

    async def _grant(self) -> None:
        ttl = timedelta(minutes=1)
        theirs, ours = await self._model.grant(ttl), await self._store.grant(ttl)
        self._leases[theirs.id] = ours.id
        self._live.append((theirs, ours))

    async def _revoke(self) -> None:
        if self._live:
            theirs, ours = self._live.pop(self._random.randrange(len(self._live)))
            await self._model.revoke(theirs.id)
            await self._store.revoke(ours.id)
            await self._note()

    async def _note(self) -> None:
        """Note which revision of the store is the model's newest."""
        ours = await self._store.revision()
        assert self._revisions.setdefault(await self._model.revision(), ours) == ours

    async def _look_back(self, start: Revision) -> None:
        """Watch the whole story in both stores."""
        end = [Put(f"{top}/end", b"") for top in ("/a", "/b", "/c")]
        theirs, ours = await self._model.commit(*end), await self._store.commit(*end)
        self._revisions[theirs] = ours
        for prefix in PREFIXES:
            told = await watched(self._model, prefix, start, theirs)
            seen = await watched(self._store, prefix, self._revisions[start], ours)
            assert seen == [self._commit_of(commit) for commit in told]

    def _commit_of(self, commit: Commit) -> Commit:
        changes = (Change(change.key, change.entry and self._entry(change.entry)) for change in commit.changes)
        return Commit(self._revisions[commit.revision], tuple(changes))

    def _entry(self, entry: Entry) -> Entry:
        created, modified = self._revisions[entry.created], self._revisions[entry.modified]
        return Entry(entry.key, entry.value, created, modified, self._leases[entry.lease])


async def outcome(store: Store, writes: Sequence[Write], expect: Sequence[Expect]) -> Revision | frozenset[Key]:
    """The revision a commit got, or the keys that were in its way."""
    try:
        return await store.commit(*writes, expect=expect)
    except Conflict as conflict:
        return conflict.keys


async def watched(store: Store, prefix: Key, start: Revision, end: Revision) -> list[Commit]:
    """What a watch yields past `start` up to `end`."""
    async with Recorder(store, prefix, start) as seen:
        await seen.reach(end)
    return seen.commits
