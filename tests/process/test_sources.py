"""Sources on real processes: what they list is applied, and what cannot be meant is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rota.model import codec, keys
from rota.resources.core.records import Listing, Query, ResourceRecord
from rota.store import Put, Store, open_store
from tests.kit.cli import Answer, rota
from tests.kit.fleet import resource, stop_all
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually

APP = """
import asyncio, os, time
import rota

app = rota.App("rooms")
LIST = os.path.join(os.path.dirname(os.path.dirname(__file__)), "list")


@app.resource(start_within="1h")
async def room(task: rota.Task) -> None:
    await asyncio.Event().wait()


@room.source(every="1h", timeout="TIMEOUT")
async def rooms():
    for line in open(LIST).read().splitlines():
        if line == "raise":
            raise LookupError("no such table")
        elif line == "hang":
            open(LIST + ".hangs", "w").close()
            while True:
                time.sleep(60)
        elif line == "exit":
            os._exit(3)
        elif line == "garbage":
            yield {"id": "1"}
        elif line == "stranger":
            yield other("1")
        elif line == "twice":
            yield room("1", priority=1)
            yield room("1", priority=2)
        elif line == "endless":
            while True:
                yield room("1", text="x" * 8000)
        else:
            id, _, priority = line.partition(" ")
            yield room(id, priority=int(priority or 0))


@app.resource(start_within="1h")
async def other(task: rota.Task) -> None:
    await asyncio.Event().wait()
"""


class Rooms:
    """A fleet whose source reads a file that the test writes."""

    def __init__(self, folder: Path, store: Store, nodes: dict[str, NodeUnderTest]) -> None:
        self.folder, self.store, self.nodes = folder, store, nodes

    def list(self, *lines: object) -> None:
        """What the source will say."""
        (self.folder / "list.new").write_text("\n".join(map(str, lines)))
        (self.folder / "list.new").rename(self.folder / "list")

    def rota(self, *arguments: object) -> Answer:
        return rota(*arguments, "--store", f"sqlite:///{self.folder}/rota.db", cwd=self.folder, within=60)

    def sync(self, *flags: object) -> Answer:
        return self.rota("resources", "sync", "room", *flags)

    async def records(self) -> dict[str, ResourceRecord]:
        entries = (await self.store.scan(keys.resources("room"))).entries
        records = [codec.decode(ResourceRecord, entry.value) for entry in entries]
        return {record.id: record for record in records}

    async def listing(self) -> Listing | None:
        entry = await self.store.get(keys.listing("room"))
        return codec.decode(Listing, entry.value) if entry else None

    async def tells(self, kind: str, what: str) -> None:
        """Return once `rota events` says so of a kind."""
        await eventually(lambda: what in self.rota("events", "--kind", kind).out, within=30)


@asynccontextmanager
async def rooms(
    folder: Path, *lines: object, names: str = "a", ttl: str = "20s", timeout: str = "1m"
) -> AsyncIterator[Rooms]:
    """Nodes that have asked their source once."""
    url, app = f"sqlite:///{folder}/rota.db", APP.replace("TIMEOUT", timeout)
    flags = "--role", "both", "--lease-ttl", ttl, "--drain", "2s", "--executors", "2", "--slots", "1000"
    nodes = {name: NodeUnderTest(folder / name, *flags, name=name, app=app, store=url) for name in names}
    async with open_store(url) as store:
        found = Rooms(folder, store, nodes)
        found.list(*lines)
        try:
            for node in nodes.values():
                node.__enter__()
            for node in nodes.values():
                await node.ready()
            await eventually(found.listing, within=30)
            yield found
        finally:
            stop_all(nodes.values())
            for node in nodes.values():
                node.__exit__(None, None, None)
    for node in nodes.values():
        await eventually(lambda node=node: not node.leftovers())


async def test_a_list_is_applied_and_what_stays_is_who_it_was(tmp_path: Path) -> None:
    async with rooms(tmp_path, *range(250)) as found:
        before = await found.records()
        assert before.keys() == {str(number) for number in range(250)}
        assert {record.origin for record in before.values()} == {"source"}
        await found.nodes["a"].until(lambda status: status["work"]["tasks_running"] == 250)
        found.list(*range(10, 240), "239 5", "new")
        answer = found.sync()
        assert answer.code == 1, "one resource was listed in two ways"
        assert "twice" in answer.err
        found.list(*range(10, 239), "239 5", "new")
        answer = found.sync()
        assert answer.out == "room: 231 listed; 1 added, 1 changed, 20 removed\n", answer.err
        after = await found.records()
        assert after.keys() == {*(str(number) for number in range(10, 240)), "new"}
        assert after["239"].priority == 5
        for id in after.keys() & before.keys():
            assert (after[id].uid, after[id].created) == (before[id].uid, before[id].created)
        await found.nodes["a"].until(lambda status: status["work"]["tasks_running"] == 231)
        await found.tells("source.applied", "the list of room changed, and is applied")


async def test_an_empty_list_and_one_that_drops_too_many_wait_for_another_one(tmp_path: Path) -> None:
    async with rooms(tmp_path, *range(10)) as found:
        before = await found.records()
        found.list()
        answer = found.sync()
        assert answer.code == 1
        assert "the list is held, the old one stays: the list is empty, and there are 10" in answer.err
        found.list(1, 2, 3, 4)
        answer = found.sync()
        assert "the list drops 6 of 10" in answer.err
        assert "--force" in answer.err
        assert await found.records() == before
        await found.tells("source.held", "the list drops 6 of 10")
        answer = found.sync()
        assert answer.out == "room: 4 listed; 0 added, 0 changed, 6 removed\n", answer.err
        assert (await found.records()).keys() == {"1", "2", "3", "4"}
        found.list()
        assert found.sync("--force").out == "room: 0 listed; 0 added, 0 changed, 4 removed\n"
        assert await found.records() == {}


async def test_a_source_that_fails_changes_nothing(tmp_path: Path) -> None:
    async with rooms(tmp_path, *range(4), timeout="8s") as found:
        before = await found.records()
        for line, why in (
            ("raise", "LookupError: no such table"),
            ("hang", "it took longer than 8s"),
            ("exit", "worker lost"),
            ("garbage", "it lists {'id': '1'}"),
            ("stranger", 'it lists a resource of kind "other"'),
            ("twice", 'it lists "1" twice, and differently'),
            ("endless", "it lists more than"),
        ):
            found.list("0", line)
            answer = found.sync("--force")
            assert answer.code == 1, answer
            assert why in answer.err
        assert await found.records() == before
        await found.tells("source.failed", "no such table")
        found.list(*range(5))
        assert found.sync().out == "room: 5 listed; 1 added, 0 changed, 0 removed\n"
        await found.nodes["a"].until(lambda status: status["is_ready"] and status["work"]["tasks_running"] >= 4)


async def test_what_others_added_stays_theirs(tmp_path: Path) -> None:
    async with rooms(tmp_path, 1, 2) as found:
        mine = resource("room", "9", priority=3)
        await found.store.commit(Put(keys.resource("room", "9"), codec.encode(mine)))
        found.list(1, 2, 9)
        assert "left alone, as others added them: 9" in found.sync().out
        assert (await found.records())["9"] == mine
        found.list(1, 2)
        assert found.sync().code == 0
        assert (await found.records()).keys() == {"1", "2", "9"}


async def test_another_node_is_asked_when_the_first_one_dies(tmp_path: Path) -> None:
    async with rooms(tmp_path, 1, 2, names="abc", ttl="4s") as found:
        found.list("hang")
        assert found.sync("--no-wait").code == 0
        await eventually((tmp_path / "list.hangs").exists)
        entry = await found.store.get(keys.query("room"))
        assert entry is not None
        first = codec.decode(Query, entry.value)
        victim = next(node for node in found.nodes.values() if node.name == first.node)
        found.list(1, 2, 3)
        victim.kill()
        await eventually(lambda: _has(found, {"1", "2", "3"}), within=60)
        listing = await found.listing()
        assert listing is not None
        assert listing.node != first.node


async def _has(found: Rooms, ids: set[str]) -> bool:
    return (await found.records()).keys() == ids


async def test_only_kinds_with_a_source_can_be_synced(tmp_path: Path) -> None:
    async with rooms(tmp_path, 1) as found:
        answer = found.rota("resources", "sync", "other")
        assert (answer.code, answer.out) == (2, "")
        assert 'kind "other" has no source' in answer.err
        answer = found.rota("resources", "sync", "rom")
        assert answer.code == 2
        assert "room" in answer.err
