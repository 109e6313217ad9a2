"""A stream of commits, and what may be found of them after faults."""

import asyncio

from rota.model.errors import RotaError, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.store import Absent, Commit, Put, Store
from tests.kit.waiting import eventually


class Stream:
    """Commits one after the other, and remembers what the store said to each."""

    def __init__(self, store: Store, prefix: Key) -> None:
        self.said: dict[Key, Revision | RotaError] = {}
        self._store, self.prefix = store, prefix

    @property
    def acknowledged(self) -> dict[Key, Revision]:
        """The commits the store promised."""
        return {key: said for key, said in self.said.items() if not isinstance(said, RotaError)}

    @property
    def last(self) -> Revision:
        """The revision of the newest acknowledged commit."""
        return max(self.acknowledged.values())

    async def run(self, stop: asyncio.Event) -> None:
        """Commit until told to stop."""
        while not stop.is_set():
            await self.commit()

    async def grown(self, more: int) -> None:
        """Wait until `more` commits have been acknowledged."""
        enough = len(self.acknowledged) + more
        await eventually(lambda: len(self.acknowledged) >= enough, within=60)

    async def get_through(self) -> None:
        """Commit until one is acknowledged."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.run(stop))
            await self.grown(1)
            stop.set()

    async def commit(self) -> None:
        """Commit once."""
        key = f"{self.prefix}{len(self.said):06}"
        try:
            self.said[key] = await self._store.commit(Put(key, b""), expect=[Absent(key)])
        except (Unavailable, Unknown) as error:
            self.said[key] = error
            await asyncio.sleep(0.01)

    def check(self, commits: list[Commit]) -> None:
        """AssertionError unless a watch saw the acknowledged once and in order, and nothing that did not happen."""
        seen = {commit.changes[0].key: commit.revision for commit in commits}
        revisions = [commit.revision for commit in commits]
        assert revisions == sorted(set(revisions))
        assert len(seen) == len(commits)
        assert self.acknowledged.items() <= seen.items()
        for key in seen.keys() - self.acknowledged.keys():
            assert isinstance(self.said[key], Unknown), f"{key} happened, but the store said {self.said[key]!r}"
