"""Tasks move among host workers without a moment in which nobody runs them."""

from hypothesis import given
from hypothesis import strategies as st

from rota.kit.time.instant import Instant
from rota.runtime.core.handover import Copy, CopyPhase, Move, StartCopy, StopCopy, plan
from rota.runtime.core.restart import Falls, RestartPolicy

POLICY = RestartPolicy()
NOW = Instant(100.0)
RUNNING, STARTING, STOPPING = CopyPhase.RUNNING, CopyPhase.STARTING, CopyPhase.STOPPING


def moves(
    orders: dict[str, int], copies: list[Copy], hosts: set[int], falls: dict[str, Falls] | None = None
) -> list[Move]:
    return plan(orders, copies, hosts, falls or {}, POLICY, NOW)[0]


def test_tasks_are_spread_over_the_hosts() -> None:
    orders = {f"t{number}": 1 for number in range(6)}
    assert [move.worker for move in moves(orders, [], {1, 2, 3})] == [1, 2, 3, 1, 2, 3]


def test_without_a_host_everything_waits() -> None:
    assert moves({"t": 1}, [], set()) == []
    assert moves({"t": 1}, [Copy("t", 1, 7, RUNNING)], set()) == [], "an old host goes on until there is a new one"


def test_what_is_not_ordered_stops() -> None:
    assert moves({}, [Copy("t", 1, 1, RUNNING)], {1}) == [StopCopy("t", 1, 1, "not assigned any more")]
    assert moves({}, [Copy("t", 1, 1, STOPPING)], {1}) == []


def test_a_task_on_a_leaving_host_gets_a_successor_first() -> None:
    old = Copy("t", 1, 1, RUNNING)
    assert moves({"t": 1}, [old], {2}) == [StartCopy("t", 2)]
    assert moves({"t": 1}, [old, Copy("t", 1, 2, STARTING)], {2}) == []
    assert moves({"t": 1}, [old, Copy("t", 1, 2, RUNNING)], {2}) == [StopCopy("t", 1, 1, "handed over")]


def test_a_new_epoch_starts_when_the_old_copy_has_ended() -> None:
    old = Copy("t", 1, 1, RUNNING)
    assert moves({"t": 2}, [old], {1}) == [StopCopy("t", 1, 1, "epoch 2 took its place")]
    assert moves({"t": 2}, [Copy("t", 1, 1, STOPPING)], {1}) == []
    assert moves({"t": 2}, [], {1}) == [StartCopy("t", 1)]


def test_a_task_that_failed_waits_for_its_turn() -> None:
    falls = {"t": Falls(3, Instant(NOW - 0.1), "ValueError")}
    again, look = plan({"t": 1}, [], {1}, falls, POLICY, NOW)
    assert again == []
    assert look is not None
    assert plan({"t": 1}, [], {1}, falls, POLICY, look)[0] == [StartCopy("t", 1)]


phases = st.sampled_from([STARTING, RUNNING, STOPPING])
copies = st.builds(Copy, st.sampled_from(["a", "b", "c"]), st.integers(1, 2), st.integers(1, 4), phases)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 2)),
    st.lists(copies, max_size=8, unique_by=lambda copy: (copy.task, copy.epoch, copy.worker)),
    st.sets(st.integers(1, 4), min_size=1),
)
def test_carried_out_again_and_again_each_order_runs_once_and_nothing_else_does(
    orders: dict[str, int], first: list[Copy], hosts: set[int]
) -> None:
    there = {(copy.task, copy.epoch, copy.worker): copy.phase for copy in first}
    for _ in range(8):
        before = running(there, orders)
        for move in moves(orders, [Copy(*key, phase) for key, phase in there.items()], hosts):
            match move:
                case StartCopy(task=task, worker=worker):
                    assert (task, orders[task], worker) not in there
                    there[task, orders[task], worker] = STARTING
                case StopCopy(task=task, epoch=epoch, worker=worker):
                    there[task, epoch, worker] = STOPPING
        assert before <= running(there, orders), "a task that ran under its present epoch stopped running"
        there = {key: RUNNING for key, phase in there.items() if phase != STOPPING}
    present = [key for key in there if orders.get(key[0]) == key[1]]
    assert {task for task, _, _ in present} == set(orders)
    assert len(present) == len(there), "something runs that nobody ordered"
    assert all(worker in hosts for _, _, worker in there)


def running(there: dict[tuple[str, int, int], CopyPhase], orders: dict[str, int]) -> set[str]:
    return {task for (task, epoch, _), phase in there.items() if phase == RUNNING and orders.get(task) == epoch}


def test_tasks_apart_go_to_their_own_hosts_and_come_back_by_hand_over() -> None:
    apart = {"x": [7], "waits": []}
    moves, _ = plan({"x": 1, "y": 1, "waits": 1}, [], [1], {}, RestartPolicy(), Instant(0.0), apart)
    assert moves == [StartCopy("x", 7), StartCopy("y", 1)]
    there = [Copy("x", 1, 7, CopyPhase.RUNNING)]
    assert plan({"x": 1}, there, [1], {}, RestartPolicy(), Instant(0.0), apart)[0] == []
    assert plan({"x": 1}, there, [1], {}, RestartPolicy(), Instant(0.0))[0] == [StartCopy("x", 1)]
    both = [*there, Copy("x", 1, 1, CopyPhase.RUNNING)]
    assert plan({"x": 1}, both, [1], {}, RestartPolicy(), Instant(0.0))[0] == [StopCopy("x", 1, 7, "handed over")]
