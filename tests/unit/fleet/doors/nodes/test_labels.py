"""Labels of a node that an operator sets: over those of its settings, kept, and seen by whoever places work."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.fleet.doors.nodes import operations as node_operations
from rota.fleet.doors.nodes.labels import MOST, label_node
from rota.model import keys
from rota.model.errors import Conflict, Invalid, NotFound
from rota.model.ids import NodeId
from rota.placement.fleet.view import read_fleet
from rota.store import Delete, Store, open_store
from rota.store.around import StoreAround
from rota.views import fleet_status
from tests.kit.fleet_records import CLOCK, join


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await join(store, "n1", kinds=("room",))  # its settings say zone=a
        yield store


async def counted(store: Store) -> dict[str, str]:
    """The labels of n1 as every reader sees them."""
    (node,) = (await node_operations.list_nodes(store)).nodes
    placed = dict((await read_fleet(store)).labels(NodeId("n1")))
    [status] = (await fleet_status.fleet_status(store))["nodes"]
    assert node.labels == placed == status["labels"]
    assert node.configured_labels == {"zone": "a"}
    return node.labels


async def test_what_an_operator_sets_wins_over_the_settings_label_by_label(store: Store) -> None:
    done = await label_node(store, CLOCK, "n1", {"zone": "b", "gpu": "yes"})
    assert done.labels == await counted(store) == {"zone": "b", "gpu": "yes"}
    await label_node(store, CLOCK, "n1", {"zone": None})
    assert await counted(store) == {"gpu": "yes"}, "a label of the settings is taken away too"
    await label_node(store, CLOCK, "n1", {"gpu": None, "disk": "ssd"})
    assert await counted(store) == {"disk": "ssd"}
    done = await label_node(store, CLOCK, "n1", {}, reset=True)
    assert (await counted(store), done.labels_set) == ({"zone": "a"}, None)
    assert await store.get(keys.labels(NodeId("n1"))) is None


async def test_labels_outlive_the_node(store: Store) -> None:
    await label_node(store, CLOCK, "n1", {"gpu": "yes"})
    await store.commit(Delete(keys.node(NodeId("n1"))))
    await label_node(store, CLOCK, "n1", {"disk": "ssd"})
    await join(store, "n1")
    assert await counted(store) == {"zone": "a", "gpu": "yes", "disk": "ssd"}


async def test_two_who_label_a_node_at_once_both_count(store: Store) -> None:
    class Racing(StoreAround):
        """Somebody else labels the node between the reading and the writing."""

        times = 1

        async def commit(self, *writes: Any, expect: Any = ()) -> Any:
            if self.times:
                self.times -= 1
                await label_node(store, CLOCK, "n1", {f"other{self.times}": "1"})
            return await self._store.commit(*writes, expect=expect)

    await label_node(Racing(store), CLOCK, "n1", {"mine": "1"})
    assert await counted(store) == {"zone": "a", "mine": "1", "other0": "1"}
    always = Racing(store)
    always.times = 99
    with pytest.raises(Conflict, match="being changed all the time"):
        await label_node(always, CLOCK, "n1", {"mine": "2"})


async def test_what_changes_nothing_writes_nothing(store: Store) -> None:
    first = await label_node(store, CLOCK, "n1", {"gpu": "yes", "none": None})
    assert first.labels_set is not None
    assert first.labels_set.labels == {"gpu": "yes"}, "a label that the node does not have is not kept as taken away"
    at = await store.get(keys.labels(NodeId("n1")))
    assert (await label_node(store, CLOCK, "n1", {"gpu": "yes"})).labels_set == first.labels_set
    assert await store.get(keys.labels(NodeId("n1"))) == at


@pytest.mark.parametrize(
    ("labels", "reset", "says"),
    [
        ({}, False, "nothing is to change"),
        ([], True, r"labels is \[\]; it must be an object"),
        ({"gpu": 1}, False, "label gpu is 1; it must be a text, or null"),
        ({"a b": "1"}, False, '"a b" cannot be a label'),
        ({"a": "\n"}, False, "the value of a must be printable"),
        ({"a": "1"}, "yes", "reset is 'yes'; it must be true or false"),
        ({f"l{number}": "1" for number in range(MOST + 1)}, False, f"at most {MOST} can be"),
    ],
)
async def test_labels_that_cannot_be_are_refused(store: Store, labels: object, reset: object, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        await label_node(store, CLOCK, "n1", labels, reset=reset)
    assert await store.get(keys.labels(NodeId("n1"))) is None


async def test_labels_are_those_of_a_node_that_is_known(store: Store) -> None:
    with pytest.raises(NotFound, match='there is no node "n9"; there are n1'):
        await label_node(store, CLOCK, "n9", {"a": "1"})
