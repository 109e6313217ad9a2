"""Keep a lease, and write all the time: `python -m tests.kit.lease_writer URL TTL`.

Prints `wrote SECONDS` after each commit: how long it took, with all its retries. Prints `lost` and ends when the lease
has ended.
"""

import asyncio
import sys
from time import monotonic

import click

from rota.kit.time import durations
from rota.kit.time.clock import SYSTEM
from rota.model.errors import LeaseLost, Unavailable, Unknown
from rota.store import Put, Store, open_store
from rota.store.leases.keeper import LeaseKeeper
from tests.kit.waiting import eventually

PAUSE = 0.05
"""Seconds between two commits."""


async def main(url: str, ttl: str) -> None:
    """Open the store, keep a lease and write until the lease is lost."""
    async with open_store(url) as store:
        lease = await store.grant(durations.parse(ttl))
        await store.commit(Put("/lease-writer", b"", lease.id))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(LeaseKeeper(store, lease, SYSTEM).keep())
                tasks.create_task(_write(store))
        except* LeaseLost:
            click.echo("lost")


async def _write(store: Store) -> None:
    while True:
        began = monotonic()
        await eventually(lambda: store.commit(Put("/written", b"")), despite=(Unavailable, Unknown), within=600)
        click.echo(f"wrote {monotonic() - began}")
        await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
