"""The bare drivers that benches measure beside stores on servers: what they write is what a store reads.

Nothing else notices when a store's tables or SQL change, and a bench that breaks tells nobody until somebody measures.
"""

import pytest

from benchmarks.bare_mysql import BareMysql
from benchmarks.bare_postgres import BarePostgres
from benchmarks.clients import bare_sql
from rota.store import Store
from tests.kit.harness import MysqlHarness, PostgresHarness, SqlHarness, params

KEYS = ["/bare/a", "/bare/b"]


@pytest.mark.parametrize("harness", params([PostgresHarness, MysqlHarness]), indirect=True)
async def test_what_a_bare_driver_writes_to_a_server_is_what_the_store_reads(harness: SqlHarness, store: Store) -> None:
    kind = BarePostgres if isinstance(harness, PostgresHarness) else BareMysql
    async with bare_sql(kind, harness.url()) as bare:
        first = await bare.put_all(KEYS, b"one")
        second = await bare.put_if(KEYS[0], b"two", first)
        with pytest.raises(LookupError):
            await bare.put_if(KEYS[0], b"three", first)
    assert second > first
    found = {entry.key: (entry.value, entry.created, entry.modified) for entry in (await store.scan("/bare/")).entries}
    assert found == {KEYS[0]: (b"two", first, second), KEYS[1]: (b"one", first, first)}
