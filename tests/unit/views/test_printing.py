"""Lines of several nodes: who is asked, how they are put together, and what a caller hears of a node that is silent."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.doors.steer import SteerVerb
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound, RotaError, Unavailable
from rota.model.ids import NodeId
from rota.model.node import NodeStatus, PoolStatus
from rota.runtime.printed import Printed, subject_of, written
from rota.store import Put, Store, open_store
from rota.views import printing
from tests.kit.fleet_records import join

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Nodes:
    """The files of several nodes, asked as `Steer` asks; those that are `silent` do not answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.silent: set[str] = set()

    def put(self, node: str, second: int, text: str, kind: str = "service", id: str = "chat") -> None:
        (self._folder / node).mkdir(exist_ok=True)
        line = written(AT + timedelta(seconds=second), 7, "1", text)
        Printed(self._folder / node).append(subject_of(kind, id), line)

    async def __call__(self, node: NodeId, verb: SteerVerb, /, *, was_passed_on: bool = False, **fields: Any) -> Any:
        assert verb is SteerVerb.PRINTED
        if node in self.silent:
            raise Unavailable(f"node {node} was not reached")
        subject = subject_of(fields["kind"], fields["id"])
        return Printed(self._folder / node).read(subject, fields["after"], fields["tail"])


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """The store of a fleet with a service on two of three nodes."""
    async with open_store("memory://") as store:
        for name in ("n1", "n2", "n3"):
            await join(store, name, kinds=("room",))
            pools = ["service:chat:1"] if name != "n3" else ["host"]
            await store.commit(Put(keys.status(NodeId(name)), codec.encode(status(*pools))))
        yield store


def status(*pools: str) -> NodeStatus:
    return NodeStatus(
        app="app.py",
        generation=1,
        previous=None,
        reloading=None,
        pools=[PoolStatus(name=pool, role="service", want=1, ready=1, starting=0, draining=0) for pool in pools],
        tasks_ordered=0,
        tasks_running=0,
    )


def texts(page: printing.PrintedPage) -> list[tuple[str, str]]:
    return [(line.node, line.text) for line in page.lines]


async def test_lines_of_all_nodes_that_have_a_service_come_by_their_times(store: Store, nodes: Nodes) -> None:
    for node, second, text in (("n1", 1, "a"), ("n2", 2, "b"), ("n1", 3, "c"), ("n3", 2, "of another")):
        nodes.put(node, second, text)
    page = await printing.read_printed(store, nodes, "service", "chat")
    assert texts(page) == [("n1", "a"), ("n2", "b"), ("n1", "c")]
    nodes.put("n2", 4, "d")
    page = await printing.read_printed(store, nodes, "service", "chat", after=page.next)
    assert texts(page) == [("n2", "d")]
    page = await printing.read_printed(store, nodes, "service", "chat", tail=1)
    assert texts(page) == [("n1", "c"), ("n2", "d")]
    page = await printing.read_printed(store, nodes, "service", "chat", nodes=["n3"])
    assert texts(page) == [("n3", "of another")]


async def test_a_silent_node_is_named_and_a_follower_hears_it_later(
    store: Store, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "POLL", 0.001)
    nodes.put("n1", 1, "a")
    nodes.put("n2", 2, "b")
    nodes.silent.add("n2")
    async with aclosing(printing.follow_printed(store, nodes, "service", "chat")) as pages:
        page = await anext(pages)
        assert texts(page) == [("n1", "a")]
        assert page.unreached == {"n2": "node n2 was not reached"}
        nodes.silent.clear()
        assert texts(await anext(pages)) == [("n2", "b")]
    nodes.silent.add("n1")
    with pytest.raises(Unavailable, match="n1 was not reached"):
        await printing.read_printed(store, nodes, "service", "chat", nodes=["n1"])


@pytest.mark.parametrize(
    ("kind", "id", "named", "error", "words"),
    [
        ("service", "nosuch", (), NotFound, "there are: chat"),
        ("room", "1", (), NotFound, "room/1"),
        ("stream", "nosuch", (), NotFound, "nosuch"),
        ("worker", "n9", (), NotFound, "n9"),
        ("service", "chat", ("n9",), NotFound, "n9"),
    ],
)
async def test_what_there_is_not_is_said(
    store: Store, nodes: Nodes, kind: str, id: str, named: tuple[str, ...], error: type[RotaError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await printing.read_printed(store, nodes, kind, id, nodes=named)


async def test_nobody_asks_for_more_than_there_may_be(
    store: Store, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tail in (0, printing.TAIL + 1):
        with pytest.raises(Invalid, match="it must be from 1 to 1000"):
            await printing.read_printed(store, nodes, "service", "chat", tail=tail)
    nodes.put("n1", 1, "a")
    for place in ("n1", "n1=x", "=2"):
        with pytest.raises(Invalid, match="it must be the next of an earlier answer"):
            await printing.read_printed(store, nodes, "service", "chat", after=place)
    monkeypatch.setattr(printing, "MOST_NODES", 1)
    with pytest.raises(Invalid, match="on 2 nodes, and at most 1 are asked"):
        await printing.read_printed(store, nodes, "service", "chat")
