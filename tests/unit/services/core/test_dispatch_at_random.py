"""Dispatch under any sequence of what can happen: every request is answered once, and everything adds up."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.services.core.parcels import ANSWERED, DONE, FINISH
from rota.services.core.routing import ROUTER, ByField, ByRange, ByWorker
from rota.services.core.table import CmdRoute
from tests.kit.dispatch_bench import WIRE, Bench, Client

QUEUE = 6
GENERATIONS = st.sampled_from([1, 1, 2])
TABLES = st.builds(
    lambda groups, one, two, rule, is_idempotent, timeout: {
        "groups": groups | ({ROUTER: 1} if rule == ByWorker() else {}),
        "routes": {1: CmdRoute(one, timeout, is_idempotent), 2: CmdRoute(two)},
        "rule": rule,
        "queue": QUEUE,
    },
    groups=st.fixed_dictionaries({1: GENERATIONS}, optional={2: GENERATIONS, 3: GENERATIONS}),
    one=st.sampled_from([1, 1, 2, 3]),
    two=st.sampled_from([2, 2, 1, 3]),
    rule=st.sampled_from([None, None, ByField("sn"), ByRange(((1, 1, 2), (2, 2, 3))), ByWorker()]),
    is_idempotent=st.booleans(),
    timeout=st.sampled_from([None, 1.0, 3.0]),
)


class AnythingHappens(RuleBasedStateMachine):
    """Whatever clients, workers, the agent and time do."""

    def __init__(self):
        super().__init__()
        self.bench = Bench(queue=QUEUE, routes={1: CmdRoute(1, 1.0, is_idempotent=True), 2: CmdRoute(2, 3.0)})
        self.clients = [Client(str(number)) for number in range(3)]
        self.seats = [self.bench.worker(group, capacity=capacity) for group in (1, 2, ROUTER) for capacity in (1, 2)]
        self.asked = {}
        self.silent = set()

    @property
    def dispatch(self):
        return self.bench.dispatch

    def some(self, data, things):
        return data.draw(st.sampled_from(things))

    @rule(data=st.data(), cmd=st.sampled_from([1, 1, 2, 9]), count=st.integers(1, 5))
    def somebody_asks(self, data, cmd, count):
        client = self.some(data, self.clients)
        for _ in range(count):
            sn = len(self.asked)
            self.asked[sn] = client
            self.bench.ask(client, sn, cmd=cmd)

    @rule(data=st.data())
    def a_client_hangs_up(self, data):
        client = self.some(data, self.clients)
        self.dispatch.caller_gone(client)
        self.clients[self.clients.index(client)] = Client()

    @rule(
        group=st.sampled_from([1, 2, 3, ROUTER]),
        generation=GENERATIONS,
        capacity=st.integers(1, 3),
        grace=st.sampled_from([0.0, 0.5]),
    )
    def a_worker_comes(self, group, generation, capacity, grace):
        self.seats.append(self.bench.worker(group, generation, capacity, grace))

    @precondition(lambda self: any(seat.held for seat in self.seats))
    @rule(data=st.data(), flags=st.sampled_from([0, ANSWERED, DONE, DONE | ANSWERED, DONE | ANSWERED]))
    def a_worker_says_something(self, data, flags):
        seat = self.some(data, [seat for seat in self.seats if seat.held])
        number = self.some(data, sorted(seat.held))
        ticket = seat.held[number]
        answer = WIRE.reply(ticket.frame, 0)
        if seat.group == ROUTER:
            answer = b"" if not flags & ANSWERED else self.some(data, [1, 2, 3]).to_bytes(4, "big", signed=True)
        elif flags == DONE and not ticket.is_answered:
            self.silent.add(WIRE.cmd_and_sn(ticket.frame)[1])
        self.dispatch.returned(seat, number, flags, answer, self.bench.now)

    @precondition(lambda self: self.seats)
    @rule(data=st.data())
    def a_worker_is_lost(self, data):
        seat = self.some(data, self.seats)
        self.seats.remove(seat)
        self.dispatch.seat_lost(seat, self.bench.now)

    @precondition(lambda self: self.seats)
    @rule(data=st.data())
    def a_worker_should_leave(self, data):
        assert self.dispatch.seat_leaves(self.some(data, self.seats).worker, self.bench.now)

    @rule(seconds=st.sampled_from([0.0, 0.4, 1.0, 3.0]), looks=st.booleans())
    def time_passes(self, seconds, looks):
        self.bench.now += seconds
        if looks:
            look_again = self.dispatch.expire(self.bench.now)
            assert look_again is None or look_again > self.bench.now
            self.dispatch.workers.overdue.clear()

    @rule(changes=TABLES)
    def other_code_comes(self, changes):
        self.bench.serve(**changes)

    @rule(groups=st.none() | st.lists(st.sampled_from([1, 2, 3])))
    def somebody_clears(self, groups):
        waiting = {number: group.queue.pending for number, group in self.dispatch.groups.items() if number != ROUTER}
        dropped = self.dispatch.clear(groups)
        assert dropped == {number: waiting[number] for number in waiting if groups is None or number in groups}

    @invariant()
    def everything_adds_up(self):
        assert self.bench.is_balanced
        for group in self.dispatch.groups.values():
            lines = [len(line) for line in group.queue.lines.values()]
            assert group.queue.pending == sum(lines) + len(group.queue.again)
            assert sum(lines) <= QUEUE
            assert max(lines, default=0) <= QUEUE // 2
            assert not (group.free and group.queue.pending)
            assert all(seat.generation == group.active and not seat.is_leaving for seat in group.free)
            assert set(group.free) == {seat for seat in group.seats.values() if seat.is_free}
            assert group.is_known or group.seats

    @invariant()
    def nobody_has_too_much_or_is_left_behind(self):
        for seat in self.seats:
            assert len(seat.held) <= seat.capacity
            assert FINISH not in seat.outbox[:-1]
            assert all(ticket.seat is seat for ticket in seat.held.values())

    def teardown(self):
        for seat in self.seats[::2]:
            self.dispatch.seat_lost(seat, self.bench.now)
        self.dispatch.stop()
        self.dispatch.give_up()
        for seat in self.seats[1::2]:
            self.dispatch.seat_lost(seat, self.bench.now)
        assert self.dispatch.is_idle
        assert self.dispatch.expire(self.bench.now + 100) is None
        for client in set(self.asked.values()):
            answers = Counter(sn for sn, _ in client.answers())
            due = {sn for sn, asker in self.asked.items() if asker is client} - self.silent
            assert max(answers.values(), default=0) <= 1
            assert answers.keys() >= due or not client.is_open


TestAnythingHappens = AnythingHappens.TestCase
TestAnythingHappens.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
