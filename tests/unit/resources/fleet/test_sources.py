"""Asking sources and answering, on the memory store in virtual time."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from rota.fleet.leading.term import Term
from rota.jobs.node.source_queries import SourceFailed
from rota.model import codec, keys
from rota.model.errors import Conflict, Unknown
from rota.model.ids import NodeId, Revision
from rota.resources.core.records import Cordon, KindRecord, Listing, Query, ResourceRecord, SyncRequest
from rota.resources.fleet.sources import query_sources
from rota.resources.node.queries import answer_queries
from rota.sim.world import EPOCH
from rota.store import At, Put, Store
from rota.store.port import Expect, Write
from tests.kit.elections import leader, play
from tests.kit.kinds import KIND
from tests.kit.source_fleet import Around, Nodes, is_there
from tests.kit.virtual_trials import CLOCK

A, B = NodeId("a"), NodeId("b")
MINUTE = 60.0


class Source:
    """A source that lists what the test says, after so long, and remembers when it was asked."""

    def __init__(self, *ids: object, takes: float = 0.1, error: str = "") -> None:
        self.ids: Iterable[object] = ids
        self.takes, self.error = takes, error
        self.asked: list[float] = []

    def kinds(self) -> list[KindRecord]:
        return [KIND]

    async def ask_source(self, kind: str, timeout: timedelta) -> bytes:
        self.asked.append(CLOCK.monotonic())
        await asyncio.sleep(self.takes)
        if self.error:
            raise SourceFailed(self.error)
        return msgspec.json.encode([{"id": str(id)} for id in self.ids])


class Answering:
    """A node that answers queries; what it told is kept."""

    def __init__(self, store: Store, node: NodeId, incarnation: At, source: Source) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        answers = answer_queries(store, node, incarnation, source, CLOCK, self._tell, lambda: 0.5)
        self.task = asyncio.create_task(answers, name=f"answers of {node}")

    def _tell(self, kind: str, subject: str, **fields: Any) -> None:
        assert subject == "room"
        self.told.append((kind, fields))

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


class Deaf(Around):
    """Nothing new is heard from it."""

    async def watch(self, prefix: str, after: Revision) -> Any:
        await asyncio.Event().wait()
        yield


class Doubtful(Around):
    """Each commit of a certain size is done, and its outcome not told, once."""

    def __init__(self, store: Store, *sizes: int) -> None:
        super().__init__(store)
        self._sizes = list(sizes)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        reached = await self._store.commit(*writes, expect=expect)
        if len(writes) in self._sizes:
            self._sizes.remove(len(writes))
            raise Unknown("the line went dead")
        return reached


class Contested(Around):
    """Somebody else adds a resource just before the first large commit."""

    def __init__(self, store: Store, id: str) -> None:
        super().__init__(store)
        self._id: str | None = id
        self.conflicts = 0

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        if self._id is not None and len(writes) > 10:
            theirs = ResourceRecord(uid="theirs", kind="room", id=self._id, created=EPOCH)
            self._id = None
            await self._store.commit(Put(keys.resource("room", theirs.id), codec.encode(theirs)))
        try:
            return await self._store.commit(*writes, expect=expect)
        except Conflict:
            self.conflicts += 1
            raise


async def leads(term: Term) -> None:
    await query_sources(term, CLOCK)


async def incarnation(store: Store) -> At:
    (entry,) = (await store.scan(keys.INCARNATIONS)).entries
    return At(entry.key, entry.modified)


async def ids(store: Store) -> set[str]:
    prefix = keys.resources("room")
    return {entry.key.removeprefix(prefix) for entry in (await store.scan(prefix)).entries}


async def query(store: Store) -> Query:
    entry = await store.get(keys.query("room"))
    assert entry is not None
    return codec.decode(Query, entry.value)


async def outcome(store: Store) -> Listing:
    entry = await store.get(keys.listing("room"))
    assert entry is not None
    return codec.decode(Listing, entry.value)


def test_a_source_is_asked_when_the_term_begins_and_every_so_often() -> None:
    async def story(store: Store, node: Nodes) -> None:
        node("a", leads)
        await is_there(store, A)
        await asyncio.sleep(5)
        source = Source(1, 2)
        a = Answering(store, A, await incarnation(store), source)
        await asyncio.sleep(5)
        assert await ids(store) == {"1", "2"}
        source.ids = [2, 3]
        await asyncio.sleep(60 * MINUTE)
        assert await ids(store) == {"2", "3"}
        assert [round((each - source.asked[0]) / MINUTE) for each in source.asked] == [0, 30, 60]
        applied = {"added": 1, "changed": 0, "removed": 1}
        assert a.told == [("source.applied", {"added": 2, "changed": 0, "removed": 0}), ("source.applied", applied)]
        await a.stop()

    play(story)


def test_a_source_that_fails_is_asked_again_soon_and_what_was_held_stays_held() -> None:
    async def story(store: Store, node: Nodes) -> None:
        node("a", leads)
        await is_there(store, A)
        await asyncio.sleep(5)
        source = Source(*range(10))
        a = Answering(store, A, await incarnation(store), source)
        await asyncio.sleep(5)
        source.ids = [1]
        await asyncio.sleep(30 * MINUTE)
        assert len(await ids(store)) == 10
        source.error = "no such table"
        await asyncio.sleep(30 * MINUTE)
        assert (await outcome(store)).error == "no such table"
        source.error = ""
        await asyncio.sleep(2 * MINUTE)
        assert await ids(store) == {"1"}
        assert [kind for kind, _ in a.told] == ["source.applied", "source.held", "source.failed", "source.applied"]
        await a.stop()

    play(story)


def test_a_new_leader_goes_on_from_the_record() -> None:
    async def story(store: Store, node: Nodes) -> None:
        first = node("a", leads)
        await is_there(store, A, B)
        await asyncio.sleep(5)
        source = Source(1)
        answers = [Answering(store, each, await incarnation(store), source) for each in (A, B)]
        await asyncio.sleep(5)
        second = node("b", leads)
        await asyncio.sleep(20)
        first.cancel()
        await asyncio.sleep(20 * MINUTE)
        assert (await leader(store), len(source.asked)) == ("b", 1), "what was just answered is not asked again"
        node("a", leads)
        await asyncio.sleep(5)
        second.cancel()
        await asyncio.sleep(MINUTE)
        assert (await leader(store), len(source.asked)) == ("a", 2), "a term begins with a query"
        for each in answers:
            await each.stop()

    play(story)


def test_a_node_that_does_not_answer_is_replaced_and_writes_nothing_any_more() -> None:
    async def story(store: Store, node: Nodes) -> None:
        node("a", leads)
        node("b")
        await is_there(store, A, B)
        await asyncio.sleep(5)
        fence = await incarnation(store)
        slow, quick = Source("late", takes=200), Source("1")
        a, b = Answering(Deaf(store), A, fence, slow), Answering(store, B, fence, quick)  # type: ignore[arg-type]
        await asyncio.sleep(5)
        assert (await query(store)).node == A
        await asyncio.sleep(100)
        assert (await query(store)).node == B
        assert await ids(store) == {"1"}
        await asyncio.sleep(200)
        assert await ids(store) == {"1"}
        assert (len(slow.asked), a.told) == (1, [])
        assert (await outcome(store)).node == B
        await a.stop()
        await b.stop()

    play(story)


def test_a_cordoned_node_is_not_asked() -> None:
    async def story(store: Store, node: Nodes) -> None:
        cordon = Cordon(node=A, since=EPOCH, why="")
        await store.commit(Put(keys.cordon(A), codec.encode(cordon)))
        node("a", leads)
        node("b")
        await is_there(store, A)
        await asyncio.sleep(5)
        assert await store.get(keys.query("room")) is None
        await is_there(store, B, tasks=9)
        await asyncio.sleep(5)
        assert (await query(store)).node == B

    play(story)


def test_a_request_is_taken_up_and_its_force_used_once() -> None:
    async def story(store: Store, node: Nodes) -> None:
        node("a", leads)
        await is_there(store, A)
        await asyncio.sleep(5)
        source = Source(1, 2, 3)
        a = Answering(store, A, await incarnation(store), source)
        await asyncio.sleep(5)
        source.ids = []
        wanted = SyncRequest(kind="room", force=True)
        asked = await store.commit(Put(keys.sync("room"), codec.encode(wanted)))
        await asyncio.sleep(5)
        assert await ids(store) == set()
        assert await store.get(keys.sync("room")) is None
        assert (await outcome(store)).sync == asked
        source.ids = [1, 2]
        await asyncio.sleep(31 * MINUTE)
        source.ids = []
        await asyncio.sleep(30 * MINUTE)
        assert (await ids(store), (await query(store)).force) == ({"1", "2"}, False)
        assert (await outcome(store)).sync == asked, "later outcomes answer the request, too"
        await a.stop()

    play(story)


def test_a_conflict_on_the_way_is_compared_again() -> None:
    async def story(store: Store, node: Nodes) -> None:
        node("a", leads)
        await is_there(store, A)
        await asyncio.sleep(5)
        contested = Contested(store, "7")
        a = Answering(contested, A, await incarnation(store), Source(*range(250)))  # type: ignore[arg-type]
        await asyncio.sleep(30)
        assert contested.conflicts == 1
        assert len(await ids(store)) == 250
        entry = await store.get(keys.resource("room", "7"))
        assert entry is not None
        assert codec.decode(ResourceRecord, entry.value).uid == "theirs"
        assert a.told == [("source.applied", {"added": 249, "changed": 0, "removed": 0})]
        assert (await outcome(store)).why == "left alone, as others added them: 7"
        await a.stop()

    play(story)


def test_a_commit_of_unknown_outcome_is_neither_lost_nor_told_twice() -> None:
    async def story(store: Store, node: Nodes) -> None:
        node("a", leads)
        await is_there(store, A)
        await asyncio.sleep(5)
        # 99, 99 and 52 resources, the last with the outcome.
        doubtful = Doubtful(store, 53)
        a = Answering(doubtful, A, await incarnation(store), Source(*range(250)))  # type: ignore[arg-type]
        await asyncio.sleep(30)
        assert len(await ids(store)) == 250
        assert a.told == [("source.applied", {"added": 250, "changed": 0, "removed": 0})]
        await a.stop()

    play(story)
