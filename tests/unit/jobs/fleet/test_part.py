"""A node's part in jobs, on the memory store in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any, cast
from unittest.mock import AsyncMock

from rota.fleet.members.session import NodeSession, in_session
from rota.fleet.members.status import publish_status
from rota.jobs.core.due import new_run
from rota.jobs.core.outcome import bind
from rota.jobs.core.records import Cause, JobSpec, Origin, Outcome, RunOrder, RunRecord, RunState, order_for
from rota.jobs.fleet import verbs
from rota.jobs.fleet.ends import EndedAttempt, PendingOutcomes
from rota.jobs.fleet.owner import UNTOLD
from rota.jobs.fleet.part import JobsDependencies, JobsPart
from rota.kit.record import replace
from rota.kit.time import virtual
from rota.kit.time.virtual import CallbackGroup
from rota.link.records import Accepted, AttemptRefused, StartAttempt
from rota.model import codec, keys
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import NodeId, Revision, SessionId
from rota.model.node import NodeStatus
from rota.store import Delete, Put, Store, open_store
from rota.store.port import Commit
from tests.kit.identities import TTL, identity
from tests.kit.virtual_trials import CLOCK

SECOND = timedelta(seconds=1)
TTL_S = TTL.total_seconds()


class FakeRuns:
    """Runs attempts for as long as the test wants."""

    def __init__(self, executors: int, took: float) -> None:
        self.executors, self.took = executors, took
        self.running: dict[str, Callable[[Outcome], None]] = {}
        self.began: list[RunOrder] = []
        self.outcomes: list[Outcome] = []
        self.refuses = ""

    @property
    def free(self) -> int:
        return self.executors - len(self.running)

    def start_many(self, orders: Sequence[RunOrder], ended: Callable[[RunOrder, Outcome], None]) -> list[str]:
        return [self._start(order, ended) for order in orders]

    def _start(self, order: RunOrder, ended: Callable[[RunOrder, Outcome], None]) -> str:
        if self.refuses or self.free < 1:
            return self.refuses or "all executors are taken"
        self.began.append(order)
        self.running[order.run] = lambda outcome: ended(order, outcome)
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome(state=RunState.SUCCEEDED, seconds=self.took)
        asyncio.get_running_loop().call_later(self.took, self.end, order.run, outcome)
        return ""

    def end(self, run: str, outcome: Outcome) -> None:
        if (told := self.running.pop(run, None)) is not None:
            told(outcome)

    def interrupt(self, run: str, attempt: int, why: str) -> bool:
        self.end(run, Outcome(state=RunState.INTERRUPTED, error=why))
        return True


class FakeLink:
    """Tells another node of its runs, or not."""

    def __init__(self, fleet: "Fleet", node: NodeId) -> None:
        self._fleet, self._node = fleet, node

    async def dispatch_many(
        self, starts: Sequence[StartAttempt], *, timeout: timedelta | None = None
    ) -> list[Accepted | AttemptRefused]:
        self._fleet.told += [(self._node, start.attempt.run) for start in starts]
        trouble = self._fleet.trouble.get(self._node)
        if isinstance(trouble, Unavailable):
            raise trouble
        answers = [self._fleet.nodes[self._node].part.dispatch(start) for start in starts]
        if trouble is not None:
            raise trouble
        return answers


class Member:
    """One node."""

    def __init__(self, name: str, executors: int, took: float) -> None:
        self.name, self.runs, self.outcomes = name, FakeRuns(executors, took), PendingOutcomes()
        self.group = CallbackGroup(name)
        self.part: Any = None
        self.task: asyncio.Task[None] | None = None


class Fleet:
    """Nodes that share a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nodes: dict[NodeId, Member] = {}
        self.trouble: dict[NodeId, Exception] = {}
        self.told: list[tuple[NodeId, str]] = []
        self.events: list[tuple[str, str]] = []

    def start(self, name: str, *, executors: int = 4, took: float = 0.1) -> Member:
        member = self.nodes[NodeId(name)] = Member(name, executors, took)

        async def body(session: NodeSession) -> None:
            around = JobsDependencies(member.runs, member.outcomes, CLOCK, self._tell, self._link)
            may_act = lambda: session.keeper.may_act  # noqa: E731
            member.part = JobsPart(self.store, session.node, session.incarnation, may_act, around)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(member.part.run())
                parts.create_task(publish_status(self.store, session, _status))

        who = replace(identity(name, home=name), executors=executors)
        with member.group.enter():
            member.task = asyncio.create_task(in_session(self.store, who, CLOCK, body), name=name)
        return member

    def _link(self, node: NodeId) -> Any:
        return FakeLink(self, node)

    def _tell(self, kind: str, subject: str, **_: object) -> None:
        self.events.append((kind, subject))

    async def put(self, **options: Any) -> None:
        await verbs.put_job(self.store, JobSpec(**{"argv": ("x",), **options}), Origin.API, "me")

    async def runs(self, prefix: str = keys.RUNS) -> list[RunRecord]:
        found = [codec.decode(RunRecord, entry.value) for entry in (await self.store.scan(prefix)).entries]
        return sorted(found, key=lambda run: run.id)


def play(story: Callable[[Fleet], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            fleet = Fleet(store)
            await story(fleet)
            for member in fleet.nodes.values():
                member.group.thaw()
                assert member.task is not None
                member.task.cancel()
            await asyncio.gather(
                *(member.task for member in fleet.nodes.values() if member.task), return_exceptions=True
            )

    virtual.run(main())


def test_due_times_become_runs_on_the_second_and_end_in_the_history() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("a")
        await fleet.put(name="tick", every=SECOND)
        await asyncio.sleep(10.5)
        runs = await fleet.runs()
        assert [run.state for run in runs] == [RunState.SUCCEEDED] * 10
        for run in runs:
            assert timedelta() <= run.created - run.due < SECOND / 10
            assert (run.node, run.attempt, run.cause) == ("a", 1, Cause.SCHEDULE)
        assert await fleet.runs(keys.LIVE_RUNS) == []

    play(story)


def test_runs_that_wait_for_their_jitter_keep_no_due_time_from_becoming_a_run() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("a")
        await fleet.put(name="spread", cron="* * * * *", jitter=timedelta(minutes=30), concurrency=None)
        await asyncio.sleep(5430)
        runs = await fleet.runs() + await fleet.runs(keys.LIVE_RUNS)
        assert len({run.due for run in runs}) == len(runs) == 90
        assert not any(run.skipped for run in runs)

    play(story)


def test_runs_started_by_hand_keep_no_due_time_from_becoming_a_run() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("a", executors=1, took=100)
        await fleet.put(name="slow", cron="* * * * *")
        await verbs.run_now(fleet.store, "slow", "me", payloads=[None] * 12)
        await asyncio.sleep(400)
        waiting = [run for run in await fleet.runs(keys.LIVE_RUNS) if run.cause is Cause.SCHEDULE]
        assert len(waiting) == 6
        assert not any(run.skipped for run in waiting)

    play(story)


def test_runs_are_shared_and_nobody_takes_more_than_it_has_executors() -> None:
    async def story(fleet: Fleet) -> None:
        a, b = fleet.start("a", executors=2, took=5), fleet.start("b", executors=3, took=5)
        await fleet.put(name="hand", concurrency=None)
        await asyncio.sleep(1)
        await verbs.run_now(fleet.store, "hand", "me", payloads=[None] * 8)
        await asyncio.sleep(2)
        assert (len(a.runs.running), len(b.runs.running)) == (2, 3)
        await asyncio.sleep(12)
        assert len(await fleet.runs()) == 8

    play(story)


def test_many_runs_of_one_job_do_not_hold_up_another_job() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("a", executors=1, took=2)
        await fleet.put(name="flood", concurrency=None)
        await verbs.run_now(fleet.store, "flood", "me", payloads=[None] * 40)
        await fleet.put(name="tick", every=20 * SECOND)
        await asyncio.sleep(61)
        assert len([run for run in await fleet.runs() if run.job == "tick"]) >= 2

    play(story)


def test_a_limit_holds_in_the_whole_fleet() -> None:
    async def story(fleet: Fleet) -> None:
        members = [fleet.start(name, took=1) for name in "abc"]
        await fleet.put(name="hand", concurrency=2)
        await verbs.run_now(fleet.store, "hand", "me", payloads=[None] * 6)
        for _ in range(12):
            await asyncio.sleep(0.5)
            assert sum(len(member.runs.running) for member in members) <= 2
        assert len(await fleet.runs()) == 6

    play(story)


def test_a_failure_is_tried_again_and_told_when_it_is_final() -> None:
    async def story(fleet: Fleet) -> None:
        a = fleet.start("a")
        a.runs.outcomes = [Outcome(state=RunState.FAILED, error="no"), Outcome(state=RunState.TIMED_OUT)]
        await fleet.put(name="hand", retries=1)
        (id,) = await verbs.run_now(fleet.store, "hand", "me")
        await asyncio.sleep(5)
        (run,) = await fleet.runs()
        assert (run.id, run.state, run.attempt, len(run.earlier)) == (id, RunState.TIMED_OUT, 2, 1)
        assert [order.attempt for order in a.runs.began] == [1, 2]
        assert a.runs.began[0].epoch < a.runs.began[1].epoch
        assert fleet.events == [("run.failed", id)]

    play(story)


def test_a_lost_nodes_run_is_tried_again_soon_after_its_lease_ends() -> None:
    async def story(fleet: Fleet) -> None:
        a = fleet.start("a", took=1000)
        await fleet.put(name="hand")
        await verbs.run_now(fleet.store, "hand", "me")
        await asyncio.sleep(1)
        assert len(a.runs.began) == 1
        b = fleet.start("b", took=1)
        a.group.freeze()
        await asyncio.sleep(TTL_S + 3)
        (run,) = await fleet.runs()
        assert (run.state, run.node, run.attempt) == (RunState.SUCCEEDED, "b", 2)
        assert [each.outcome.state for each in run.earlier] == [RunState.LOST]
        assert len(b.runs.began) == 1
        # It wakes, and says what its attempt came to: that is kept, and changes nothing.
        a.group.thaw()
        told = a.runs.began[0]
        assert told.session is not None
        a.outcomes.add(EndedAttempt(told, told.session, Outcome(state=RunState.FAILED, error="late")))
        await asyncio.sleep(5)
        (late,) = await fleet.runs()
        assert (late.state, late.epoch, late.node) == (run.state, run.epoch, "b")
        assert [(each.epoch, each.outcome.error) for each in late.late] == [(told.epoch, "late")]
        assert ("run.late", run.id) in fleet.events

    play(story)


def test_a_run_that_may_not_be_lost_ends_as_lost() -> None:
    async def story(fleet: Fleet) -> None:
        a = fleet.start("a", took=1000)
        await fleet.put(name="hand", on_lost="fail")
        await verbs.run_now(fleet.store, "hand", "me")
        await asyncio.sleep(1)
        a.group.freeze()
        fleet.start("b")
        await asyncio.sleep(TTL_S + 3)
        (run,) = await fleet.runs()
        assert run.state is RunState.LOST

    play(story)


def test_a_node_that_cannot_be_told_loses_the_run_to_another() -> None:
    async def story(fleet: Fleet) -> None:
        for name in "ab":
            fleet.trouble[NodeId(name)] = Unavailable("no way")
            fleet.start(name, executors=5)
        await fleet.put(name="hand", concurrency=None)
        await asyncio.sleep(1)
        await verbs.run_now(fleet.store, "hand", "me", payloads=[None] * 4)
        await asyncio.sleep(UNTOLD - 0.5)
        assert len(await fleet.runs()) == 4, "whoever gave them did them itself"
        assert len({run.node for run in await fleet.runs()}) == 1
        assert fleet.told

    play(story)


def test_an_answer_that_gets_lost_costs_nothing() -> None:
    async def story(fleet: Fleet) -> None:
        members = [fleet.start(name, took=3) for name in "ab"]
        for member in members:
            fleet.trouble[NodeId(member.name)] = Unknown("no answer")
        await fleet.put(name="hand", concurrency=None)
        await asyncio.sleep(1)
        await verbs.run_now(fleet.store, "hand", "me", payloads=[None] * 4)
        await asyncio.sleep(10)
        runs = await fleet.runs()
        assert {run.node for run in runs} == {"a", "b"}
        assert [run.attempt for run in runs] == [1] * 4
        assert sum(len(member.runs.began) for member in members) == 4, "each was executed once"
        assert len(fleet.told) > len({run for _, run in fleet.told}), "they were asked again"

    play(story)


def test_a_start_that_is_repeated_after_its_attempt_begins_nothing() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("b", executors=0)
        a = fleet.start("a", took=1)
        await fleet.put(name="hand")
        await asyncio.sleep(1)
        view, late = a.part.view, list[Any]()
        fold, view.fold = view.fold, lambda *news: late.append(news)
        await verbs.run_now(fleet.store, "hand", "me")
        await asyncio.sleep(4)
        (order,) = a.runs.began
        assert [run.state for run in await fleet.runs()] == [RunState.SUCCEEDED]
        assert view.revision < order.epoch, "the node has not seen that the run was bound to it"
        assert a.part.owner.begin([order]) == [""], "the answer is the same as before"
        for news in late:
            fold(*news)
        assert a.part.owner.begin([order]) == ["it is not bound to this node any more"]
        assert len(a.runs.began) == 1

    play(story)


def test_a_node_finds_what_nobody_told_it_of() -> None:
    async def story(fleet: Fleet) -> None:
        a, b = fleet.start("a", took=0.5), fleet.start("b", took=0.5)
        fleet._link = lambda node: None  # type: ignore[method-assign]  # nobody is told of anything
        await fleet.put(name="hand", concurrency=None)
        await asyncio.sleep(1)
        await verbs.run_now(fleet.store, "hand", "me", payloads=[None] * 4)
        await asyncio.sleep(UNTOLD - 0.5)
        assert len(a.runs.began) + len(b.runs.began) == 2
        await asyncio.sleep(2)
        assert len(a.runs.began) + len(b.runs.began) == 4
        assert len(await fleet.runs()) == 4

    play(story)


def test_what_a_node_may_have_given_back_it_begins_only_after_writing_so() -> None:
    async def story(fleet: Fleet) -> None:
        a = fleet.start("a")
        await fleet.put(name="hand", concurrency=None)
        await asyncio.sleep(1)
        spec, now = a.part.view.jobs["hand"].record.spec, await fleet.store.now()
        run = bind(new_run(spec, now, Cause.MANUAL, now, more="x"), a.part.me.id, a.part.me.session, now)
        epoch = await fleet.store.commit(Put(keys.live_run(run.id), codec.encode(run)))
        await asyncio.sleep(0.1)
        commit = a.part.owner._writer._commit
        a.part.owner._writer._commit = AsyncMock(side_effect=Unknown("no answer"))
        await a.part.owner.release([(a.part.view.live[run.id], "enough")])
        a.part.owner._writer._commit = commit
        told = order_for(run, spec, epoch, Origin.API)
        assert a.part.owner.begin([told]) == ["this node has given it back"]
        await asyncio.sleep(UNTOLD + 1)
        assert a.runs.began == [told]

    play(story)


def test_a_node_that_refuses_gives_back_at_once() -> None:
    async def story(fleet: Fleet) -> None:
        a, b = fleet.start("a"), fleet.start("b")
        a.runs.refuses = "it is stopping"
        await fleet.put(name="hand", concurrency=None)
        await asyncio.sleep(1)
        await verbs.run_now(fleet.store, "hand", "me", payloads=[None] * 4)
        await asyncio.sleep(2)
        assert {run.node for run in await fleet.runs()} == {"b"}
        assert len(b.runs.began) == 4
        assert not a.runs.began

    play(story)


def test_an_attempt_that_lasts_is_shown_as_running_and_can_be_interrupted() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("a", took=1000)
        await fleet.put(name="hand", retries=5)
        (id,) = await verbs.run_now(fleet.store, "hand", "me")
        await asyncio.sleep(2)
        (run,) = await fleet.runs(keys.LIVE_RUNS)
        assert run.state is RunState.RUNNING
        assert run.outcome is not None
        await verbs.interrupt(fleet.store, id, "enough", "me")
        await asyncio.sleep(1)
        (over,) = await fleet.runs()
        assert (over.state, over.attempt, over.outcome and over.outcome.error) == (
            RunState.INTERRUPTED,
            1,
            "enough (me)",
        )

    play(story)


def test_a_job_comes_after_others() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("a")
        for name in ("one", "two"):
            await fleet.put(name=name)
        await fleet.put(name="both", after=("one", "two"))
        for name, made in (("one", 0), ("one", 0), ("two", 1), ("two", 1), ("one", 2)):
            await verbs.run_now(fleet.store, name, "me")
            await asyncio.sleep(2)
            assert len(await fleet.runs(keys.runs("both"))) == made
        assert {run.cause for run in await fleet.runs(keys.runs("both"))} == {Cause.AFTER}

    play(story)


class Late:
    """A store whose watches bring everything three seconds late."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def watch(self, prefix: str, after: Revision) -> AsyncGenerator[Commit, None]:
        async with aclosing(self._store.watch(prefix, after)) as commits:
            async for commit in commits:
                await asyncio.sleep(3)
                yield commit


def test_a_success_is_followed_also_if_its_node_did_not_know_of_the_follower_yet() -> None:
    async def story(fleet: Fleet) -> None:
        store, late = fleet.store, Late(fleet.store)
        fleet.store = cast(Store, late)
        fleet.start("a", took=0.5)
        await asyncio.sleep(10)
        fleet.store = store
        await fleet.put(name="load", concurrency=None)
        await asyncio.sleep(10)
        await verbs.run_now(store, "load", "me")
        await asyncio.sleep(3.3)
        assert [run.state for run in await fleet.runs(keys.LIVE_RUNS)] == [RunState.DISPATCHED]
        await fleet.put(name="report", after=("load",))
        await asyncio.sleep(30)
        assert [run.job for run in await fleet.runs()] == ["load", "report"]

    play(story)


def test_a_job_that_comes_after_others_follows_no_success_from_while_it_was_disabled() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start("a")
        await fleet.put(name="load")
        await fleet.put(name="report", after=("load",))
        await verbs.disable(fleet.store, "report", "me")
        await verbs.run_now(fleet.store, "load", "me")
        await asyncio.sleep(20)
        await verbs.enable(fleet.store, "report", "me")
        await asyncio.sleep(20)
        assert [run.job for run in await fleet.runs()] == ["load"]
        await verbs.run_now(fleet.store, "load", "me")
        await asyncio.sleep(20)
        assert [run.job for run in await fleet.runs()] == ["load", "load", "report"]

    play(story)


def test_runs_of_a_deleted_job_do_not_wait_for_ever() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.put(name="hand")
        await verbs.run_now(fleet.store, "hand", "me", payloads=[None] * 3)
        await verbs.delete_job(fleet.store, "hand")
        fleet.start("a")
        await asyncio.sleep(3)
        assert await fleet.runs(keys.LIVE_RUNS) == []
        assert {run.state for run in await fleet.runs()} == {RunState.INTERRUPTED}

    play(story)


def test_a_fleet_that_was_down_decides_what_it_missed() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.put(name="tick", every=10 * SECOND, misfire="skip")
        await asyncio.sleep(95)
        fleet.start("a")
        await asyncio.sleep(1)
        runs = await fleet.runs()
        assert runs[0].state is RunState.SUCCEEDED
        skipped = runs[0].skipped
        assert skipped is not None
        assert skipped.count + len(runs) == 9
        assert ("job.missed", "tick") in fleet.events

    play(story)


def test_a_run_nobody_owns_any_more_leaves_no_trace_when_its_outcome_comes() -> None:
    async def story(fleet: Fleet) -> None:
        a = fleet.start("a")
        await fleet.put(name="hand")
        (id,) = await verbs.run_now(fleet.store, "hand", "me")
        await asyncio.sleep(2)
        await fleet.store.commit(Delete(keys.run(id)))
        order = a.runs.began[0]
        a.outcomes.add(EndedAttempt(order, SessionId("gone"), Outcome(state=RunState.SUCCEEDED)))
        await asyncio.sleep(2)
        assert await fleet.runs() == []
        assert not a.outcomes.waiting

    play(story)


def _status() -> NodeStatus:
    return NodeStatus(app="x", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0)


def test_a_job_that_goes_while_its_run_is_bound_ends_nobodys_part() -> None:
    async def story(fleet: Fleet) -> None:
        a = fleet.start("a")
        await fleet.put(name="hand", concurrency=None)
        await asyncio.sleep(1)
        commit, view = fleet.store.commit, a.part.view

        async def slowly(*writes: Any, **options: Any) -> Any:
            """The watch is quicker than the answer, and brings what came behind it."""
            revision = await commit(*writes, **options)
            if any(isinstance(write, Put) and write.key.startswith(keys.LIVE_RUNS) for write in writes):
                fleet.store.commit = commit  # type: ignore[method-assign]
                await verbs.delete_job(fleet.store, "hand")
                await asyncio.sleep(0.5)
                assert "hand" not in view.jobs
            return revision

        (id,) = await verbs.run_now(fleet.store, "hand", "me")
        fleet.store.commit = slowly  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert a.task is not None
        assert not a.task.done()
        assert [(run.id, run.state) for run in await fleet.runs()] == [(id, RunState.SUCCEEDED)]
        assert [order.run for order in a.runs.began] == [id], "it was bound before"

    play(story)


def test_a_node_whose_record_is_not_understood_is_not_taken_for_lost() -> None:
    async def story(fleet: Fleet) -> None:
        a, b = fleet.start("a", took=1000), fleet.start("b", executors=0)
        await fleet.put(name="hand")
        await verbs.run_now(fleet.store, "hand", "me")
        await asyncio.sleep(1)
        assert len(a.runs.began) == 1
        await fleet.store.commit(Put(keys.node("a"), b'{"v": 99}'))  # as a newer Rota may write it
        await asyncio.sleep(10)
        assert b.task is not None
        assert not b.task.done()
        (run,) = await fleet.runs(keys.LIVE_RUNS)
        assert (run.state, run.node, run.attempt) == (RunState.RUNNING, "a", 1)

    play(story)


def test_an_outcome_whose_run_is_not_understood_holds_up_no_others() -> None:
    async def story(fleet: Fleet) -> None:
        a = fleet.start("a", took=3)
        await fleet.put(name="hand", concurrency=None)
        odd, plain = await verbs.run_now(fleet.store, "hand", "me", payloads=[1, 2])
        await asyncio.sleep(2)
        assert len(a.runs.began) == 2
        await fleet.store.commit(Put(keys.live_run(odd), b'{"v": 99}'))  # as a newer Rota may write it
        await asyncio.sleep(10)
        assert a.task is not None
        assert not a.task.done()
        assert [(run.id, run.state) for run in await fleet.runs()] == [(plain, RunState.SUCCEEDED)]

    play(story)


def test_an_outcome_that_a_session_was_writing_when_it_ended_is_told_by_the_next() -> None:
    async def story(fleet: Fleet) -> None:
        member = fleet.start("a", executors=1)
        await asyncio.sleep(1)
        await fleet.put(name="x")
        order = RunOrder(run="x/gone", attempt=1, epoch=1, session=SessionId("before"), job="x")
        asked = asyncio.Event()

        async def ask(ended: EndedAttempt) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        member.part.owner._ends._settle = ask
        member.outcomes.add(EndedAttempt(order, SessionId("before"), Outcome(state=RunState.SUCCEEDED)))
        await asked.wait()
        assert not member.outcomes.waiting
        assert member.task is not None
        member.task.cancel()
        await asyncio.gather(member.task, return_exceptions=True)
        assert [each.order for each in member.outcomes.waiting] == [order]
        assert member.outcomes.news.is_set(), "or else the next session would sleep on it"

    play(story)
