"""The leader's view: how many slots a node has, and what leaves one that has too few."""

from datetime import timedelta

from rota.model import codec, keys
from rota.model.ids import Key, LeaseId, NodeId, Revision, SessionId
from rota.model.node import Node, Role
from rota.placement.fleet.overfull import EVICTED, overfull
from rota.placement.fleet.retries import PORTION
from rota.placement.fleet.view import FleetView
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import LabelsSet, SlotsSet
from rota.sim.world import EPOCH
from rota.store.port import Change, Commit, Entry

A = NodeId("a")


class Told:
    """A view, and what it is told."""

    def __init__(self, slots: int) -> None:
        self.view = FleetView()
        self._revision = 0
        node = Node(
            id=A, session=SessionId("s"), lease=LeaseId("l"), role=Role.WORK, home="h", host="box", pid=1, since=EPOCH,
            lease_ttl=timedelta(seconds=10), slots=slots,
        )  # fmt: skip
        self.see(keys.node(A), node)

    def see(self, key: Key, record: object) -> None:
        self._revision = revision = Revision(self._revision + 1)
        entry = Entry(key, codec.encode(record), revision, revision) if record else None
        self.view.fold(Commit(revision, (Change(key, entry),)))

    def assign(self, *ids: str, stopping: bool = False) -> None:
        for id in ids:
            told = Assignment(kind="room", resource=id, slot=0, exclusive=stopping, stopping=stopping)
            self.see(keys.assignment(A, keys.task("room", id, 0)), told)

    def set(self, slots: int | None) -> None:
        self.view.dirty.clear()
        self.see(keys.slots(A), None if slots is None else SlotsSet(node=A, slots=slots, since=EPOCH))


def test_slots_are_as_somebody_set_them_or_as_the_settings_say() -> None:
    told = Told(slots=5)
    told.set(3)
    assert told.view.slots(A) == 3
    told.set(None)
    assert told.view.slots(A) == 5


def test_fewer_slots_make_what_is_there_dirty_and_more_what_waits() -> None:
    told = Told(slots=5)
    told.assign("1", "2")
    told.view.pending = {"room/3"}
    told.set(1)
    assert told.view.dirty == {"room/1", "room/2"}
    told.set(9)
    assert told.view.dirty == {"room/3"}


def test_labels_that_an_operator_sets_have_what_waits_looked_at_again() -> None:
    told = Told(slots=5)
    told.view.pending = {"room/3"}
    told.view.dirty.clear()
    told.see(keys.labels(A), LabelsSet(node=A, labels={"gpu": "yes"}, since=EPOCH))
    assert told.view.labels(A) == {"gpu": "yes"}
    assert told.view.dirty == {"room/3"}
    told.see(keys.labels(A), None)
    assert told.view.labels(A) == {}


def test_the_newest_leave_first_and_not_all_at_once() -> None:
    told = Told(slots=100)
    told.assign(*(f"{number:02}" for number in range(50)))
    told.set(45)
    assert overfull(told.view) == {f"/assign/a/room/{number}#0" for number in range(45, 50)}
    told.set(1)
    assert overfull(told.view) == {f"/assign/a/room/{number}#0" for number in range(50 - EVICTED, 50)}


def test_what_is_stopping_already_frees_its_slot() -> None:
    told = Told(slots=1)
    told.assign("1")
    told.assign("2", stopping=True)
    assert overfull(told.view) == set()


def test_what_moves_away_already_leaves_before_others() -> None:
    told = Told(slots=10)
    told.assign(*(f"{number}" for number in range(7)))
    for id in "12":  # not the newest: another order than that in which tasks leave
        successor = Assignment(kind="room", resource=id, slot=0, exclusive=False, relieves=A)
        told.see(keys.assignment(NodeId("b"), keys.task("room", id, 0)), successor)
    told.set(5)
    assert overfull(told.view) == {"/assign/a/room/1#0", "/assign/a/room/2#0"}
    told.set(4)
    assert overfull(told.view) == {"/assign/a/room/1#0", "/assign/a/room/2#0", "/assign/a/room/6#0"}


def test_the_view_is_as_new_as_the_last_commit_about_it() -> None:
    told = Told(slots=3)
    changed = told.view.changed
    told.see("/job-runs/tick-1", SlotsSet(node=A, slots=1, since=EPOCH))
    assert (told.view.changed, told.view.revision) == (changed, changed + 1)
    told.assign("lobby")
    assert told.view.changed == told.view.revision == changed + 2


def test_room_for_one_has_no_more_than_a_portion_of_very_many_planned_again() -> None:
    told = Told(slots=5)
    told.assign("1", "2")
    told.view.pending = {f"room/w{number:05}" for number in range(20_000)}
    told.view.dirty.clear()
    told.see(keys.assignment(A, "room/1#0"), None)
    assert told.view.dirty == {"room/1"}
    assert told.view.has_retries
    assert 0 < len(told.view.retried()) <= PORTION
    assert not told.view.has_retries
    told.view.tick()
    assert told.view.has_retries


def test_those_that_seek_company_are_a_few_planned_at_a_time_too() -> None:
    told = Told(slots=5)
    told.view.pending = told.view.seeking = {f"room/w{number:05}" for number in range(20_000)}
    told.assign("1")
    assert told.view.dirty == {"room/1"}
    assert 0 < len(told.view.retried()) <= PORTION
