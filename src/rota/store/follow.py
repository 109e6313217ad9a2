"""Following keys: the present state first, then every change, with no gap between the two."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from rota.model.errors import Compacted
from rota.model.ids import Key
from rota.store.port import Entry, Store


async def follow(store: Store, key: Key) -> AsyncGenerator[Entry | None, None]:
    """What `key` is now, and then what it becomes; steps that were overtaken may be left out."""
    while True:
        # The scan tells the revision it read at; a bare `get` would leave a gap before the watch.
        listing = await store.scan(key)
        yield next((entry for entry in listing.entries if entry.key == key), None)
        try:
            async with aclosing(store.watch(key, listing.revision)) as commits:
                async for commit in commits:
                    for change in commit.changes:
                        if change.key == key:
                            yield change.entry
        except Compacted:
            continue
