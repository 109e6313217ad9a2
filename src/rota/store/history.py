"""How far back a store's history goes, and compacting it."""

from rota.model.errors import Compacted
from rota.model.ids import Revision
from rota.store.port import Store


async def history_start(store: Store) -> Revision:
    """The oldest revision that can still be read; 0 if nothing was compacted yet."""
    try:
        await store.scan("/", limit=1, at=Revision(0))
    except Compacted as compacted:
        return compacted.oldest
    return Revision(0)


async def compact(store: Store, before: Revision) -> tuple[Revision, Revision]:
    """Compact history older than `before`; returns where it started until now, and where it starts from now on."""
    start = await history_start(store)
    await store.compact(before)
    return start, await history_start(store)
