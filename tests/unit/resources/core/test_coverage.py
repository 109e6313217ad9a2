"""What one resource needs, and what it has too much of."""

from datetime import UTC, datetime, timedelta

from rota.kit.record import replace
from rota.model.ids import NodeId, Revision
from rota.resources.core.assignment import Assignment
from rota.resources.core.coverage import AssignedTask, Coverage, End, cover, free_slot
from rota.resources.core.records import KindRecord, ResourceRecord

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def kind(replicas: int = 2, exclusive: bool = False) -> KindRecord:
    seconds = timedelta(seconds=30)
    return KindRecord(
        name="room",
        app="app",
        replicas=replicas,
        exclusive=exclusive,
        runs_alone=exclusive,
        silent_after=seconds,
        start_within=seconds,
    )


def record(**fields: object) -> ResourceRecord:
    return ResourceRecord(uid="1", kind="room", id="x", created=LONG_AGO, **fields)  # type: ignore[arg-type]


def hold(node: NodeId, slot: int = 0, **fields: object) -> AssignedTask:
    assignment = Assignment(kind="room", resource="x", slot=slot, **fields)  # type: ignore[arg-type]
    return AssignedTask(f"room/x#{slot}", node, Revision(7), assignment)


def test_what_is_missing_is_what_its_kind_says_minus_what_it_has() -> None:
    assert cover(record(), kind(), [], [A, B]).missing == 2
    assert cover(record(), kind(), [hold(A)], [A, B]).missing == 1
    assert cover(record(replicas=3), kind(), [hold(A)], [A, B]).missing == 2


def test_a_covered_resource_needs_nothing() -> None:
    both = (hold(A), hold(B, 1))
    assert cover(record(), kind(), both, [A, B, C]) == Coverage(both, (), (), 2, 0)


def test_tasks_of_a_node_that_is_gone_are_taken_from_it_and_missing() -> None:
    seen = cover(record(), kind(), [hold(A), hold(B, 1)], [B])
    assert seen.end == (End(hold(A), "its node is gone"),)
    assert (seen.keep, seen.missing) == ((hold(B, 1),), 1)


def test_an_exclusive_task_of_a_node_that_is_gone_needs_no_word_from_it() -> None:
    seen = cover(record(), kind(1, exclusive=True), [hold(A, exclusive=True)], [B])
    assert (seen.end[0].must_confirm, seen.missing) == (False, 1)


def test_a_removed_resource_loses_all_its_tasks() -> None:
    seen = cover(None, None, [hold(A), hold(B, 1)], [A])
    assert [end.why for end in seen.end] == ["its node is gone", "the resource was removed"]
    assert seen.missing == 0


def test_a_removed_exclusive_resource_keeps_its_task_until_the_node_confirms() -> None:
    alone = hold(A, exclusive=True)
    seen = cover(None, None, [alone], [A, B])
    assert seen.end == (End(alone, "the resource was removed", must_confirm=True),)
    stopping = hold(A, exclusive=True, stopping=True)
    still = cover(None, None, [stopping], [A, B])
    assert (still.keep, still.end, still.missing) == ((stopping,), (), 0)


def test_an_exclusive_resource_added_again_waits_for_the_task_it_had_before() -> None:
    stopping = hold(A, exclusive=True, stopping=True)
    assert cover(record(), kind(1, exclusive=True), [stopping], [A, B]).missing == 0
    gone = cover(record(), kind(1, exclusive=True), [stopping], [B])
    assert ([end.must_confirm for end in gone.end], gone.missing) == ([False], 1)


def test_an_exclusive_task_too_many_must_confirm() -> None:
    both = [hold(A, exclusive=True), hold(B, 1, exclusive=True)]
    seen = cover(record(replicas=1), kind(2, exclusive=True), both, [A, B])
    assert seen.end == (End(both[1], "one task too many", must_confirm=True),)


def test_a_task_that_stops_is_not_counted_in_place_of_one_that_runs() -> None:
    both = [hold(A, exclusive=True, stopping=True), hold(B, 1, exclusive=True)]
    seen = cover(record(replicas=1), kind(2, exclusive=True), both, [A, B])
    assert (seen.end, seen.missing) == ((), 0)


def test_an_exclusive_task_stays_exclusive_while_no_node_declares_its_kind() -> None:
    alone = hold(A, exclusive=True)
    seen = cover(record(), None, [alone], [A, B])
    assert (seen.keep, seen.renew) == ((alone,), ())


def test_surplus_goes_from_the_highest_slots() -> None:
    seen = cover(record(replicas=1), kind(), [hold(A, 2), hold(B, 0), hold(C, 1)], [A, B, C])
    assert seen.keep == (hold(B, 0),)
    assert [end.hold.assignment.slot for end in seen.end] == [1, 2]


def test_a_pin_moves_the_task_and_an_exclusive_one_must_confirm_first() -> None:
    moved = cover(record(pin=B), kind(1), [hold(A)], [A, B])
    assert (moved.end[0].must_confirm, moved.missing) == (False, 1)
    waits = cover(record(pin=B), kind(1, exclusive=True), [hold(A, exclusive=True)], [A, B])
    assert (waits.end[0].must_confirm, waits.missing) == (True, 0)
    stopping = hold(A, exclusive=True, stopping=True)
    still = cover(record(pin=B), kind(1, exclusive=True), [stopping], [A, B])
    assert (still.keep, still.end, still.missing) == ((stopping,), (), 0)
    assert cover(record(pin=B), kind(1, exclusive=True), [], [A, B]).missing == 1


def test_a_changed_spec_is_told_to_the_tasks_where_they_are() -> None:
    seen = cover(record(spec={"a": 2}), kind(1), [hold(A, spec={"a": 1})], [A])
    assert (seen.renew, seen.end, seen.missing) == ((hold(A, spec={"a": 1}),), (), 0)


def test_without_its_kind_a_resource_keeps_what_it_has_and_gets_nothing() -> None:
    seen = cover(record(), None, [hold(A)], [A, B])
    assert (seen.keep, seen.end, seen.missing) == ((hold(A),), (), 0)


def test_evicted_tasks_are_placed_again() -> None:
    seen = cover(record(), kind(), [hold(A), hold(B, 1)], [A, B, C], {"/assign/b/room/x#1"})
    assert (seen.keep, [end.why for end in seen.end], seen.missing) == (
        (hold(A),),
        ["its node has fewer slots than tasks"],
        1,
    )


def test_slots_are_numbered_from_the_lowest_free_one() -> None:
    assert [free_slot(()), free_slot({0, 1}), free_slot({0, 2})] == [0, 2, 1]


def successor(node: NodeId, of: NodeId, slot: int = 0, *, is_running: bool = False) -> AssignedTask:
    """A task that takes the place of another, assigned later."""
    return replace(hold(node, slot, relieves=of), epoch=Revision(8), is_running=is_running)


def test_one_task_of_a_drained_node_is_to_leave_at_a_time() -> None:
    seen = cover(record(), kind(), [hold(A), hold(B, 1)], [A, B, C], drained=[A, B])
    assert (seen.leaving, seen.missing, seen.end) == (hold(A), 0, ())


def test_a_task_and_its_successor_count_as_one_until_that_one_runs() -> None:
    seen = cover(record(), kind(), [hold(A), hold(B, 1), successor(C, A)], [A, B, C], drained=[A, B])
    assert (seen.end, seen.missing, seen.relieved, seen.leaving) == ((), 0, (hold(A),), None)


def test_a_task_ends_when_its_successor_runs() -> None:
    runs = successor(C, A, is_running=True)
    seen = cover(record(), kind(), [hold(A), hold(B, 1), runs], [A, B, C], drained=[A])
    assert [(end.hold, end.why) for end in seen.end] == [(hold(A), "node c runs it now")]
    assert (seen.keep, seen.missing) == ((runs, hold(B, 1)), 0)


def test_a_task_whose_successor_is_lost_is_to_leave_again() -> None:
    lost = successor(C, A)
    seen = cover(record(replicas=1), kind(), [hold(A), lost], [A, B], drained=[A])
    assert ([end.hold for end in seen.end], seen.keep, seen.missing) == ([lost], (hold(A),), 0)
    assert cover(record(replicas=1), kind(), [hold(A)], [A, B], drained=[A]).leaving == hold(A)


def test_a_successor_stays_when_the_node_it_came_from_dies() -> None:
    seen = cover(record(replicas=1), kind(), [hold(A), successor(C, A)], [B, C], drained=[A])
    assert (seen.keep, seen.missing, seen.relieved) == ((successor(C, A),), 0, ())


def test_a_task_that_came_back_is_not_taken_for_the_one_it_was_relieved_by() -> None:
    """`a` gave it to `c` and gets it back; what `c` was told says still that it relieves `a`."""
    there = replace(hold(C, 0, relieves=A), epoch=Revision(7))
    back = replace(hold(A, 0, relieves=C), epoch=Revision(9))
    seen = cover(record(replicas=1), kind(), [there, back], [A, C], drained=[C])
    assert (seen.relieved, seen.end) == ((there,), ())


def test_what_is_late_leaving_a_drained_node_ends() -> None:
    seen = cover(record(), kind(), [hold(A), hold(B, 1)], [A, B, C], drained=[A], overdue=[A])
    assert ([end.why for end in seen.end], seen.missing) == (["its node's drain has taken too long"], 1)
