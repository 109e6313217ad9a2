"""The supervisor, on the memory store: drains that are slowed down, large tasks, and plans that take long."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.fleet.doors.nodes import operations as node_operations
from rota.fleet.leading.term import Term
from rota.kit.aside import at_once
from rota.kit.record import replace
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.config import SupervisorConfig
from rota.model.errors import Compacted
from rota.model.ids import Key, NodeId, Revision, SessionId, TermNumber
from rota.model.node import NodeStatus, Roster
from rota.placement.core import Place, Rule
from rota.placement.fleet.placing import Placing
from rota.placement.fleet.plan import WRITES, PlacementPlan, PlannedChange
from rota.placement.fleet.supervisor import FEW, Supervisor, supervise
from rota.placement.fleet.view import FleetView
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import (
    Drain,
    PlacingRecord,
    Relief,
    ResourceRecord,
    ResourceStatus,
    SlotsSet,
    Trouble,
    state_of,
)
from rota.resources.fleet.sources import query_sources
from rota.sim.world import EPOCH
from rota.store import Absent, At, Delete, Put, Store
from rota.store.leases.keeper import LeaseKeeper
from rota.store.memory import MemoryStore, Universe
from rota.store.port import Commit, ScanResult
from tests.kit.elections import play
from tests.kit.relay_reports import Nodes
from tests.kit.source_fleet import Around
from tests.kit.supervised import add, declare, member
from tests.kit.virtual_trials import CLOCK, LoopClock
from tests.kit.waiting import eventually

B, C = NodeId("b"), NodeId("c")


async def run_tasks(store: Store) -> None:
    """Say of each task that relieves another that it runs, at once."""
    async with aclosing(store.watch(keys.ASSIGNMENTS, await store.revision())) as commits:
        async for commit in commits:
            for change in commit.changes:
                if change.entry and codec.decode(Assignment, change.entry.value).relieves:
                    node, _, task = change.key.removeprefix(keys.ASSIGNMENTS).partition("/")
                    relief = Relief(epoch=change.entry.modified)
                    await store.commit(Put(keys.relief(NodeId(node), task), codec.encode(relief)))


async def add_more(store: Store) -> None:
    """There is always something else to place."""
    for number in range(10_000):
        await asyncio.sleep(0.3)
        await add(store, f"more-{number}")


async def tasks_on(store: Store, node: NodeId) -> int:
    return len((await store.scan(keys.assignments(node))).entries)


@pytest.mark.parametrize(
    ("count", "cost", "ramp"),
    [
        pytest.param(20, 1, 1, id="one task a second, while others are placed"),
        pytest.param(3, 100, 5, id="tasks that take more slots than a node is given in a second"),
    ],
)
def test_a_drain_ends_however_slowly_tasks_may_move(count: int, cost: int, ramp: int) -> None:
    async def lead(term: Term) -> None:
        config = SupervisorConfig(ramp=ramp, rebalance=0)
        await supervise(term, None, Roster(nodes={}), Placing(config), CLOCK, lambda *_, **__: None, aside=at_once)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        for number in range(count):
            await add(store, str(number), cost)
        node("a", lead)
        await asyncio.sleep(5)
        assert await tasks_on(store, B) == count
        await member(store, C)
        others = [asyncio.create_task(each) for each in (run_tasks(store), add_more(store))]
        await store.commit(Put(keys.drain(B), codec.encode(Drain(node=B, since=EPOCH))))
        await asyncio.sleep(count * max(1, cost / ramp) + 5)
        left = await tasks_on(store, B)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert left == 0

    play(story)


async def _lead(term: Term, config: SupervisorConfig) -> None:
    await supervise(term, None, Roster(nodes={}), Placing(config), CLOCK, lambda *_, **__: None, aside=at_once)


def test_settings_of_a_reload_count_in_the_term_that_is_under_way() -> None:
    placing = Placing(SupervisorConfig(rebalance=0))

    async def lead(term: Term) -> None:
        await supervise(term, None, Roster(nodes={}), placing, CLOCK, lambda *_, **__: None, aside=at_once)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        for number in range(20):
            await add(store, str(number))
        node("a", lead)
        await asyncio.sleep(5)
        await member(store, C)
        await asyncio.sleep(30)
        assert await tasks_on(store, C) == 0
        placing.change(SupervisorConfig(rebalance=600, policy="least-loaded"))
        others = asyncio.create_task(run_tasks(store))
        await asyncio.sleep(30)
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)
        assert 9 <= await tasks_on(store, C) <= 11  # within the tolerance
        entry = await store.get(keys.PLACING)
        assert entry is not None
        assert codec.decode(PlacingRecord, entry.value).policy == "least-loaded"

    play(story)


def test_the_first_node_of_a_new_fleet_does_not_get_everything() -> None:
    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        for number in range(10):
            await add(store, str(number))
        await member(store, B)
        node("a", lambda term: _lead(term, SupervisorConfig(rebalance=0)))
        await asyncio.sleep(1)
        assert await tasks_on(store, B) == 0, "others may be about to join"
        await member(store, C)
        await asyncio.sleep(5)
        assert (await tasks_on(store, B), await tasks_on(store, C)) == (5, 5)

    play(story)


async def fail(store: Store, task: str, strikes: int, at: datetime = EPOCH) -> NodeId:
    """The node that has a task gives it back, as nodes do: with its trouble, in one commit."""
    (entry,) = [each for each in (await store.scan(keys.ASSIGNMENTS)).entries if each.key.endswith(f"/{task}#0")]
    node = NodeId(entry.key.removeprefix(keys.ASSIGNMENTS).partition("/")[0])
    trouble = Trouble(node=node, at=at, why="no", strikes=strikes)
    kind, id = task.split("/")
    await store.commit(Put(keys.trouble(kind, id, node), codec.encode(trouble)), Delete(entry.key))
    return node


def test_what_fails_on_every_node_waits_longer_and_longer() -> None:
    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        for each in (B, C):
            await member(store, each)
        await add(store, "0")
        node("a", lambda term: _lead(term, SupervisorConfig(rebalance=0, settle=timedelta())))
        await asyncio.sleep(3)
        first = await fail(store, "room/0", 1)
        await asyncio.sleep(1)
        other = await fail(store, "room/0", 1)
        assert {first, other} == {B, C}, "the other node has it at once"
        await asyncio.sleep(1)
        assert await _placed(store) == 0
        status = codec.decode(ResourceStatus, (await store.get(keys.resource_status("room", "0"))).value)
        assert "failed on every node" in status.pending
        await asyncio.sleep(6)
        assert await _placed(store) == 1, "five seconds after the first failure"
        assert await fail(store, "room/0", 2) == first
        await asyncio.sleep(3)
        assert await fail(store, "room/0", 6) == other
        await asyncio.sleep(3)
        assert await _placed(store) == 0
        await asyncio.sleep(10)
        assert await fail(store, "room/0", 7) == first
        for _ in range(5):
            await asyncio.sleep(25)
            assert await _placed(store) == 0, "the other node rests for 160 s"
        await asyncio.sleep(30)
        assert await _placed(store) == 1

    play(story)


async def status_of(store: Store, id: str = "0") -> ResourceStatus:
    entry = await store.get(keys.resource_status("room", id))
    assert entry is not None
    return codec.decode(ResourceStatus, entry.value)


def test_a_resource_that_was_given_back_is_failing_for_ten_minutes_although_it_has_all_its_tasks() -> None:
    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        for each in (B, C):
            await member(store, each)
        await add(store, "0")
        await add(store, "calm")
        node("a", lambda term: _lead(term, SupervisorConfig(rebalance=0, settle=timedelta())))
        await asyncio.sleep(3)
        failed = await fail(store, "room/0", 1, at=await store.now())
        await asyncio.sleep(3)
        status = await status_of(store)
        assert (status.assigned, state_of(status), list(status.failing or {})) == (1, "failing", [failed])
        assert (await status_of(store, "calm")).failing is None
        await asyncio.sleep(580)
        assert state_of(await status_of(store)) == "failing"
        await asyncio.sleep(30)
        assert (state_of(await status_of(store)), (await status_of(store)).failing) == ("covered", {})

    play(story)


def test_what_a_node_reports_as_failing_is_in_the_status_until_it_is_reported_no_more() -> None:
    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        await add(store, "0")
        node("a", lambda term: _lead(term, SupervisorConfig(rebalance=0, settle=timedelta())))
        await asyncio.sleep(3)
        entry = await store.get(keys.status(B))
        assert entry is not None
        work = codec.decode(NodeStatus, entry.value)
        await store.commit(Put(keys.status(B), codec.encode(replace(work, failing={"room/0#0": "no camera"}))))
        await asyncio.sleep(2)
        status = await status_of(store)
        assert (status.failing, status.assigned, status.running) == ({"b": "no camera"}, 1, 0)
        await store.commit(Put(keys.status(B), codec.encode(work)))
        await asyncio.sleep(2)
        assert (state_of(await status_of(store)), (await status_of(store)).running) == ("covered", 1)

    play(story)


@pytest.mark.parametrize("what", ["another spec", "a reload", "a restart"])
def test_what_was_mended_does_not_rest_for_what_failed_before(what: str) -> None:
    async def mend(store: Store) -> None:
        if what == "another spec":
            record = ResourceRecord(uid="0", kind="room", id="0", created=EPOCH, spec={"port": 2})
            await store.commit(Put(keys.resource("room", "0"), codec.encode(record)))
        elif what == "a reload":
            entry = await store.get(keys.status(B))
            assert entry is not None
            reloaded = replace(codec.decode(NodeStatus, entry.value), generation=2)
            await store.commit(Put(keys.status(B), codec.encode(reloaded)))
        else:
            await member(store, B, "another session")

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        await add(store, "0")
        node("a", lambda term: _lead(term, SupervisorConfig(rebalance=0, settle=timedelta())))
        await asyncio.sleep(3)
        await fail(store, "room/0", 7, at=await store.now())
        await asyncio.sleep(60)
        assert await tasks_on(store, B) == 0, "it rests for five minutes"
        assert state_of(await status_of(store)) == "failing"
        await mend(store)
        await asyncio.sleep(3)
        assert await tasks_on(store, B) == 1
        assert state_of(await status_of(store)) == "covered"

    play(story)


async def _placed(store: Store) -> int:
    return await tasks_on(store, B) + await tasks_on(store, C)


def test_a_node_that_comes_back_again_and_again_gets_no_tasks_for_balance_at_once() -> None:
    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        for number in range(20):
            await add(store, str(number))
        node("a", lambda term: _lead(term, SupervisorConfig(rebalance=6000, settle=timedelta())))
        running = asyncio.create_task(run_tasks(store))
        await asyncio.sleep(3)
        await member(store, C)
        await asyncio.sleep(5)
        assert await tasks_on(store, C) >= 9, "a node that is new gets its part at once"
        for number in range(3):  # it falls, and is back
            await store.commit(Delete(keys.node(C)), Delete(keys.status(C)))
            await asyncio.sleep(2)
            await member(store, C, session=f"again {number}")
            await asyncio.sleep(10)
            assert await tasks_on(store, C) == 0
        await asyncio.sleep(40)
        assert await tasks_on(store, C) == 0, "the third return costs a minute"
        await asyncio.sleep(20)
        got = await tasks_on(store, C)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert got >= 9

    play(story)


async def _note_moves(store: Store, node: NodeId, left: list[Key]) -> None:
    """Note each assignment that is taken from a node."""
    async with aclosing(store.watch(keys.assignments(node), await store.revision())) as commits:
        async for commit in commits:
            left += [change.key for change in commit.changes if change.entry is None]


@pytest.mark.parametrize(
    ("policy", "stay"),
    [
        pytest.param("least-loaded", 5, id="its part is all that it has slots for"),
        pytest.param("weighted", 1, id="its part is 0 of 40, and one more is tolerated"),
    ],
)
def test_a_node_with_fewer_slots_loses_what_is_too_much_and_balance_takes_no_more_than_its_rule(
    policy: Any, stay: int
) -> None:
    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        await member(store, C)
        for number in range(40):  # the newest of a node are not those that leave first
            await add(store, f"{number:02}", priority=int(number >= 30))
        node("a", lambda term: _lead(term, SupervisorConfig(policy=policy, rebalance=6000, settle=timedelta())))
        left: list[Key] = []
        running = [asyncio.create_task(each) for each in (run_tasks(store), _note_moves(store, B, left))]
        await asyncio.sleep(5)
        assert (await tasks_on(store, B), await tasks_on(store, C)) == (20, 20)
        await store.commit(Put(keys.slots(B), codec.encode(SlotsSet(node=B, slots=5, since=EPOCH))))
        await asyncio.sleep(20)
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert (await tasks_on(store, B), await tasks_on(store, C)) == (stay, 40 - stay)
        assert len(left) == 20 - stay, "a task that leaves does not come back"

    play(story)


class Ahead(LoopClock):
    """The wall clock of a machine that is five minutes ahead of the store's."""

    def wall(self) -> datetime:
        return super().wall() + timedelta(minutes=5)


def test_a_drains_deadline_is_by_the_stores_clock_whatever_the_leaders_shows() -> None:
    async def lead(term: Term) -> None:
        await supervise(term, None, Roster(nodes={}), Placing(SupervisorConfig()), Ahead(), lambda *_, **__: None)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        await add(store, "r1")
        node("a", lead)
        await asyncio.sleep(5)
        begun = await node_operations.drain_node(store, B, deadline=timedelta(minutes=2))
        assert begun.deadline == await store.now() + timedelta(minutes=2)
        await asyncio.sleep(60)
        assert await tasks_on(store, B) == 1, "nobody else can take it, and there is time"
        await asyncio.sleep(70)
        assert await tasks_on(store, B) == 0

    play(story)


def test_a_node_is_avoided_for_as_long_as_it_should_whatever_the_leaders_clock_shows() -> None:
    async def lead(term: Term) -> None:
        config = SupervisorConfig(avoid_for=timedelta(minutes=4), rebalance=0)
        await supervise(term, None, Roster(nodes={}), Placing(config), Ahead(), lambda *_, **__: None)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        for each in (B, C):
            await member(store, each)
        trouble = Trouble(node=B, at=await store.now(), why="it crashes there", strikes=1)
        await store.commit(Put(keys.trouble("room", "r1", B), codec.encode(trouble)))
        await add(store, "r1")
        node("a", lead)
        await asyncio.sleep(5)
        assert (await tasks_on(store, B), await tasks_on(store, C)) == (0, 1)

    play(story)


def test_very_many_that_wait_are_all_placed_once_there_is_room() -> None:
    async def lead(term: Term) -> None:
        config = SupervisorConfig(rebalance=0)
        await supervise(term, None, Roster(nodes={}), Placing(config), CLOCK, lambda *_, **__: None, aside=at_once)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        await member(store, B)
        for number in range(500 + FEW + 50):
            await add(store, f"{number:04}")
        node("a", lead)
        await asyncio.sleep(5)
        assert await tasks_on(store, B) == 500
        await store.commit(Delete(keys.resource("room", "0000")))
        await asyncio.sleep(3)
        assert await tasks_on(store, B) == 500
        await member(store, C)
        await asyncio.sleep(3)
        assert await tasks_on(store, B) + await tasks_on(store, C) == 500 + FEW + 49

    play(story)


class Slow(Rule):
    """A rule that takes until the loop has turned, as a plan of very many resources does."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.was_held = False

    def refuse(self, about: object, node: Place) -> str:
        self.has_begun.set()
        self.was_held |= not self.may_end.wait(10)
        return ""


async def test_the_loop_goes_on_while_many_resources_are_planned_and_what_changes_meanwhile_is_planned_next() -> None:
    rule, term = Slow(), await _term()
    store = term.store
    await declare(store)
    await member(store, B)
    for number in range(FEW + 1):
        await add(store, str(number))
    config = SupervisorConfig(rebalance=0)
    leading = asyncio.create_task(
        supervise(term, None, Roster(nodes={}), Placing(config, {"slow": rule}), SYSTEM, lambda *_, **__: None)
    )
    await eventually(rule.has_begun.is_set)
    await store.commit(Delete(keys.resource("room", "0")))
    await add(store, "late")
    rule.may_end.set()
    await eventually(lambda: _are_placed(store, {"late", *map(str, range(1, FEW + 1))}))
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    assert not rule.was_held


class CompactedOnce(Around):
    """A store whose history is compacted while it is read page by page for the first time."""

    is_done = is_followed = False

    def watch(self, prefix: Key, after: Revision) -> AsyncIterator[Commit]:
        self.is_followed = True
        return self._store.watch(prefix, after)  # type: ignore[no-any-return]

    async def scan(self, prefix: Key, **options: Any) -> ScanResult:
        if options.get("at") is not None and not self.is_done:
            self.is_done = True
            raise Compacted(options["at"], Revision(options["at"] + 1))
        return await self._store.scan(prefix, **options)  # type: ignore[no-any-return]


async def test_nothing_is_planned_before_the_newest_of_several_commits_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    universe = Universe(SYSTEM)
    store, keeper = MemoryStore(universe, SYSTEM), None
    term = Term(TermNumber(1), store, keeper, At(Key("/incarnation"), Revision(1)))  # type: ignore[arg-type]
    supervisor = Supervisor(term, FleetView(), Placing(SupervisorConfig()), SYSTEM, lambda *_, **__: None)
    changes = [
        PlannedChange(str(number), (Delete(Key(f"/{number}")),) * WRITES, (), Absent(Key("/")), Put(Key("/"), b""))
        for number in range(2)
    ]
    answers = {"0": (Revision(8), 0.0), "1": (Revision(7), 0.01)}
    seen: list[Revision] = []

    async def planned(_: set[str]) -> PlacementPlan:
        return PlacementPlan(changes, {})

    async def commit(batch: list[PlannedChange]) -> Revision:
        revision, takes = answers[batch[0].name]
        await asyncio.sleep(takes)
        return revision

    async def until_seen(revision: Revision) -> None:
        seen.append(revision)

    for name, stub in (("_planned", planned), ("_commit", commit), ("_until_seen", until_seen)):
        monkeypatch.setattr(supervisor, name, stub)
    await supervisor._plan_and_commit()
    assert seen == [8], "the lane that was answered last wrote first"


async def test_history_compacted_while_a_new_leader_reads_is_read_again() -> None:
    term = await _term()
    await declare(term.store)
    await member(term.store, B)
    await add(term.store, "1")
    term.store = store = CompactedOnce(term.store)  # type: ignore[assignment]
    config = SupervisorConfig(rebalance=0)
    leading = asyncio.create_task(
        supervise(term, None, Roster(nodes={}), Placing(config), SYSTEM, lambda *_, **__: None)
    )
    await eventually(lambda: _are_placed(term.store, {"1"}))
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    assert store.is_done


async def test_history_compacted_while_sources_are_read_does_not_end_the_term() -> None:
    term = await _term()
    term.store = store = CompactedOnce(term.store)  # type: ignore[assignment]
    asking = asyncio.create_task(query_sources(term, SYSTEM))
    await eventually(lambda: asking.done() or store.is_followed)
    assert store.is_done
    assert not asking.done()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def _term() -> Term:
    """A term that nobody ends."""
    store = MemoryStore(Universe(SYSTEM), SYSTEM)
    lease = await store.grant(timedelta(hours=1))
    incarnation = await store.commit(Put("/incarnation", b""))
    number = await store.commit(Put(keys.LEADER, b""))
    return Term(TermNumber(number), store, LeaseKeeper(store, lease, SYSTEM), At("/incarnation", incarnation))


async def _are_placed(store: Store, ids: set[str]) -> bool:
    entries = (await store.scan(keys.assignments(B))).entries
    return {codec.decode(Assignment, entry.value).resource for entry in entries} == ids


def test_a_warm_up_names_the_missing_nodes_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def lead(term: Term) -> None:
        last = Roster(nodes={B: SessionId("before")})
        config = SupervisorConfig(warm_up=timedelta(seconds=6))
        await supervise(term, SessionId("new"), last, Placing(config), CLOCK, lambda *_, **__: None, aside=at_once)

    async def story(store: Store, node: Nodes) -> None:
        await declare(store)
        node("a", lead)
        for number in range(10):  # whatever happens wakes it
            await add(store, str(number))
            await asyncio.sleep(1)

    play(story)
    said = [record.message for record in caplog.records if record.name == "rota.placement.fleet.supervisor"]
    assert said.count("warming up") == 1
    assert said.count("warmed up") == 1
