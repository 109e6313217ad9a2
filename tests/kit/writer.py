"""Commit one thing after the other: `python -m tests.kit.writer URL PREFIX TIMES`.

Commit number n creates PREFIXn/a and PREFIXn/b and deletes the b of the one before. Each is printed, as number and
revision, only once the store has acknowledged it, so that a reader knows what a killed writer had been promised.
"""

import asyncio
import sys
from collections.abc import Iterator

import click

from rota.model.ids import Key
from rota.store import Absent, Delete, Put, open_store
from rota.store.port import Write


def writes(prefix: Key, number: int) -> Iterator[Write]:
    """What commit `number` writes."""
    yield Put(f"{prefix}{number:05}/a", b"%d" % number)
    yield Put(f"{prefix}{number:05}/b", b"%d" % number)
    if number:
        yield Delete(f"{prefix}{number - 1:05}/b")


def changes(prefix: Key, number: int) -> dict[Key, bytes | None]:
    """What a watcher should see of commit `number`."""
    return {write.key: write.value if isinstance(write, Put) else None for write in writes(prefix, number)}


async def main(url: str, prefix: Key, times: str) -> None:
    """Open the store and write."""
    async with open_store(url) as store:
        for number in range(int(times)):
            revision = await store.commit(*writes(prefix, number), expect=[Absent(f"{prefix}{number:05}/a")])
            click.echo(f"{number} {revision}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
