"""The rules of dispatch: who gets which request, what is answered when nobody can, and that nothing gets lost."""

import pytest

from rota.services.core.codes import Ret
from rota.services.core.dispatch.dispatch import Dispatch
from rota.services.core.dispatch.seats import WorkerSeat
from rota.services.core.frames import MAPLE_TASK, wire
from rota.services.core.parcels import ANSWERED, DONE, FINISH, GIVEN, NO_LIMIT, ParcelDecoder
from rota.services.core.routing import ROUTER, ByField, ByRange, ByWorker
from rota.services.core.table import CmdRoute
from tests.kit.dispatch_bench import WIRE, Bench, Client, table


@pytest.fixture
def client():
    return Client()


# Who gets what


def test_an_idle_worker_gets_a_request_at_once(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 7)
    [(number, left, parcel)] = ParcelDecoder(GIVEN).feed(b"".join(seat.outbox))
    assert parcel == client.address + WIRE.frame(cmd=1, sn=7)
    assert (number, left) == (1, NO_LIMIT)
    assert bench.dispatch.workers.touched == [seat]
    bench.done(seat)
    assert client.answers() == [(7, 0)]
    assert bench.dispatch.answers.touched == [client]


def test_first_come_first_served(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1, 2, 3)
    order = []
    while seat.held:
        order += bench.holds(seat)
        bench.done(seat)
    assert order == [1, 2, 3]


def test_a_worker_that_comes_is_given_what_waits(client):
    bench = Bench()
    bench.ask(client, 1)
    assert bench.holds(bench.worker()) == [1]


def test_callers_take_turns():
    bench = Bench()
    seat = bench.worker()
    greedy, modest = Client("greedy"), Client("modest")
    bench.ask(greedy, 1, 2, 3, 4)
    bench.ask(modest, 11, 12)
    order = []
    while seat.held:
        order += bench.holds(seat)
        bench.done(seat)
    assert order == [1, 2, 11, 3, 12, 4]


def test_no_worker_has_more_than_it_can_take(client):
    bench = Bench()
    seat = bench.worker(capacity=3)
    bench.ask(client, 1, 2, 3, 4)
    assert bench.holds(seat) == [1, 2, 3]
    bench.done(seat, 2)
    assert bench.holds(seat) == [1, 3, 4]


def test_workers_with_room_take_turns(client):
    bench = Bench()
    first, second = bench.worker(capacity=2), bench.worker(capacity=2)
    bench.ask(client, 1, 2, 3)
    assert (bench.holds(first), bench.holds(second)) == ([1, 3], [2])


def test_groups_do_not_share_workers(client):
    bench = Bench()
    one = bench.worker(group=1)
    bench.ask(client, 1, 2, cmd=1)
    bench.ask(client, 3, cmd=2)
    assert bench.holds(one) == [1]
    assert bench.holds(bench.worker(group=2)) == [3]


# What is refused


@pytest.mark.parametrize(
    ("changes", "cmd", "ret"),
    [
        pytest.param({}, 9, Ret.UNKNOWN_CMD, id="a cmd without a handler"),
        pytest.param({"routes": {1: CmdRoute(8)}}, 1, Ret.NO_SUCH_GROUP, id="a group that is not there"),
        pytest.param({"rule": ByRange(((5, 9, 1),))}, 1, Ret.NO_SUCH_GROUP, id="a cmd in no range"),
        pytest.param({"rule": ByField("sn"), "groups": {}}, 1, Ret.NO_SUCH_GROUP, id="no group to choose from"),
    ],
)
def test_what_cannot_be_routed_is_refused(client, changes, cmd, ret):
    bench = Bench(**changes)
    bench.ask(client, 5, cmd=cmd)
    assert client.answers() == [(5, ret)]
    assert bench.dispatch.answers.failures == {ret: 1}
    assert bench.is_balanced


def test_a_full_queue_refuses():
    bench = Bench(queue=4)
    callers = [Client(str(number)) for number in range(5)]
    for sn, caller in enumerate(callers):
        bench.ask(caller, sn)
    assert [caller.answers() for caller in callers] == [[], [], [], [], [(4, Ret.QUEUE_FULL)]]
    assert bench.dispatch.groups[1].queue.discarded == 1
    assert bench.dispatch.groups[1].queue.pending == 4


def test_one_caller_has_half_of_the_queue_at_most(client):
    bench = Bench(queue=4)
    bench.ask(client, 1, 2, 3)
    assert client.answers() == [(3, Ret.QUEUE_FULL)]
    other = Client()
    bench.ask(other, 4)
    assert other.answers() == []


def test_a_queue_of_one_takes_one(client):
    bench = Bench(queue=1)
    bench.ask(client, 1, 2)
    assert client.answers() == [(2, Ret.QUEUE_FULL)]


def test_a_service_that_does_not_tell_failures_is_silent(client):
    bench = Bench(answers_failures=False)
    bench.ask(client, 1, cmd=9)
    assert client.answers() == []
    assert (bench.dispatch.answers.failures[Ret.UNKNOWN_CMD], bench.dispatch.answers.silent) == (1, 1)
    assert bench.is_balanced


# What workers say


def test_a_handler_may_choose_silence(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1, 2)
    bench.done(seat, flags=DONE, answer=b"")
    assert client.answers() == []
    assert bench.dispatch.answers.silent == 1
    assert bench.holds(seat) == [2]
    assert bench.is_balanced


def test_a_request_answered_early_keeps_its_worker_until_it_is_done(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1, 2)
    bench.done(seat, flags=ANSWERED)
    assert client.answers() == [(1, 0)]
    assert bench.holds(seat) == [1]
    bench.done(seat, flags=DONE, answer=b"")
    assert bench.holds(seat) == [2]
    assert bench.dispatch.answers.silent == 0


def test_only_the_first_answer_counts(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1)
    bench.done(seat, flags=ANSWERED)
    bench.done(seat)
    assert client.answers() == [(1, 0)]
    assert bench.dispatch.answers.drops == {"late answer": 1}


def test_word_about_nothing_that_the_worker_has_is_dropped(client):
    bench = Bench()
    seat, other = bench.worker(), bench.worker()
    bench.ask(client, 1)
    [number] = seat.held
    bench.dispatch.returned(other, number, DONE | ANSWERED, b"not mine", bench.now)
    bench.dispatch.returned(seat, number + 1, DONE | ANSWERED, b"not there", bench.now)
    assert client.outbox == []
    assert bench.holds(seat) == [1]
    assert bench.dispatch.answers.drops == {"stray answer": 2}


def test_a_parcel_without_an_answer_answers_nothing(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1)
    bench.done(seat, flags=0, answer=b"")
    assert client.outbox == []
    bench.done(seat)
    assert client.answers() == [(1, 0)]


# Time


def timed(timeout=2.0, **changes):
    return Bench(routes={1: CmdRoute(1, timeout), 2: CmdRoute(2)}, **changes)


def test_a_worker_is_told_how_much_time_is_left(client):
    bench = timed()
    bench.ask(client, 1)
    bench.now = 0.5
    seat = bench.worker()
    assert GIVEN.unpack_from(seat.outbox[0])[2] == 1500


def test_a_request_that_waits_too_long_is_answered_and_never_runs(client):
    bench = timed()
    bench.ask(client, 1)
    assert bench.pass_time(1.9) == 2.0
    assert client.answers() == []
    assert bench.pass_time(0.1) is None
    assert client.answers() == [(1, Ret.DEADLINE)]
    assert bench.dispatch.groups[1].queue.discarded == 1
    assert bench.worker().held == {}
    assert bench.is_balanced


def test_what_is_too_late_does_not_run_even_if_nobody_has_looked_yet(client):
    bench = timed()
    seat = bench.worker()
    bench.ask(client, 1, 2)
    bench.now = 2.0
    bench.done(seat)
    assert client.answers() == [(1, 0), (2, Ret.DEADLINE)]
    assert seat.held == {}
    assert bench.dispatch.expire(bench.now) is None
    assert bench.dispatch.workers.overdue == []


def test_a_request_that_works_too_long_is_answered_and_its_worker_is_overdue(client):
    bench = timed()
    seat = bench.worker()
    bench.ask(client, 1)
    bench.pass_time(2.0)
    assert client.answers() == [(1, Ret.DEADLINE)]
    assert bench.dispatch.workers.overdue == [seat]
    bench.dispatch.seat_lost(seat, bench.now)
    assert client.answers() == [(1, Ret.DEADLINE)]
    assert bench.is_balanced


def test_a_worker_is_not_overdue_for_the_time_that_a_request_waited(client):
    bench = timed()
    bench.ask(client, 1)
    bench.pass_time(1.5)
    seat = bench.worker()
    assert bench.pass_time(0.5) == 3.5
    assert client.answers() == [(1, Ret.DEADLINE)]
    assert bench.dispatch.workers.overdue == []
    bench.pass_time(1.5)
    assert bench.dispatch.workers.overdue == [seat]


def test_a_worker_with_a_grace_may_end_a_late_request_by_itself(client):
    bench = timed()
    seat = bench.worker(grace=0.5)
    bench.ask(client, 1)
    assert bench.pass_time(2.0) == 2.5
    bench.done(seat)
    assert bench.pass_time(1.0) is None
    assert bench.dispatch.workers.overdue == []
    assert client.answers() == [(1, Ret.DEADLINE)]
    assert bench.dispatch.answers.drops == {"late answer": 1}


def test_after_its_grace_a_worker_is_overdue(client):
    bench = timed()
    seat = bench.worker(grace=0.5)
    bench.ask(client, 1)
    bench.pass_time(2.0)
    bench.pass_time(0.5)
    assert bench.dispatch.workers.overdue == [seat]


def test_a_worker_that_may_be_stuck_gets_no_others_until_it_returns_what_is_late(client):
    bench = Bench(routes={1: CmdRoute(1, timeout=1.0), 2: CmdRoute(1)})
    stuck, other = bench.worker(capacity=2, grace=0.5), bench.worker(capacity=2, grace=0.5)
    bench.ask(client, 1)
    bench.pass_time(1)
    bench.ask(client, 2, 3, 4, cmd=2)
    assert (bench.holds(stuck), bench.holds(other)) == ([1], [2, 3])
    bench.done(stuck)
    assert bench.holds(stuck) == [4]


def test_a_worker_that_got_a_request_late_is_not_taken_for_stuck(client):
    bench = Bench(routes={1: CmdRoute(1, timeout=1.0), 2: CmdRoute(1)})
    bench.ask(client, 1)
    bench.pass_time(0.9)
    seat = bench.worker(capacity=2, grace=0.5)
    bench.pass_time(0.1)
    bench.ask(client, 2, cmd=2)
    assert bench.holds(seat) == [1, 2]


def test_an_overdue_worker_is_named_again_until_it_is_gone(client):
    bench = timed()
    seat = bench.worker(capacity=2)
    bench.ask(client, 1)
    assert bench.pass_time(2.0) == 3.0
    bench.dispatch.workers.overdue.clear()
    assert bench.pass_time(0.9) == 3.0
    assert bench.dispatch.workers.overdue == []
    assert bench.pass_time(0.1) == 4.0
    assert bench.dispatch.workers.overdue == [seat]
    bench.dispatch.seat_lost(seat, bench.now)
    assert bench.pass_time(9.0) is None


def test_the_shortest_time_is_looked_at_first(client):
    bench = Bench(routes={1: CmdRoute(1, 5.0), 2: CmdRoute(2, 1.0)})
    bench.ask(client, 1)
    bench.ask(client, 2, cmd=2)
    assert bench.pass_time(0.0) == 1.0
    assert bench.pass_time(1.0) == 5.0
    assert client.answers() == [(2, Ret.DEADLINE)]


def test_an_answered_request_whose_worker_is_lost_has_no_time_any_more(client):
    bench = timed()
    seat = bench.worker()
    bench.ask(client, 1)
    bench.done(seat, flags=ANSWERED)
    bench.dispatch.seat_lost(seat, bench.now)
    assert bench.pass_time(5.0) is None
    assert client.answers() == [(1, 0)]


def test_deadlines_of_tables_that_are_gone_leave_nothing_behind(client):
    bench = timed(2.0)
    seat = bench.worker()
    for timeout in range(3, 50):
        bench.ask(client, 1)
        bench.done(seat)
        bench.serve(routes={1: CmdRoute(1, float(timeout))})
    assert len(bench.dispatch.deadlines.by_timeout) <= 1


# Clients that are gone


def test_what_a_client_sent_before_it_closed_still_runs(client):
    bench = timed()
    seat = bench.worker()
    other = Client()
    bench.ask(client, 1, 2, 3)
    bench.ask(other, 4)
    bench.dispatch.caller_gone(client)
    ran = []
    while seat.held:
        ran += bench.holds(seat)
        bench.done(seat)
    assert sorted(ran) == [1, 2, 3, 4]
    assert client.outbox == []
    assert bench.dispatch.answers.drops == {"answer to a client that is gone": 3}
    assert bench.dispatch.groups[1].queue.discarded == 0
    assert bench.is_balanced


def test_an_idempotent_request_of_a_vanished_client_runs_again(client):
    bench = Bench(routes={1: CmdRoute(1, None, is_idempotent=True)})
    seat = bench.worker()
    bench.ask(client, 1)
    bench.dispatch.seat_lost(seat, bench.now)
    bench.dispatch.caller_gone(client)
    assert bench.holds(bench.worker()) == [1]
    assert bench.is_balanced


def test_a_client_that_leaves_is_touched_when_its_last_request_is_settled(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1, 2)
    client.is_leaving = True
    bench.dispatch.returned(seat, 1, DONE, b"", bench.now)  # it chose silence
    assert (client.unanswered, bench.dispatch.answers.touched) == (1, [])
    bench.dispatch.returned(seat, 2, DONE, b"", bench.now)
    assert (client.unanswered, bench.dispatch.answers.touched) == (0, [client])


# Bytes that wait


@pytest.mark.parametrize("callers", [1, 2])
def test_what_waits_is_bounded_in_bytes(callers):
    size = len(WIRE.frame(cmd=1, sn=1))
    bench = Bench(queue_bytes=10 * size)
    clients = [Client() for _ in range(callers)]
    for sn in range(12):
        for client in clients:
            bench.ask(client, sn)
    group = bench.dispatch.groups[1]
    assert group.queue.size == group.queue.pending * size == callers * 5 * size
    assert all(len(client.answers()) == 7 for client in clients)
    seats = [bench.worker() for _ in range(group.queue.pending)]
    assert (group.queue.size, group.queue.pending, len(seats)) == (0, 0, 5 * callers)
    assert [client.waiting for client in clients] == [0] * callers
    assert bench.is_balanced


def test_one_frame_may_wait_whatever_its_size(client):
    bench = Bench(queue_bytes=1)
    bench.ask(client, 1)
    assert bench.dispatch.groups[1].queue.pending == 1
    bench.ask(Client(), 2)
    assert bench.dispatch.groups[1].queue.pending == 1


# Workers that do not end


def test_a_worker_that_should_have_left_is_named_after_its_patience_and_again_after_twice_as_long(client):
    bench = Bench()
    seat, other = bench.worker(), bench.worker()
    bench.ask(client, 1, 2)
    bench.pass_time(5)
    bench.dispatch.seat_leaves(seat.worker, bench.now, 10.0)
    named = []
    for _ in range(100):
        bench.pass_time(1)
        named += [
            (bench.now, ticket.seat, bench.now - ticket.given) for ticket in bench.dispatch.workers.held_up(bench.now)
        ]
    assert named == [(15, seat, 15), (25, seat, 25), (45, seat, 45), (85, seat, 85)]
    bench.done(seat)
    assert bench.dispatch.workers.held_up(bench.now + 1000) == []
    assert [ticket.seat for ticket in bench.dispatch.workers.slow(bench.now)] == [other]


def test_slow_requests_are_shown_the_oldest_first_and_not_too_many(client):
    bench = Bench()
    seats = []
    for sn in range(15):
        seats.append(bench.worker())
        bench.ask(client, sn)
        bench.pass_time(1)
    assert [ticket.seat for ticket in bench.dispatch.workers.slow(bench.now)] == seats[:6]
    bench.pass_time(100)
    assert [ticket.seat for ticket in bench.dispatch.workers.slow(bench.now)] == seats[:10]


# Workers that are gone


def test_a_request_whose_worker_is_lost_is_not_run_again(client):
    bench = timed()
    seat, other = bench.worker(), bench.worker(capacity=2)
    bench.ask(client, 1)
    bench.dispatch.seat_lost(seat, bench.now)
    assert client.answers() == [(1, Ret.WORKER_LOST)]
    assert other.held == {}
    assert bench.pass_time(9) is None


def test_an_idempotent_one_is_run_once_more_before_the_others(client):
    bench = Bench(routes={1: CmdRoute(1, None, is_idempotent=True)})
    seat = bench.worker()
    bench.ask(client, 1, 2)
    bench.dispatch.seat_lost(seat, bench.now)
    second = bench.worker()
    assert bench.holds(second) == [1]
    bench.dispatch.seat_lost(second, bench.now)
    assert client.answers() == [(1, Ret.WORKER_LOST)]
    assert bench.holds(bench.worker()) == [2]


def test_a_second_run_keeps_the_time_of_the_first(client):
    bench = Bench(routes={1: CmdRoute(1, 2.0, is_idempotent=True)})
    bench.ask(client, 1)
    seat = bench.worker()
    bench.dispatch.seat_lost(seat, bench.now)
    bench.pass_time(2.0)
    assert client.answers() == [(1, Ret.DEADLINE)]
    assert bench.dispatch.groups[1].queue.pending == 0


def test_a_worker_is_lost_only_once(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1)
    bench.dispatch.seat_lost(seat, bench.now)
    bench.dispatch.seat_lost(seat, bench.now)
    assert client.answers() == [(1, Ret.WORKER_LOST)]


# Generations


def test_only_the_active_generation_gets_requests(client):
    bench = Bench()
    old, new = bench.worker(generation=1), bench.worker(generation=2)
    bench.ask(client, 1, 2)
    assert (bench.holds(old), bench.holds(new)) == ([1], [])
    bench.serve(groups={1: 2, 2: 1})
    assert bench.holds(new) == [2]
    bench.done(old)
    bench.ask(client, 3)
    assert old.held == {}
    bench.done(new)
    assert bench.holds(new) == [3]


def test_a_flip_back_makes_the_old_ones_free_again(client):
    bench = Bench()
    old, new = bench.worker(generation=1), bench.worker(generation=2)
    bench.serve(groups={1: 2, 2: 1})
    bench.serve(groups={1: 1, 2: 1})
    bench.ask(client, 1)
    assert (bench.holds(old), bench.holds(new)) == ([1], [])


@pytest.mark.parametrize("flips_first", [True, False])
def test_nothing_runs_a_second_time_in_another_generation(client, flips_first):
    bench = Bench(routes={1: CmdRoute(1, None, is_idempotent=True)})
    old = bench.worker(generation=1)
    bench.ask(client, 1)
    if flips_first:
        bench.serve(groups={1: 2}, routes={1: CmdRoute(1, None, is_idempotent=True)})
    bench.dispatch.seat_lost(old, bench.now)
    if not flips_first:
        bench.serve(groups={1: 2}, routes={1: CmdRoute(1, None, is_idempotent=True)})
    assert client.answers() == [(1, Ret.WORKER_LOST)]
    assert bench.worker(generation=2).held == {}
    assert bench.is_balanced


# Leaving


def test_a_leaving_worker_ends_what_it_has_and_gets_nothing_more(client):
    bench = Bench()
    seat = bench.worker(capacity=2)
    bench.ask(client, 1)
    seat.outbox.clear()
    assert bench.dispatch.seat_leaves(seat.worker, bench.now)
    assert seat.outbox == []
    bench.ask(client, 2)
    assert bench.holds(seat) == [1]
    bench.done(seat)
    assert seat.outbox == [FINISH]
    assert bench.dispatch.seat_leaves(seat.worker, bench.now)
    assert seat.outbox == [FINISH]


def test_an_idle_worker_that_should_leave_is_told_at_once():
    bench = Bench()
    seat = bench.worker()
    bench.dispatch.seat_leaves(seat.worker, bench.now)
    assert seat.outbox == [FINISH]
    assert not bench.dispatch.groups[1].free


def test_a_worker_that_is_not_here_cannot_leave():
    assert not Bench().dispatch.seat_leaves(77, 0.0)


# Groups that come and go


def test_a_group_that_is_closed_works_off_what_waits(client):
    bench = Bench()
    seat = bench.worker(group=2)
    bench.ask(client, 1, 2, cmd=2)
    bench.serve(groups={1: 1}, routes={1: CmdRoute(1)})
    bench.dispatch.seat_leaves(seat.worker, bench.now)
    bench.done(seat)
    assert bench.holds(seat) == [2]
    bench.done(seat)
    assert seat.outbox[-1] == FINISH
    bench.dispatch.seat_lost(seat, bench.now)
    assert client.answers() == [(1, 0), (2, 0)]
    assert 2 not in bench.dispatch.groups
    assert not any(group == 2 for group, _ in bench.dispatch.answers.latencies)


def test_a_leaving_worker_of_another_generation_does_not_work_off_a_closed_group(client):
    bench = Bench()
    other = bench.worker(group=2, generation=2)
    bench.ask(client, 1, cmd=2)
    bench.serve(groups={1: 1}, routes={1: CmdRoute(1)})
    bench.dispatch.seat_leaves(other.worker, bench.now)
    assert other.held == {}
    bench.dispatch.seat_lost(other, bench.now)
    assert client.answers() == [(1, Ret.NO_SUCH_GROUP)]
    assert bench.is_balanced


def test_what_waits_for_a_group_that_goes_follows_its_cmd(client):
    bench = timed()
    seat = bench.worker(group=2, generation=1)
    bench.ask(client, 1, 2, 3, cmd=2)
    one = bench.worker(group=1, generation=2)
    bench.serve(groups={1: 2}, routes={1: CmdRoute(1), 2: CmdRoute(1)})
    assert (bench.holds(seat), bench.holds(one)) == ([1], [2])
    bench.done(one)
    assert bench.holds(one) == [3]
    assert bench.is_balanced


def test_a_group_with_neither_table_nor_workers_answers_what_it_has(client):
    bench = timed()
    bench.ask(client, 1)
    bench.serve(groups={2: 1}, routes={2: CmdRoute(2)})
    assert client.answers() == [(1, Ret.NO_SUCH_GROUP)]
    assert list(bench.dispatch.groups) == [2]
    assert bench.pass_time(9) is None


def test_a_worker_of_a_group_that_is_not_served_yet_waits_for_the_table(client):
    bench = Bench()
    seat = bench.worker(group=3, generation=2)
    bench.serve(groups={1: 1, 3: 2}, routes={3: CmdRoute(3)})
    bench.ask(client, 1, cmd=3)
    assert bench.holds(seat) == [1]


def test_another_layout_answers_what_waits_in_the_old_one(client):
    bench = timed()
    seat = bench.worker()
    bench.ask(client, 1, 2)
    bench.serve(layout=MAPLE_TASK, groups={1: 2})
    assert client.answers() == [(2, Ret.STOPPING)]
    bench.dispatch.seat_lost(seat, bench.now)
    assert client.answers() == [(2, Ret.STOPPING), (1, Ret.WORKER_LOST)]
    assert bench.is_balanced


# Rules


def test_equal_fields_meet_in_one_group(client):
    bench = Bench(rule=ByField("flag"))
    one, two = bench.worker(group=1, capacity=9), bench.worker(group=2, capacity=9)
    for sn, flag in enumerate([0, 1, 2, 3, -1]):
        bench.ask(client, sn, flag=flag)
    assert (bench.holds(one), bench.holds(two)) == ([0, 2], [1, 3, 4])


def test_a_field_of_bytes_chooses_too(client):
    layout = wire(MAPLE_TASK)
    dispatch = Dispatch(table(rule=ByField("client_ip_num"), layout=MAPLE_TASK))
    seats = [WorkerSeat(group, group, 1, capacity=9) for group in (1, 2)]
    for seat in seats:
        dispatch.seat_joined(seat, 0.0)
    for last in range(4):
        dispatch.arrive(client, 1, layout.frame(cmd=1, client_ip_num=bytes(15) + bytes([last])), 0.0)
    assert [len(seat.held) for seat in seats] == [2, 2]


def test_ranges_of_cmds_choose(client):
    bench = Bench(rule=ByRange(((1, 1, 2), (2, 9, 1))))
    one, two = bench.worker(group=1), bench.worker(group=2)
    bench.ask(client, 1, cmd=1)
    bench.ask(client, 2, cmd=2)
    assert (bench.holds(one), bench.holds(two)) == ([2], [1])


def routed(**changes):
    return Bench(rule=ByWorker(), groups={1: 1, 2: 1, ROUTER: 1}, **changes)


def choose(bench, router, group, sn=None):
    bench.done(router, sn, flags=DONE, answer=b"" if group is None else group.to_bytes(4, "big", signed=True))


def test_a_function_of_the_users_chooses_in_a_worker_of_its_own(client):
    bench = routed()
    router, two = bench.worker(group=ROUTER, capacity=16), bench.worker(group=2)
    bench.ask(client, 1, 2)
    assert bench.holds(router) == [1, 2]
    choose(bench, router, 2, 1)
    assert bench.holds(two) == [1]
    bench.done(two)
    assert client.answers() == [(1, 0)]
    assert list(bench.dispatch.answers.latencies) == [(2, 1)]


@pytest.mark.parametrize(
    ("group", "ret"),
    [
        pytest.param(None, Ret.HANDLER_ERROR, id="the function failed"),
        pytest.param(9, Ret.NO_SUCH_GROUP, id="it names a group that is not there"),
    ],
)
def test_a_request_that_cannot_be_routed_is_answered(client, group, ret):
    bench = routed(routes={1: CmdRoute(1, 2.0)})
    router = bench.worker(group=ROUTER)
    bench.ask(client, 1)
    choose(bench, router, group)
    assert client.answers() == [(1, ret)]
    assert bench.pass_time(9) is None
    assert bench.is_balanced


def test_a_routed_request_meets_the_bound_of_its_groups_queue(client):
    bench = routed(queue=2, routes={1: CmdRoute(1, 2.0)})
    router = bench.worker(group=ROUTER, capacity=16)
    bench.ask(client, 1, 2)
    choose(bench, router, 1, 1)
    choose(bench, router, 1, 2)
    assert client.answers() == [(2, Ret.QUEUE_FULL)]
    assert bench.pass_time(5) is None
    assert client.answers() == [(2, Ret.QUEUE_FULL), (1, Ret.DEADLINE)]


def test_what_is_routed_while_its_client_closes_still_runs(client):
    bench = routed(routes={1: CmdRoute(1, 2.0)})
    router, one = bench.worker(group=ROUTER), bench.worker(group=1)
    bench.ask(client, 1)
    bench.dispatch.caller_gone(client)
    choose(bench, router, 1)
    assert bench.holds(one) == [1]
    bench.done(one)
    assert bench.dispatch.answers.drops == {"answer to a client that is gone": 1}
    assert bench.is_balanced


def test_a_request_that_became_late_while_it_was_routed_does_not_run(client):
    bench = routed(routes={1: CmdRoute(1, 2.0)})
    router, one = bench.worker(group=ROUTER), bench.worker(group=1)
    bench.ask(client, 1)
    bench.pass_time(2.0)
    choose(bench, router, 1)
    assert client.answers() == [(1, Ret.DEADLINE)]
    assert one.held == {}


def test_what_waits_to_be_routed_goes_by_cmd_when_there_is_no_function_any_more(client):
    bench = routed()
    one = bench.worker(group=1)
    bench.ask(client, 1)
    bench.serve(groups={1: 1, 2: 1}, rule=None)
    assert bench.holds(one) == [1]
    assert ROUTER not in bench.dispatch.groups


@pytest.mark.parametrize("rule", [ByWorker(), None])
def test_a_group_that_only_the_old_function_knows_is_asked_for_again(client, rule):
    bench = routed()
    old, one = bench.worker(group=ROUTER, generation=1), bench.worker(group=1, generation=2)
    bench.ask(client, 1)
    groups = {1: 2, ROUTER: 2} if rule else {1: 2}
    bench.serve(groups=groups, rule=rule)
    choose(bench, old, 2)
    assert client.answers() == []
    if rule:
        choose(bench, bench.worker(group=ROUTER, generation=2), 1)
    assert bench.holds(one) == [1]


def test_a_lost_router_costs_what_it_held(client):
    bench = routed()
    router = bench.worker(group=ROUTER, capacity=16)
    bench.ask(client, 1, 2)
    bench.dispatch.seat_lost(router, bench.now)
    assert client.answers() == [(1, Ret.WORKER_LOST), (2, Ret.WORKER_LOST)]


# Clear and stop


def test_clear_drops_what_waits_and_leaves_what_runs(client):
    bench = timed()
    seat = bench.worker()
    bench.ask(client, 1, 2, 3)
    bench.ask(client, 4, cmd=2)
    assert bench.dispatch.clear([1, 1, 7]) == {1: 2}
    assert client.answers() == [(2, Ret.QUEUE_FULL), (3, Ret.QUEUE_FULL)]
    assert bench.holds(seat) == [1]
    assert bench.dispatch.groups[1].queue.discarded == 2
    assert bench.dispatch.clear(None) == {1: 0, 2: 1}
    assert bench.is_balanced


def test_clear_drops_second_runs_too(client):
    bench = Bench(routes={1: CmdRoute(1, 2.0, is_idempotent=True)})
    seat = bench.worker()
    bench.ask(client, 1)
    bench.dispatch.seat_lost(seat, bench.now)
    assert bench.dispatch.clear(None) == {1: 1, 2: 0}
    assert client.answers() == [(1, Ret.QUEUE_FULL)]
    assert bench.worker().held == {}
    assert bench.pass_time(9) is None


def test_clear_leaves_what_waits_to_be_routed(client):
    bench = routed()
    bench.ask(client, 1)
    assert bench.dispatch.clear(None) == {1: 0, 2: 0}
    assert bench.holds(bench.worker(group=ROUTER)) == [1]


def test_a_stopping_service_works_off_what_it_has(client):
    bench = Bench()
    seat = bench.worker()
    bench.ask(client, 1, 2)
    bench.dispatch.stop()
    bench.ask(client, 3)
    assert client.answers() == [(3, Ret.STOPPING)]
    assert not bench.dispatch.is_idle
    bench.done(seat)
    bench.done(seat)
    assert client.answers() == [(3, Ret.STOPPING), (1, 0), (2, 0)]
    assert bench.dispatch.is_idle


def test_giving_up_answers_all_that_is_here_once(client):
    bench = timed()
    seat = bench.worker()
    bench.ask(client, 1, 2)
    bench.dispatch.give_up()
    bench.done(seat)
    assert sorted(client.answers()) == [(1, Ret.STOPPING), (2, Ret.STOPPING)]
    assert bench.pass_time(9) is None
    assert bench.dispatch.workers.overdue == []
    assert bench.is_balanced


# Figures


def test_durations_are_counted_below_their_marks(client):
    bench = Bench()
    seat = bench.worker()
    for took in (0.0, 0.009, 0.010, 0.0999, 4.9, 5.0):
        bench.ask(client, 1)
        bench.now += took
        bench.done(seat)
    assert bench.dispatch.answers.times == [2, 1, 1, 0, 0, 1, 1]
    assert bench.dispatch.answers.latencies[1, 1].total() == 6
