"""Hold a key under a lease for as long as this process lives: `python -m tests.kit.holder URL KEY TTL`.

Prints the lease's deadline after each renewal: an instant of the machine's monotonic clock, which all its processes
share.
"""

import asyncio
import sys

import click

from rota.kit.time import durations
from rota.model.ids import Key
from rota.store import Put, open_store


async def main(url: str, key: Key, ttl: str) -> None:
    """Open the store and hold the key."""
    async with open_store(url) as store:
        lease = await store.grant(durations.parse(ttl))
        await store.commit(Put(key, b"held", lease.id))
        click.echo(lease.deadline)
        while True:
            await asyncio.sleep(lease.ttl.total_seconds() / 8)
            click.echo(await store.renew(lease))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
