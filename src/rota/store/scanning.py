"""Reading all entries below a prefix."""

from collections.abc import AsyncGenerator

from rota.model.ids import Key, Revision
from rota.store.port import Entry, Store

PAGE = 1000
"""Entries that are read at a time."""


async def scan_all(store: Store, prefix: Key, at: Revision | None = None) -> AsyncGenerator[Entry, None]:
    """Every entry of a prefix, page by page; unless it is read `at` a revision, concurrent changes may be missed."""
    after: Key | None = None
    while True:
        listing = await store.scan(prefix, after=after, limit=PAGE, at=at)
        for entry in listing.entries:
            yield entry
        if not listing.more:
            return
        after = listing.entries[-1].key
