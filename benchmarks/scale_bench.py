"""What a hundred times as many keys cost: a get, a scan of 1,000 keys and a commit at 1,000,000 keys beside 10,000.

Keys have values of 100 bytes and lie in groups of 1,000, which is what a scan reads. They were written in no order, a
hundred to a commit, so that neighbours lie far apart in the log. SQL stores are filled in bulk behind the port's back
and then brought to the state they would be in some minutes later: statistics taken, pages written out. etcd is filled
through the port.

MariaDB gets a buffer pool that holds the tables, as any server would: the tests' own is kept small.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from time import perf_counter
from typing import Any

from benchmarks import clients, measure
from benchmarks.bare_mysql import BareMysql
from benchmarks.bare_postgres import BarePostgres
from benchmarks.clients import Place
from benchmarks.measure import Goal, Row, Samples, Side, Turn
from rota.store import Put, Store, open_store
from rota.store.sql.dialect import MYSQL, SQLITE
from tests.kit.harness import SqliteHarness, StoreHarness

GOAL = Goal(at=2.0, short=3.0)
SMALL, LARGE = 10_000, 1_000_000
GROUP, TOGETHER = 1_000, 100
"""Keys in a group, and in a commit."""
VALUE = b"v" * 100
TURNS = 6
CROWD = 16
"""Commits at once while etcd is filled."""
BUFFER_POOL = 1 << 30
AT_ONCE = 10_000
"""Rows handed to MariaDB's driver together."""
PATIENCE, FEW_PAGES = 300, 50
"""Looks, 100 ms apart, whether MariaDB has written nearly all of its pages."""


def key_of(number: int) -> str:
    """The key of that number; numbers and keys sort alike."""
    return f"{group_of(number)}task-{number % GROUP:03}"


def group_of(number: int) -> str:
    """The prefix of all keys of its group."""
    return f"/bulk/group-{number // GROUP:04}/"


@dataclass(frozen=True)
class Content:
    """What a store of so many keys holds."""

    count: int

    def commits(self) -> Iterator[list[str]]:
        """The keys of each commit, the first of which has revision 1."""
        order = Random(0).sample(range(self.count), self.count)
        for start in range(0, self.count, TOGETHER):
            yield [key_of(number) for number in order[start : start + TOGETHER]]

    def log(self) -> Iterator[tuple[int, str, bytes, int, None]]:
        """The rows of `rota_log`."""
        for revision, keys in enumerate(self.commits(), 1):
            for key in keys:
                yield revision, key, VALUE, revision, None

    def live(self) -> list[tuple[str, bytes, int, int, None]]:
        """The rows of `rota_live`."""
        return sorted((key, VALUE, revision, revision, None) for revision, key, *_ in self.log())

    @property
    def newest(self) -> int:
        """The revision of the last commit."""
        return self.count // TOGETHER


async def fill_sqlite(store: StoreHarness, content: Content) -> None:
    """In one transaction."""
    assert isinstance(store, SqliteHarness)
    connection = sqlite3.connect(store.path(), isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    connection.executemany(SQLITE.queries["append"], content.log())
    connection.executemany(SQLITE.queries["place"], content.live())
    connection.execute(SQLITE.queries["set_counter"], (content.newest,))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def fill_postgresql(store: StoreHarness, content: Content) -> None:
    """By COPY."""
    async with clients.bare_sql(BarePostgres, store.url()) as bare:
        copy, execute = bare.connection.copy_records_to_table, bare.connection.execute
        await execute("SET statement_timeout = 0")  # the store's own is short
        await copy("rota_log", records=content.log(), columns=("revision", "key", "value", "created", "lease"))
        await copy("rota_live", records=content.live(), columns=("key", "value", "created", "modified", "lease"))
        await execute(f"UPDATE rota_counter SET revision = {content.newest}")
        await execute("VACUUM ANALYZE")
        await execute("CHECKPOINT")


async def fill_mysql(store: StoreHarness, content: Content) -> None:
    """By insertions of many rows."""
    async with clients.bare_sql(BareMysql, store.url()) as bare:
        cursor = bare.cursor
        await cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {BUFFER_POOL}")
        await cursor.execute("SET unique_checks = 0")
        log, live = list(content.log()), content.live()
        for start in range(0, content.count, AT_ONCE):
            await cursor.execute("START TRANSACTION")
            await cursor.executemany(MYSQL.queries["append"], log[start : start + AT_ONCE])
            await cursor.executemany(MYSQL.queries["place"], live[start : start + AT_ONCE])
            await cursor.execute("COMMIT")
        await cursor.execute(MYSQL.queries["set_counter"], (content.newest,))
        await cursor.execute("ANALYZE TABLE rota_log, rota_live")
        await cursor.fetchall()
        await _written_out(cursor)


async def _written_out(cursor: Any) -> None:
    """Wait until no page is left to write: writing a million keys out would slow down whatever is measured next."""
    await cursor.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
    for _ in range(PATIENCE):
        await cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
        ((_, dirty),) = await cursor.fetchall()
        if int(dirty) < FEW_PAGES:
            break
        await asyncio.sleep(0.1)
    await cursor.execute("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT")


async def fill_etcd(store: StoreHarness, content: Content) -> None:
    """Through the port, many at once."""
    commits = content.commits()

    async def some(port: Store) -> None:
        for keys in commits:
            await port.commit(*[Put(key, VALUE) for key in keys])

    async with open_store(store.url()) as port:
        await asyncio.gather(*(some(port) for _ in range(CROWD)))


FILLS = {"sqlite": fill_sqlite, "etcd": fill_etcd, "postgresql": fill_postgresql, "mysql": fill_mysql}
"""The stores that are for so many keys, and how each is filled."""

Operation = Callable[[Store, int], Awaitable[None]]
"""Something done to the key of a number."""


async def get(store: Store, number: int) -> None:
    """Get the key."""
    assert await store.get(key_of(number)) is not None


async def scan(store: Store, number: int) -> None:
    """Scan the key's group."""
    assert len((await store.scan(group_of(number))).entries) == GROUP


async def commit(store: Store, number: int) -> None:
    """Put the key."""
    await store.commit(Put(key_of(number), VALUE))


OPERATIONS: dict[str, tuple[Operation, int]] = {
    "get": (get, 100),
    f"scan of {GROUP:,}": (scan, 5),
    "commit of 1 put": (commit, 50),
}
"""What is timed, and how often in a turn."""


def side(url: str, content: Content, operation: Operation, count: int) -> Side:
    """An operation on random keys of a full store."""
    chance = Random(1)

    @asynccontextmanager
    async def enter() -> AsyncIterator[Turn]:
        async with open_store(url) as store:
            yield partial(turn, store)

    async def turn(store: Store) -> Samples:
        samples = []
        for _ in range(count):
            number = chance.randrange(content.count)
            before = perf_counter()
            await operation(store, number)
            samples.append(perf_counter() - before)
        return samples

    return enter


async def rows(store: str, place: Place, rounds: int) -> list[Row]:
    """Every operation on one store."""
    urls = {count: await full(store, place, Content(count)) for count in (SMALL, LARGE)}
    return [
        await _row(f"{store}: {name} at {LARGE:,} keys", urls, operation, count, rounds)
        for name, (operation, count) in OPERATIONS.items()
    ]


async def full(store: str, place: Place, content: Content) -> str:
    """The URL of a store that has been filled."""
    fresh = place.fresh()
    url = fresh.url()
    async with open_store(url):
        pass  # makes the tables
    await FILLS[store](fresh, content)
    return url


async def _row(name: str, urls: dict[int, str], operation: Operation, count: int, rounds: int) -> Row:
    sides = {f"at {size:,} keys": side(url, Content(size), operation, count) for size, url in urls.items()}
    played = await measure.play(sides, rounds, TURNS)
    small, large = sides
    before, after = ([measure.milliseconds(samples[label]) for samples in played] for label in (small, large))
    return measure.compare(name, "ms", small, before, after, GOAL)
