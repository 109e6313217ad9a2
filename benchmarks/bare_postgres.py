"""PostgreSQL without Rota: the same tables and the same SQL, sent straight through `asyncpg` as one would by hand.

How to connect is the store's own business and taken from there; only what happens on the connection is measured.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any, Self

import asyncpg

from rota.store.sql.dialect import POSTGRESQL
from rota.store.sql.postgres import connect_arguments
from rota.store.sql.transactions import PAGE, prefix_range
from rota.store.url import Options, parse

_SQL = POSTGRESQL.queries


class BarePostgres:
    """A connection that writes and watches as the store does."""

    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self._schema = schema

    @classmethod
    async def connect(cls, url: str) -> Self:
        """A connection to the store at a URL, whose tables exist."""
        target = parse(url)
        options = Options(target)
        schema = options.text("schema") or "public"
        arguments = connect_arguments(target, options, options.timeout(), schema, "bare")
        return cls(await asyncpg.connect(**arguments), schema)

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        """Put one key if it was last written at `modified`; the new revision."""
        execute, fetch = self.connection.execute, self.connection.fetch
        await execute("BEGIN")
        ((revision,),) = await fetch(_SQL["bump"], 1)
        ((_, created, found),) = await fetch(_SQL["state_of"], POSTGRESQL.keys_parameter([key]))
        if found != modified:
            await execute("ROLLBACK")
            raise LookupError(key)
        await execute(_SQL["append"], *_columns([(revision, key, value, created, None)]))
        await execute(_SQL["place"], *_columns([(key, value, created, revision, None)]))
        await execute("COMMIT")
        return int(revision)

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        """Put all of the keys; the new revision."""
        execute, fetch = self.connection.execute, self.connection.fetch
        await execute("BEGIN")
        ((revision,),) = await fetch(_SQL["bump"], 1)
        rows = await fetch(_SQL["state_of"], POSTGRESQL.keys_parameter(keys))
        made = {key: created for key, created, _ in rows}
        born = [made.get(key, revision) for key in keys]
        appended = [(revision, key, value, created, None) for key, created in zip(keys, born, strict=True)]
        placed = [(key, value, created, revision, None) for key, created in zip(keys, born, strict=True)]
        await execute(_SQL["append"], *_columns(appended))
        await execute(_SQL["place"], *_columns(placed))
        await execute("COMMIT")
        return int(revision)

    async def watch(self, prefix: str, after: int, seen: dict[int, float]) -> None:
        """Note in `seen` when each revision past `after` came, for ever: LISTEN, and a look when notified."""
        low, high = prefix_range(prefix)
        told = asyncio.Event()
        await self.connection.add_listener(f"rota_{self._schema}", lambda *_: told.set())
        while True:
            told.clear()
            for _, _, revision, *_ in await self.connection.fetch(_SQL["tail"], after, low, high, PAGE):
                if revision is not None:  # the counter stands there alone when there is nothing new
                    seen[revision] = monotonic()
                    after = revision
            await told.wait()

    async def close(self) -> None:
        """Drop the connection."""
        self.connection.terminate()


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as the store's SQL takes them: an array for each column."""
    return [list(column) for column in zip(*rows, strict=True)]
