"""What the leader writes: missing tasks first, moves by relief, nothing twice on one slot."""

from datetime import timedelta

import pytest

from rota.model import codec, keys
from rota.model.ids import Key, LeaseId, NodeId, Revision, SessionId
from rota.model.node import Node, NodeStatus, Role
from rota.placement.core import WEIGHTED
from rota.placement.fleet.moves import shifts
from rota.placement.fleet.plan import How, PlacementPlan, PlannedChange, Shift, plan, portion
from rota.placement.fleet.view import FleetView
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import (
    Affinity,
    Cordon,
    Drain,
    KindRecord,
    Relief,
    ResourceRecord,
    ResourceStatus,
    Trouble,
)
from rota.sim.world import EPOCH
from rota.store.port import Change, Commit, Delete, Entry, Put, Write

HOW = How(WEIGHTED, timedelta(minutes=5), 0.1)
SECONDS = timedelta(seconds=30)


class Told:
    """A view, and what it is told; `room` has one task, `single` is exclusive."""

    def __init__(self, **slots: int) -> None:
        self.view = FleetView()
        for kind in ("room", "single"):
            self.declare(kind)
        for name, count in slots.items():
            self.node(name, count)

    def declare(self, kind: str) -> None:
        self.see(
            keys.kind(kind),
            KindRecord(
                name=kind, app="app", replicas=1, exclusive=kind == "single", runs_alone=False,
                silent_after=SECONDS, start_within=SECONDS,
            ),
        )  # fmt: skip

    def node(self, name: str, slots: int) -> None:
        node = Node(
            id=NodeId(name), session=SessionId(name), lease=LeaseId("l"), role=Role.WORK, home=name, host=name, pid=1,
            since=EPOCH, lease_ttl=SECONDS, slots=slots,
        )  # fmt: skip
        work = NodeStatus(
            app="app", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0,
            kinds=["room", "single"],
        )  # fmt: skip
        self.see(keys.node(node.id), node)
        self.see(keys.status(node.id), work)

    def see(self, key: Key, record: object) -> None:
        self.carry_out([Put(key, codec.encode(record)) if record else Delete(key)])

    def carry_out(self, writes: list[Write]) -> None:
        revision = Revision(self.view.revision + 1)
        seen = [
            Change(each.key, Entry(each.key, each.value, revision, revision) if isinstance(each, Put) else None)
            for each in writes
        ]
        self.view.fold(Commit(revision, tuple(seen)))

    def add(self, *ids: str, kind: str = "room", **more: object) -> None:
        for id in ids:
            self.see(
                keys.resource(kind, id),
                ResourceRecord(uid=id, kind=kind, id=id, created=EPOCH, **more),  # type: ignore[arg-type]
            )

    def drain(self, name: str) -> None:
        self.see(keys.drain(NodeId(name)), Drain(node=NodeId(name), since=EPOCH))

    def plan(self, shifts: dict[str, Shift] | None = None, ramp: dict[NodeId, int] | None = None) -> PlacementPlan:
        dirty, self.view.dirty = self.view.dirty, set()
        return plan(self.view, dirty, HOW, EPOCH, (), shifts, ramp)

    def done(self, found: PlacementPlan) -> None:
        self.carry_out([write for change in found.changes for write in change.writes])

    def settle(self) -> None:
        while (found := self.plan()).changes:
            self.done(found)

    def nodes(self, name: str) -> list[str]:
        return sorted(hold.node for hold in self.view.holds.get(name, {}).values())


def assigned(change: PlannedChange) -> dict[Key, Assignment | None]:
    return {
        write.key: codec.decode(Assignment, write.value) if isinstance(write, Put) else None
        for write in change.writes
        if write.key.startswith(keys.ASSIGNMENTS)
    }


def test_a_task_of_a_drained_node_is_relieved_and_ends_when_the_other_runs() -> None:
    told = Told(a=10)
    told.add("1")
    told.settle()
    told.node("b", 10)
    told.drain("a")
    found = told.plan()
    (change,) = found.changes
    (new,) = assigned(change).values()
    assert new is not None
    assert new.relieves == "a"
    told.done(found)
    assert told.nodes("room/1") == ["a", "b"]
    assert told.plan().changes == []
    status = told.view.statuses["room/1"]
    assert (status.assigned, status.replicas, status.moving) == (1, 1, "a keeps it until b runs it")
    epoch = told.view.holds["room/1"]["/assign/b/room/1#0"].epoch
    told.see(keys.relief(NodeId("b"), "room/1#0"), Relief(epoch=epoch))
    told.done(told.plan())
    assert told.nodes("room/1") == ["b"]
    assert told.view.reliefs == {}
    assert told.view.statuses["room/1"].moving == ""
    assert told.plan().changes == []


def test_word_of_an_earlier_assignment_ends_nothing() -> None:
    told = Told(a=10)
    told.add("1")
    told.settle()
    told.node("b", 10)
    told.drain("a")
    told.done(told.plan())
    told.see(keys.relief(NodeId("b"), "room/1#0"), Relief(epoch=Revision(1)))
    told.done(told.plan())
    assert told.nodes("room/1") == ["a", "b"]


def test_fewer_replicas_in_the_middle_of_a_move_leave_as_many_tasks() -> None:
    told = Told(a=10, b=10, c=10)
    told.add("1", replicas=2)
    told.settle()
    told.drain(told.nodes("room/1")[1])
    told.done(told.plan())
    assert len(told.nodes("room/1")) == 3
    told.add("1", replicas=1)
    told.settle()
    assert len(told.nodes("room/1")) <= 2
    for hold in list(told.view.holds["room/1"].values()):
        if hold.assignment.relieves:
            told.see(keys.relief(hold.node, hold.task), Relief(epoch=hold.epoch))
    told.settle()
    assert len(told.nodes("room/1")) == 1


def test_an_exclusive_task_is_asked_to_stop_only_if_there_is_a_node_for_it() -> None:
    told = Told(a=10)
    told.add("1", kind="single")
    told.settle()
    told.drain("a")
    told.settle()
    assert not told.view.holds["single/1"]["/assign/a/single/1#0"].assignment.stopping
    assert "no other node takes it" in told.view.statuses["single/1"].moving
    told.node("b", 1)
    told.settle()
    assert told.view.holds["single/1"]["/assign/a/single/1#0"].assignment.stopping
    told.see("/assign/a/single/1#0", None)
    told.settle()
    assert told.nodes("single/1") == ["b"]


def test_an_exclusive_resource_removed_and_added_again_begins_only_when_its_node_has_confirmed() -> None:
    told = Told(a=10)
    told.add("1", kind="single")
    told.settle()
    told.node("b", 10)
    told.see(keys.CORDONS + "a", Cordon(node=NodeId("a"), since=EPOCH))
    told.see(keys.resource("single", "1"), None)
    told.see(keys.kind("single"), None)
    told.settle()
    kept = told.view.holds["single/1"]["/assign/a/single/1#0"].assignment
    assert (kept.stopping, kept.exclusive) == (True, True)
    assert "single/1" not in told.view.statuses
    told.declare("single")
    told.add("1", kind="single")
    told.settle()
    assert told.nodes("single/1") == ["a"]
    assert told.view.statuses["single/1"].pending == "waiting for a to stop it"
    told.see(keys.resource_status("single", "1"), None)
    told.settle()
    assert told.nodes("single/1") == ["a"]
    told.see("/assign/a/single/1#0", None)
    told.settle()
    assert told.nodes("single/1") == ["b"]


def test_what_an_exclusive_task_saved_goes_with_its_resource_also_while_it_stops() -> None:
    told = Told(a=10, b=10)
    told.add("1", kind="single")
    told.settle()
    (on,) = told.nodes("single/1")
    told.drain(on)
    told.done(told.plan())
    told.see(keys.resource("single", "1"), None)
    (change,) = told.plan().changes
    assert Delete(keys.SAVED + "single/1#0") in change.writes
    assert Delete(keys.assignment(NodeId(on), "single/1#0")) not in change.writes


def test_what_is_missing_comes_before_what_moves() -> None:
    told = Told(a=10)
    told.add("1")
    told.settle()
    told.node("b", 1)
    told.drain("a")
    told.add("2")
    told.settle()
    assert told.nodes("room/2") == ["b"]
    assert told.nodes("room/1") == ["a"]


def test_a_shift_gets_no_slot_that_the_same_plan_gives_away() -> None:
    told = Told(a=10)
    told.add("1")
    told.settle()
    told.node("b", 1)
    (hold,) = told.view.holds["room/1"].values()
    shift = Shift(hold, NodeId("b"), "it is better there")
    told.add("2", pin=NodeId("b"))
    told.done(told.plan({"room/1": shift}))
    assert (told.nodes("room/1"), told.nodes("room/2")) == (["a"], ["b"])
    assert told.plan({"room/1": shift}).changes == []


def test_a_shift_is_carried_out_where_there_is_room() -> None:
    told = Told(a=50)
    told.add(*(f"{number:02}" for number in range(40)))
    told.settle()
    told.node("b", 50)
    better = shifts(told.view, HOW, EPOCH, 5)
    assert len(better) == 5
    found = told.plan(better)
    assert found.moved == {"b": 5}
    told.done(found)
    assert not better.keys() & shifts(told.view, HOW, EPOCH, 5).keys(), "they are on their way"


def test_the_ramp_holds_back_moves_and_never_what_is_missing() -> None:
    told = Told(a=20)
    told.add(*(f"{number:02}" for number in range(10)))
    told.settle()
    told.node("b", 100)
    told.drain("a")
    told.add(*(f"new-{number}" for number in range(10)))
    found = told.plan(ramp={NodeId("b"): 3})
    assert found.moved == {"b": 3}
    assert len(found.waiting) == 7
    assert all(change.name not in found.waiting for change in found.changes), "nothing is written of those that wait"
    told.done(found)
    assert told.view.used[NodeId("b")] == 13


def test_a_move_sees_what_the_same_plan_puts_beside_it() -> None:
    told = Told(a=10)
    told.add("1", affinity=Affinity(apart={"app": "web"}))
    told.settle()
    told.node("b", 10)
    told.drain("a")
    told.add("2", tags={"app": "web"})
    told.settle()
    assert told.nodes("room/2") == ["b"]
    assert told.nodes("room/1") == ["a"]


def test_tags_follow_the_record_and_leave_with_the_task() -> None:
    told = Told(a=10)
    told.add("1", tags={"app": "web"})
    told.settle()
    a = NodeId("a")
    assert set(told.view.counts.tags[a]) == {("kind", "room"), ("app", "web")}
    told.add("1", tags={"app": "db"})
    assert set(told.view.counts.tags[a]) == {("kind", "room"), ("app", "db")}
    told.see(keys.resource("room", "1"), None)
    told.settle()
    assert set(told.view.counts.tags[a]) == set()


def test_a_node_that_failed_often_is_avoided_for_longer() -> None:
    told = Told(a=10, b=1)
    at = EPOCH - timedelta(minutes=8)
    told.see(keys.trouble("room", "1", NodeId("a")), Trouble(node=NodeId("a"), at=at, why="", strikes=1))
    told.see(keys.trouble("room", "2", NodeId("a")), Trouble(node=NodeId("a"), at=at, why="", strikes=2))
    told.add("1", "2")
    told.settle()
    assert (told.nodes("room/1"), told.nodes("room/2")) == (["a"], ["b"])


def test_a_status_says_which_node_gave_the_resource_back_last() -> None:
    told = Told(a=10, b=10)
    first, second = (
        Trouble(node=NodeId(node), at=EPOCH - timedelta(minutes=ago), why="no camera", strikes=2)
        for node, ago in (("a", 3), ("b", 1))
    )
    for each in (first, second):
        told.see(keys.trouble("room", "1", each.node), each)
    told.add("1", "2")
    told.settle()
    assert told.view.statuses["room/1"].assigned == 1
    assert [told.view.statuses[name].given_back for name in ("room/1", "room/2")] == [second, None]


def test_who_waits_for_a_partner_is_placed_when_it_comes() -> None:
    told = Told(a=10, b=10)
    told.add("web", affinity=Affinity(near={"app": "db"}))
    told.settle()
    status: ResourceStatus = told.view.statuses["room/web"]
    assert status.pending == "nothing with the tag app=db is placed, which it is to be near to; add that first"
    told.add("db", tags={"app": "db"})
    told.settle()
    assert told.nodes("room/web") == told.nodes("room/db")


def test_of_very_many_those_that_lack_tasks_are_planned_first_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.placement.fleet.plan.PORTION", 4)
    told = Told(a=10)
    ids = [str(number) for number in range(9)]
    told.add(*ids)
    told.settle()
    told.add("new", "newer")
    told.add("odd", kind="undeclared")
    names = {f"room/{id}" for id in ids}
    assert portion(told.view, {*names, "room/new", "room/newer", "undeclared/odd"}) == {"room/new", "room/newer"}
    found = portion(told.view, names)
    assert len(found) == 4
    assert found < names
    assert portion(told.view, {"room/1", "room/new"}) == {"room/1", "room/new"}
    told.see(keys.node(NodeId("a")), None)
    assert portion(told.view, names) == names
