"""Count up in a store from a process of its own: `python -m tests.kit.counter URL KEY TIMES`."""

import asyncio
import sys

from rota.model.errors import Conflict
from rota.model.ids import Key
from rota.store import Absent, At, Put, Store, open_store


async def increment(store: Store, key: Key) -> None:
    """Add one to the number at `key`, whoever else does."""
    while True:
        entry = await store.get(key)
        number, expectation = (int(entry.value), At(key, entry.modified)) if entry else (0, Absent(key))
        await asyncio.sleep(0)  # let others in between: the store in memory would not
        try:
            await store.commit(Put(key, b"%d" % (number + 1)), expect=[expectation])
        except Conflict:
            continue
        return


async def count(store: Store, key: Key, times: int) -> None:
    """Add one, `times` times."""
    for _ in range(times):
        await increment(store, key)


async def main(url: str, key: Key, times: str) -> None:
    """Open the store and count."""
    async with open_store(url) as store:
        await count(store, key, int(times))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
