"""Backing up and restoring a store.

`dump` writes every key, all as they were at one revision, into a file (`store.tools.dumpfile`). Keys under a lease are
left out: they belong to sessions that cannot be restored.

`load` begins by declaring the store's incarnation to be loading. Each of its commits expects that declaration, nodes
refuse to join while it exists, and an interrupted load leaves it behind: the next load takes over and starts afresh.
Its last commit begins a new incarnation, which keeps old leaders out.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import BinaryIO

import msgspec

from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Compacted, Conflict, Invalid, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.model.node import Incarnation
from rota.store import incarnation, rules
from rota.store.port import Absent, At, Delete, Entry, Put, Store, Write
from rota.store.tools.dumpfile import Dump, Footer, Header, Seal, encoded, is_restored, line_of

PAGE = 200
"""Entries read at once."""


async def dump(store: Store, file: BinaryIO) -> Footer:
    """Write what the store has, as of now, into a file; Invalid if the store is half loaded."""
    revision = await store.revision()
    found = await _incarnation_at(store, revision)
    header = Header(revision=revision, incarnation=found.id if found else None, at=await store.now())
    seal = Seal()
    file.write(seal.add(encoded(header)))
    try:
        async with aclosing(entries(store, at=revision)) as all_of_them:
            async for entry in all_of_them:
                if entry.lease is None and is_restored(entry.key):
                    file.write(seal.add(encoded(line_of(entry.key, entry.value))))
    except Compacted as error:
        raise Unavailable(f"revision {revision} was compacted away while it was dumped; dump again") from error
    file.write(encoded(seal.footer))
    return seal.footer


async def entries(store: Store, *, at: Revision | None = None) -> AsyncGenerator[Entry, None]:
    """Every entry of the store in key order; page by page, so only `at` a revision do they fit together."""
    after: Key | None = None
    while True:
        page = await store.scan("/", after=after, limit=PAGE, at=at)
        for entry in page.entries:
            yield entry
        if not page.more:
            return
        after = page.entries[-1].key


async def _incarnation_at(store: Store, revision: Revision) -> Incarnation | None:
    listing = await store.scan(keys.INCARNATION, limit=1, at=revision)
    return next((incarnation.whole(entry) for entry in listing.entries if entry.key == keys.INCARNATION), None)


class LoadResult(msgspec.Struct, frozen=True):
    """The result of a load."""

    entries: int
    removed: int
    """Keys that were there before."""

    incarnation: str


async def load(store: Store, source: Dump, clock: Clock, *, force: bool = False, note: Put | None = None) -> LoadResult:
    """Load a dump into the store, as a new incarnation; `note` records in its audit trail who did.

    Raises Conflict if nodes are on it; Invalid if it has keys, unless `force` deletes them or they are from half a
    load.
    """
    await _refuse_nodes(store)
    before = await store.get(keys.INCARNATION)
    is_half_loaded = before is not None and codec.decode(Incarnation, before.value).is_loading
    if not force and not is_half_loaded:
        await _refuse_keys(store)
    new = incarnation.new(clock)
    mark = await _declare(store, new, before)
    try:
        if not is_half_loaded:
            await _refuse_late_nodes(store, new, mark)
        removed = await _clear(store, mark) if force or is_half_loaded else 0
        restored = await _restore(store, source, mark)
        if note is not None:
            await store.commit(note, expect=[mark])
        await incarnation.begin(store, new, mark)
    except (Unavailable, Unknown) as error:
        raise type(error)(f"{error}; the store may be half loaded now, so load it again") from error
    except Conflict as error:
        if not error.keys:
            raise
        raise Conflict(f"{error}; another process writes to this store: stop it, and load again", error.keys) from error
    return LoadResult(restored, removed, new.id)


async def _refuse_nodes(store: Store) -> None:
    listing = await store.scan(keys.NODES)
    if names := ", ".join(entry.key.removeprefix(keys.NODES) for entry in listing.entries):
        raise Conflict(f"nodes are on this store: {names}; stop them, or wait for the leases of those that died")


async def _refuse_keys(store: Store) -> None:
    async with aclosing(entries(store)) as all_of_them:
        async for entry in all_of_them:
            if entry.lease is None:
                raise Invalid(f"the store has keys, such as {entry.key}; take an empty one, or --force to replace them")


async def _declare(store: Store, new: Incarnation, before: Entry | None) -> At:
    """Declare that a load has begun: the previous incarnation is over, and no node can join it any more."""
    declare = Put(keys.INCARNATION, codec.encode(replace(new, is_loading=True)))
    if before is None:
        revision = await store.commit(declare, expect=[Absent(keys.INCARNATION)])
    else:
        over = Delete(keys.incarnation(codec.decode(Incarnation, before.value).id))
        revision = await store.commit(declare, over, expect=[At(keys.INCARNATION, before.modified)])
    return At(keys.INCARNATION, revision)


async def _refuse_late_nodes(store: Store, new: Incarnation, mark: At) -> None:
    """Refuse to load if nodes joined meanwhile: nothing was changed yet, so they continue in the new incarnation."""
    try:
        await _refuse_nodes(store)
    except Conflict:
        await incarnation.begin(store, new, mark)
        raise


async def _clear(store: Store, mark: At) -> int:
    """Delete all keys but those under a lease; returns how many."""
    async with aclosing(entries(store)) as all_of_them:
        doomed = [
            Delete(entry.key) async for entry in all_of_them if entry.lease is None and entry.key != keys.INCARNATION
        ]
    for batch in batches(doomed):
        await store.commit(*batch, expect=[mark])
    return len(doomed)


async def _restore(store: Store, source: Dump, mark: At) -> int:
    """Write what was dumped; returns how many keys."""
    count = 0
    for batch in batches(source.puts()):
        await store.commit(*batch, expect=[mark, *(Absent(write.key) for write in batch)])
        count += len(batch)
    return count


def batches(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """The writes in order, in batches that fit in one commit."""
    batch: list[Write] = []
    size = 0
    for write in writes:
        more = len(write.value) if isinstance(write, Put) else 0
        if batch and (len(batch) == rules.MAX_WRITES or size + more > rules.MAX_VALUE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(write)
        size += more
    if batch:
        yield batch
