"""Print what a watch yields: `python -m tests.kit.watcher URL PREFIX AFTER`.

A line per commit: its revision, and its changes as an object of keys and values, null for what went away.
"""

import asyncio
import json
import sys
from contextlib import aclosing

import click

from rota.model.ids import Key, Revision
from rota.store import open_store


async def main(url: str, prefix: Key, after: str) -> None:
    """Open the store and watch."""
    async with open_store(url) as store, aclosing(store.watch(prefix, Revision(int(after)))) as commits:
        async for commit in commits:
            seen = {change.key: change.entry.value.decode() if change.entry else None for change in commit.changes}
            click.echo(json.dumps([commit.revision, seen]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
