"""A watcher in a process of its own: `python -m benchmarks.watcher port URL PREFIX AFTER`, or `bare FILE …`.

Prints a line for each commit it sees: the revision, and when by the monotonic clock, which all processes share.
"""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from time import monotonic

from benchmarks.bare_sqlite import Poller
from rota.model.ids import Revision
from rota.store import open_store


async def watch_port(url: str, prefix: str, after: int) -> None:
    """Watch through the port, for ever."""
    async with open_store(url) as store, aclosing(store.watch(prefix, Revision(after))) as commits:
        async for commit in commits:
            told(commit.revision)


class Teller(Poller):
    """A poller that prints what it sees."""

    def saw(self, revision: int) -> None:
        super().saw(revision)
        print(revision, self.seen.pop(revision), flush=True)


def told(revision: int) -> None:
    """Say that a revision was seen now."""
    print(revision, monotonic(), flush=True)


def main(kind: str, place: str, prefix: str, after: str) -> None:
    """Watch until killed."""
    if kind == "port":
        asyncio.run(watch_port(place, prefix, int(after)))
    else:
        Teller(Path(place), prefix, int(after)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
