"""MySQL and MariaDB without Rota: the same tables and the same SQL, sent straight through `asyncmy`.

How to connect is the store's own business and taken from there; only what happens on the connection is measured.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any, Self

import asyncmy

from rota.store.sql.dialect import MYSQL
from rota.store.sql.mysql import connect_arguments
from rota.store.sql.transactions import PAGE, prefix_range
from rota.store.url import Options, parse

POLL = 0.01
"""Seconds between two looks of the bare watcher."""

_SQL = MYSQL.queries


class BareMysql:
    """A connection that writes as the store does, and watches by polling."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.cursor = connection.cursor()

    @classmethod
    async def connect(cls, url: str) -> Self:
        """A connection to the store at a URL, whose tables exist."""
        target = parse(url)
        options = Options(target)
        return cls(await asyncmy.connect(**connect_arguments(target, options, options.timeout())))

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        """Put one key if it was last written at `modified`; the new revision."""
        execute = self.cursor.execute
        await execute("START TRANSACTION")
        await execute(_SQL["bump"], (1,))
        revision = int(self.cursor.lastrowid)
        await execute(_SQL["state_of"], (MYSQL.keys_parameter([key]),))
        ((_, created, found),) = await self.cursor.fetchall()
        if found != modified:
            await execute("ROLLBACK")
            raise LookupError(key)
        await execute(_SQL["append"], (revision, key, value, created, None))
        await execute(_SQL["place"], (key, value, created, revision, None))
        await execute("COMMIT")
        return revision

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        """Put all of the keys; the new revision."""
        execute, executemany = self.cursor.execute, self.cursor.executemany
        await execute("START TRANSACTION")
        await execute(_SQL["bump"], (1,))
        revision = int(self.cursor.lastrowid)
        await execute(_SQL["state_of"], (MYSQL.keys_parameter(keys),))
        made = {key.decode(): created for key, created, _ in await self.cursor.fetchall()}
        await executemany(_SQL["append"], [(revision, key, value, made.get(key, revision), None) for key in keys])
        await executemany(_SQL["place"], [(key, value, made.get(key, revision), revision, None) for key in keys])
        await execute("COMMIT")
        return revision

    async def watch(self, prefix: str, after: int, seen: dict[int, float]) -> None:
        """Note in `seen` when each revision past `after` came, for ever: there is nothing but looking again."""
        low, high = prefix_range(prefix)
        while True:
            await self.cursor.execute(_SQL["tail"], (after, low, high, PAGE))
            for _, _, revision, *_ in await self.cursor.fetchall():
                if revision is not None:  # the counter stands there alone when there is nothing new
                    seen[revision] = monotonic()
                    after = revision
            await asyncio.sleep(POLL)

    async def close(self) -> None:
        """Drop the connection."""
        self.connection.close()
