"""A store that went back in time: a lagging copy was promoted, or a backup restored under a running fleet."""

import sqlite3
from pathlib import Path

import pytest

from rota.model.errors import Rewound
from rota.store import Put, Store, open_store
from tests.kit.waiting import Recorder


def rewind(path: Path, revision: int) -> None:
    """Take the file back to how it was at `revision`, as a copy that lags behind would be."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM rota_live WHERE modified > ?", (revision,))
        connection.execute("DELETE FROM rota_log WHERE revision > ?", (revision,))
        connection.execute("UPDATE rota_counter SET revision = ?", (revision,))
    connection.close()


async def fill(store: Store, count: int) -> None:
    for number in range(count):
        await store.commit(Put(f"/k/{number}", b""))


async def test_a_process_that_has_seen_more_writes_no_more(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with open_store(url) as store:
        await fill(store, 10)
        rewind(tmp_path / "x.db", 5)
        with pytest.raises(Rewound, match="at revision 5, but this process has seen 10"):
            await store.commit(Put("/k", b"late"))
        async with open_store(url) as fresh:
            await fill(fresh, 20)
            with pytest.raises(Rewound):  # although the numbers look all right again
                await store.commit(Put("/k", b"late"))
            assert await fresh.get("/k") is None


async def test_a_watch_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with open_store(url) as store:
        await fill(store, 10)
        async with Recorder(store, "/", await store.revision()) as watched:
            rewind(tmp_path / "x.db", 5)
            with pytest.raises(Rewound):
                await watched.until(lambda: False, within=30)
