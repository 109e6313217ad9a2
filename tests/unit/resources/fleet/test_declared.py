"""The leader keeps what its settings declare, on the memory store in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rota.fleet.leading.term import Term
from rota.model.errors import Invalid
from rota.resources.core.records import WantedResource
from rota.resources.doors import operations as resource_operations
from rota.resources.fleet.declared import Declarations, keep_declared
from rota.store import Store
from tests.kit.elections import play
from tests.kit.fleet_records import SPEC, declare
from tests.kit.virtual_trials import CLOCK

Nodes = Callable[..., "asyncio.Task[None]"]


class File:
    """What the settings say; the test writes it."""

    def __init__(self, *ids: str, **fields: Any) -> None:
        self.wanted: Sequence[WantedResource] | None = None
        self.error = ""
        self.told: list[tuple[str, str, str]] = []
        if ids:
            self.says(*ids, **fields)
        self.declared = Declarations(self.read)

    def says(self, *ids: str, **fields: Any) -> None:
        self.wanted = [WantedResource(kind="room", id=id, **fields) for id in ids]

    def read(self) -> Sequence[WantedResource] | None:
        if self.error:
            raise Invalid(self.error)
        return self.wanted

    def tell(self, kind: str, subject: str, **fields: Any) -> None:
        self.told.append((kind, subject, fields["why"]))

    def reload(self) -> None:
        self.declared.read_again(self.tell)

    async def lead(self, term: Term) -> None:
        await keep_declared(term, self.declared, CLOCK, self.tell)


@asynccontextmanager
async def led(node: Nodes, file: File) -> AsyncIterator[None]:
    """A node with this file leads."""
    leading = node("a", file.lead)
    try:
        yield
    finally:
        leading.cancel()
        await asyncio.wait([leading])


async def ids(store: Store) -> dict[str, str]:
    page = await resource_operations.list_resources(store)
    return {view.id: view.origin for view in page.resources}


def test_what_is_declared_is_there_comes_back_and_goes_with_the_file() -> None:
    file = File("1", "2", priority=3)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store, "room")
        async with led(node, file):
            await asyncio.sleep(1)
            assert await ids(store) == {"1": "config", "2": "config"}
            await resource_operations.delete_resource(store, "room", "1")
            await resource_operations.update_resource(store, "room", "2", {"priority": 9})
            await asyncio.sleep(1)
            assert await ids(store) == {"1": "config", "2": "config"}
            assert (await resource_operations.get_resource(store, "room", "2")).priority == 3
            file.says("2", "3")
            file.reload()
            await asyncio.sleep(1)
            assert await ids(store) == {"2": "config", "3": "config"}
            file.error = "rota.toml:3: no"
            file.reload()
            await asyncio.sleep(1)
            assert await ids(store) == {"2": "config", "3": "config"}
            assert file.told == [("config.failed", "resources", "rota.toml:3: no")]

    play(story)


def test_what_others_added_stays_as_it_is_and_is_told_once() -> None:
    file = File("1")

    async def story(store: Store, node: Nodes) -> None:
        await declare(store, "room")
        await resource_operations.create_resource(store, CLOCK, {"kind": "room", "id": "1", "priority": 5})
        async with led(node, file):
            await asyncio.sleep(1)
            await declare(store, "other")
            await asyncio.sleep(1)
            assert await ids(store) == {"1": "api"}
            ((kind, name, why),) = file.told
            assert (kind, name) == ("config.failed", "room/1")
            assert "was not added by a file" in why

    play(story)


def test_what_its_kind_does_not_take_is_told_and_the_others_are_written() -> None:
    file = File()
    file.wanted = [WantedResource(kind="room", id="1"), WantedResource(kind="room", id="2", spec={"lang": "en"})]
    file.reload()

    async def story(store: Store, node: Nodes) -> None:
        await declare(store, "room", schema=SPEC)
        async with led(node, file):
            await asyncio.sleep(1)
            assert await ids(store) == {"2": "config"}
            assert [(name, "lang" in why) for _, name, why in file.told] == [("room/1", True)]

    play(story)


def test_a_leader_without_a_file_leaves_them_alone() -> None:
    first, second = File("1"), File()

    async def story(store: Store, node: Nodes) -> None:
        for file in (first, second):
            async with led(node, file):
                await asyncio.sleep(1)
                assert await ids(store) == {"1": "config"}
        second.says("2")
        second.reload()
        async with led(node, second):
            await asyncio.sleep(1)
            assert await ids(store) == {"2": "config"}

    play(story)
