"""The catalogue: beginnings of more partitions than one commit takes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.model.errors import Unavailable
from rota.outputs.catalogue import PublishedCatalogue
from rota.store import Store, open_store

MANY = dict.fromkeys(range(250), 7)


class Failing:
    """A store that takes some commits, and no more."""

    def __init__(self, store: Store, commits: int) -> None:
        self._store, self._left = store, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *writes: Any, **more: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Unavailable("the store is away")
        return await self._store.commit(*writes, **more)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


@pytest.mark.parametrize("commits", [1, 2])
async def test_a_beginning_that_was_cut_short_has_not_begun(store: Store, commits: int) -> None:
    with pytest.raises(Unavailable):
        await PublishedCatalogue(Failing(store, commits), "clicks").begin(MANY)
    assert await PublishedCatalogue(store, "clicks").committed() == {}, "or the rest would seem to have come later"


async def test_a_beginning_that_was_cut_short_is_finished_and_what_has_begun_stays(store: Store) -> None:
    with pytest.raises(Unavailable):
        await PublishedCatalogue(Failing(store, 1), "clicks").begin(MANY)
    catalogue = PublishedCatalogue(store, "clicks")
    found = await catalogue.begin(dict.fromkeys(range(250), 9))
    assert found == {partition: 7 if partition < 100 else 9 for partition in range(250)}
    assert await catalogue.committed() == found


async def test_a_beginning_whose_partitions_are_gone_meanwhile_is_finished_without_them(store: Store) -> None:
    with pytest.raises(Unavailable):
        await PublishedCatalogue(Failing(store, 1), "clicks").begin(MANY)
    catalogue = PublishedCatalogue(store, "clicks")
    fewer = dict.fromkeys(range(120), 7)
    assert await catalogue.begin(fewer) == fewer
    assert await catalogue.committed() == fewer


async def test_partitions_that_come_later_hide_none_that_are_there(store: Store) -> None:
    catalogue = PublishedCatalogue(store, "clicks")
    await catalogue.begin({1000: 5})
    with pytest.raises(Unavailable):
        await PublishedCatalogue(Failing(store, 1), "clicks").begin(MANY)
    assert len(await catalogue.committed()) == 101
