"""The leader's hand on streams, in virtual time, with real tasks on a source and an output in memory."""

import asyncio
from datetime import datetime, timedelta
from functools import partial

import pytest

from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Unavailable
from rota.outputs.memory import MemoryCommitter
from rota.outputs.port import Swept
from rota.outputs.verdict import PublishVerdict
from rota.sim.world import EPOCH
from rota.sources.port import NewRecord
from rota.store import Delete, Put
from rota.streams.core.group import NO_START_TIME
from rota.streams.core.plan import MADE_ANEW
from rota.streams.core.records import MoveRecord, Phase, Reset, StreamRecord, StreamState, TaskState
from rota.streams.fleet import moving, verbs
from tests.kit.elections import leader
from tests.kit.stream_stories import backfills, run
from tests.kit.stream_trial import Node, Trial
from tests.kit.virtual_trials import LoopClock


def test_a_declared_stream_is_read_and_published_group_by_group() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 30)
        trial.grow(1, 20)
        await trial.declare(tasks=2, replicas=2, duration="20s")
        await asyncio.sleep(5)
        assert [group.partitions for group in await trial.groups()] == [(0,), (1,)]
        assert [resource.replicas for resource in await trial.resources()] == [2, 2]
        assert {resource.id for resource in await trial.resources()} == {group.id for group in await trial.groups()}
        assert len(await trial.statuses()) == 4
        assert await trial.rows() == []
        trial.grow(0, 5)
        await asyncio.sleep(50)
        assert await trial.rows() == trial.appended()
        status = await trial.status()
        assert status.state is StreamState.RUNNING
        assert status.committed == {0: 35, 1: 20}
        assert (status.lag, status.errors) == (0, ())
        assert status.generation >= 4

    told = run(story).told
    assert ("stream.state", "clicks", {"state": "running", "why": None}) in told
    assert not [each for each in told if each[0] in ("stream.given_up", "stream.dismissed")]


def test_what_a_group_published_is_put_in_sight_before_the_group_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[list[Phase]] = []

    async def story(trial: Trial, node: Node) -> None:
        async def sweep(output: MemoryCommitter) -> Swept:
            swept.append([group.phase for group in await trial.groups()])
            return Swept()

        monkeypatch.setattr(MemoryCommitter, "sweep", sweep)
        trial.grow(0, 3)
        await trial.declare(duration="5s")
        await asyncio.sleep(2)
        assert swept == []
        await trial.wish(is_suspended=True)
        await asyncio.sleep(3)
        assert await trial.groups() == []

    run(story)
    assert swept == [[Phase.PUBLISHING]]


def test_a_new_leader_goes_on_where_the_one_before_it_stopped() -> None:
    async def story(trial: Trial, node: Node) -> None:
        nodes = {name: node(name, trial.lead) for name in "abc"}
        await trial.declare(tasks=2, replicas=2, duration="5s", checkpoint_every="1s")
        for _ in range(8):
            trial.grow(0, 7)
            trial.grow(1, 3)
            await asyncio.sleep(2.3)
            if (first := await leader(trial.store)) and len(nodes) > 1:
                nodes.pop(first).cancel()
        await asyncio.sleep(20)
        assert await trial.rows() == trial.appended()

    run(story, is_led=False)


def test_a_stream_with_a_group_of_a_newer_rota_is_left_alone_until_that_is_gone() -> None:
    async def story(trial: Trial, node: Node) -> None:
        newer, key = b'{"v":99}', keys.stream_group("clicks", "newer")
        await trial.store.commit(Put(key, newer))
        trial.grow(0, 3)
        await trial.declare(duration="5s")
        node("a", trial.lead)
        await asyncio.sleep(10)
        assert [entry.value for entry in (await trial.store.scan(keys.STREAM_GROUPS)).entries] == [newer]
        (error,) = (await trial.status()).errors
        assert error.why.startswith("group newer is not understood here: ")
        await trial.store.commit(Delete(key))
        await asyncio.sleep(20)
        assert await trial.rows() == trial.appended()

    run(story, is_led=False)


class Wrong(LoopClock):
    """The clock of a machine that is wrong by some seconds."""

    def __init__(self, seconds: float) -> None:
        self._by = timedelta(seconds=seconds)

    def wall(self) -> datetime:
        return super().wall() + self._by


@pytest.mark.parametrize(("first", "second"), [(0, 300), (300, 0), (-300, 0)])
def test_groups_last_as_long_as_declared_though_leaders_have_different_clocks(first: float, second: float) -> None:
    async def story(trial: Trial, node: Node) -> None:
        leading = node("a", partial(trial.lead, clock=Wrong(first)))
        await trial.declare(duration="60s")
        await asyncio.sleep(20)
        (before,) = await trial.groups()
        leading.cancel()
        node("b", partial(trial.lead, clock=Wrong(second)))
        await asyncio.sleep(20)
        assert [(group.id, group.phase) for group in await trial.groups()] == [(before.id, Phase.READING)]
        await asyncio.sleep(30)
        assert before.id not in [group.id for group in await trial.groups()]
        status = await trial.status()
        assert status.since - EPOCH < timedelta(seconds=60)

    run(story, is_led=False)


def test_a_task_that_dies_is_replaced_and_nothing_is_lost_or_doubled() -> None:
    async def story(trial: Trial, node: Node) -> None:
        await trial.declare(replicas=2, duration="6s")
        for _ in range(6):
            trial.grow(0, 11)
            await asyncio.sleep(2.7)
            name = sorted(trial.running)[0]
            await trial.end(name)
            await trial.place(name)
        await asyncio.sleep(20)
        assert await trial.rows() == trial.appended()

    run(story)


def test_a_task_that_says_nothing_is_dismissed_with_the_reason() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.has_hands = False
        await trial.declare()
        await asyncio.sleep(2)
        (group,) = await trial.groups()
        await trial.place(f"{group.id}#0")
        await trial.end(f"{group.id}#0")
        await asyncio.sleep(40)
        (group,) = await trial.groups()
        assert group.dismissed[0].why == "failed to return status, killing task"
        assert "failed to return status" in (await trial.status()).errors[-1].why

    told = run(story).told
    assert [fields["why"] for kind, _, fields in told if kind == "stream.dismissed"] == [
        "failed to return status, killing task"
    ]


@pytest.mark.parametrize("replicas", [1, 2])
def test_checkpoints_are_as_far_apart_as_the_stream_says(replicas: int) -> None:
    async def story(trial: Trial, node: Node) -> None:
        await trial.declare(duration="10m", checkpoint_every="10s", replicas=replicas)
        for _ in range(180):
            trial.grow(0, 5)
            await asyncio.sleep(0.5)
        (group,) = await trial.groups()
        assert 6 <= len(group.sequences) <= 9
        assert (await trial.status()).committed[0] >= 600

    run(story)


def test_a_worker_that_is_started_again_has_as_much_time_as_a_new_one() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.has_hands = False
        await trial.declare(duration="10m")
        await asyncio.sleep(2)
        (group,) = await trial.groups()
        await trial.place(f"{group.id}#0")
        await asyncio.sleep(60)
        (before,) = await trial.statuses()
        await trial.end(f"{group.id}#0")
        again = replace(before, life="another", state=TaskState.STARTING, started=None)  # as after a reload
        key = keys.stream_task("clicks", group.id, 0, before.epoch)
        await trial.store.commit(Put(key, codec.encode(again)))
        await asyncio.sleep(20)
        assert (await trial.groups())[0].dismissed == {}
        await asyncio.sleep(20)
        assert (await trial.groups())[0].dismissed[0].why == NO_START_TIME

    run(story)


def test_a_suspended_stream_ends_in_order_and_goes_on_when_it_may() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="1h")
        await asyncio.sleep(3)
        await trial.wish(is_suspended=True)
        await asyncio.sleep(3)
        assert (await trial.status()).state is StreamState.SUSPENDED
        assert (await trial.groups(), await trial.resources()) == ([], [])
        assert await trial.rows() == trial.appended()
        trial.grow(0, 10)
        await trial.wish()
        await asyncio.sleep(3)
        assert (await trial.status()).state is StreamState.RUNNING
        await trial.wish(is_terminated=True)
        await asyncio.sleep(3)
        assert (await trial.status()).state is StreamState.STOPPING
        assert await trial.rows() == trial.appended()

    run(story)


def test_a_group_that_is_handed_off_ends_now_and_the_wish_is_taken_out() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        trial.grow(1, 10)
        await trial.declare(tasks=2, duration="1h")
        await asyncio.sleep(3)
        await trial.wish(hand_off=(1,))
        await asyncio.sleep(3)
        assert await trial.rows() == [(1, at) for at in range(10)]
        assert (await trial.wishes()).hand_off == ()
        assert [(group.number, group.generation) for group in await trial.groups()] == [(0, 1), (1, 3)]

    run(story)


def test_more_groups_are_made_when_somebody_wants_them_and_only_the_changed_ones_end() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.topic.grow(4)
        await trial.declare(tasks=2, duration="1h")
        await asyncio.sleep(3)
        await trial.wish(tasks=3)
        await asyncio.sleep(5)
        assert [group.partitions for group in await trial.groups()] == [(0, 3), (1,), (2,)]

    run(story)


def test_a_source_that_is_away_makes_the_stream_unhealthy_and_it_mends_by_itself() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.topic.is_up = False
        await trial.declare()
        other = Trial(trial.store, "other")
        working = asyncio.create_task(other.work())
        other.grow(0, 5)
        await other.declare(duration="2s")
        await asyncio.sleep(30)
        status = await trial.status()
        assert status.state is StreamState.UNHEALTHY_SUPERVISOR
        assert "unable to connect to the source" in status.detail
        assert await other.rows() == other.appended(), "one that cannot go on does not hold up the others"
        trial.topic.is_up = True
        trial.grow(0, 5)
        await asyncio.sleep(60)
        assert (await trial.status()).state is StreamState.RUNNING
        assert await trial.rows() == trial.appended()
        working.cancel()

    run(story)


def test_a_declaration_that_nobody_understands_is_told_and_leaves_the_others_alone() -> None:
    async def story(trial: Trial, node: Node) -> None:
        strange = StreamRecord(name="strange", app="shop", digest="d", spec={"name": 3})
        await trial.store.commit(Put(keys.STREAMS + "strange", codec.encode(strange)))
        trial.grow(0, 5)
        await trial.declare(duration="2s")
        await asyncio.sleep(20)
        assert await trial.rows() == trial.appended()
        assert "update this node" in (await Trial(trial.store, "strange").status()).errors[-1].why

    run(story)


def test_a_partition_that_comes_later_begins_at_its_first_record() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 5)
        await trial.declare(start="latest", duration="5s")
        await asyncio.sleep(3)
        trial.topic.grow(3)
        trial.topic.append(2, [NewRecord(value=b"{}")] * 4, 0)
        trial.grow(0, 1)
        await asyncio.sleep(30)
        assert await trial.rows() == [(0, 5), *((2, at) for at in range(4))]

    run(story)


def test_a_source_that_was_made_anew_halts_the_stream_or_begins_it_anew() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="3s")
        await asyncio.sleep(15)
        assert (await trial.status()).committed == {0: 10, 1: 0}
        trial.topic.make_anew(2)
        trial.grow(0, 4)
        await asyncio.sleep(30)
        status = await trial.status()
        assert "made anew" in status.detail
        assert status.committed == {0: 10, 1: 0}
        assert await trial.groups() == []
        await trial.declare(duration="3s", vanished="earliest")
        await asyncio.sleep(30)
        assert (await trial.status()).committed == {0: 4, 1: 0}
        assert len(await trial.rows()) == 14

    told = run(story).told
    assert [kind for kind, _, _ in told].count("stream.moved") == 1


def test_records_of_a_source_made_anew_are_not_published_as_the_continuation_of_the_old_one() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="60s", checkpoint_every="1s")
        await asyncio.sleep(7)
        assert (await trial.status()).committed == {0: 10, 1: 0}
        trial.topic.make_anew(2)
        trial.grow(0, 50)  # past where the reader is
        await asyncio.sleep(20)
        assert (await trial.status()).committed == {0: 10, 1: 0}
        assert await trial.groups() == []
        await verbs.reset(trial.store, "clicks", "ann", to="earliest")
        await asyncio.sleep(20)
        assert (await trial.status()).committed == {0: 50, 1: 0}
        assert await trial.rows() == sorted([*trial.appended(), *((0, at) for at in range(10))])

    run(story)


def test_a_group_of_the_source_before_is_given_up_also_where_the_new_one_begins_at_its_start() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="20s", vanished="earliest")
        await asyncio.sleep(5)
        assert await trial.rows() == []
        trial.topic.make_anew(2)
        trial.grow(0, 14)
        await asyncio.sleep(60)
        assert await trial.rows() == trial.appended()

    told = run(story).told
    assert [fields["why"] for kind, _, fields in told if kind == "stream.given_up"][:1] == [MADE_ANEW]


def test_a_partition_whose_next_records_are_gone_waits_and_the_others_go_on() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.output.begin({0: 0, 1: 0})
        trial.topic.delete(0, 5)
        trial.grow(1, 3)
        await trial.declare(duration="2s")
        await asyncio.sleep(15)
        assert await trial.rows() == [(1, 0), (1, 1), (1, 2)]
        status = await trial.status()
        assert status.detail.startswith("partition 0 waits: it is committed up to 0, and has offsets")
        assert status.waits == status.detail, "so it is not healthy, whatever its state"

    assert [subject for kind, subject, _ in run(story).told if kind == "stream.waits"] == ["clicks"]


def test_a_partition_whose_next_records_are_gone_leaves_its_group_and_the_others_go_on() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 5)
        trial.grow(1, 5)
        await trial.declare(duration="3s")
        await asyncio.sleep(8)
        await trial.wish(is_suspended=True)
        await asyncio.sleep(3)
        trial.grow(0, 5)
        trial.grow(1, 5)
        trial.topic.delete(0, 7)
        await trial.wish()  # a group of both is made before anybody looks at the source again
        await asyncio.sleep(30)
        detail = (await trial.status()).detail
        assert detail == "partition 0 waits: it is committed up to 5, and has offsets from 7 to 10"
        assert await trial.rows() == [*((0, at) for at in range(5)), *((1, at) for at in range(10))]

    run(story)


def test_nothing_new_is_made_for_an_idle_stream_until_something_comes() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 3)
        await trial.declare(duration="2s", idle_after="20s")
        await asyncio.sleep(60)
        status = await trial.status()
        assert (status.state, await trial.groups()) == (StreamState.IDLE, [])
        trial.grow(0, 3)
        await asyncio.sleep(20)
        assert (await trial.status()).state is StreamState.RUNNING
        assert await trial.rows() == trial.appended()

    run(story)


def test_another_declaration_ends_the_groups_of_the_one_before() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 3)
        await trial.declare(duration="1h")
        await asyncio.sleep(3)
        (before,) = await trial.groups()
        await trial.declare(duration="2h", replicas=2)
        await asyncio.sleep(3)
        (same,) = await trial.groups()
        assert same == before, "what the leader alone goes by changes under way"
        assert [each.replicas for each in await trial.resources()] == [2]
        await trial.declare(duration="1h", sink=f"memory://{trial.space}?")
        await asyncio.sleep(5)
        (after,) = await trial.groups()
        assert (after.phase, after.starts) == (Phase.READING, {0: 3, 1: 0})
        assert await trial.rows() == trial.appended()

    run(story)


@pytest.mark.parametrize("after", [1.5, 6.5], ids=["since the first look", "since a later one"])
def test_what_was_published_since_the_last_look_at_the_source_is_not_taken_for_gone(after: float) -> None:
    async def story(trial: Trial, node: Node) -> None:
        await trial.declare(duration="1h")
        await asyncio.sleep(after)
        trial.grow(0, 20)
        await asyncio.sleep(0.5)
        await trial.wish(is_suspended=True)
        await asyncio.sleep(1.5)
        status = await trial.status()
        assert await trial.groups() == []
        assert (status.committed[0], status.latest[0]) == (20, 0)
        assert status.detail == ""

    run(story)


def test_what_keeps_a_task_from_publishing_is_in_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(trial: Trial, node: Node) -> None:
        async def away(*_: object) -> PublishVerdict:
            raise Unavailable("output memory: it is away")

        with monkeypatch.context() as patch:
            patch.setattr(MemoryCommitter, "publish", away)
            trial.grow(0, 3)
            await trial.declare(duration="3s")
            await asyncio.sleep(10)
            assert (await trial.status()).detail.endswith("#0 on n0: output memory: it is away")
        await asyncio.sleep(10)
        assert (await trial.status()).detail == ""
        assert await trial.rows() == trial.appended()

    run(story)


def test_a_stream_that_cannot_publish_is_unhealthy_however_much_it_agrees_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(trial: Trial, node: Node) -> None:
        async def away(*_: object) -> PublishVerdict:
            raise Unavailable("output memory: it is read-only")

        await trial.declare(duration="10m", checkpoint_every="3s")
        with monkeypatch.context() as patch:
            patch.setattr(MemoryCommitter, "publish", away)
            for _ in range(60):
                trial.grow(0, 3)
                await asyncio.sleep(1)
            (group,) = await trial.groups()
            assert len(group.sequences) > 5
            status = await trial.status()
            assert status.state is StreamState.UNHEALTHY_TASKS
            assert status.detail.endswith("output memory: it is read-only")
        await asyncio.sleep(20)
        status = await trial.status()
        assert (status.state, status.committed[0]) == (StreamState.RUNNING, 180)

    run(story)


def test_what_a_group_left_out_is_still_counted_when_it_is_gone() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 7)  # in 1970
        await trial.declare(duration="5s", late="1h", replicas=2)
        await asyncio.sleep(30)
        status = await trial.status()
        assert (status.committed[0], status.dropped) == (7, {"late": 7})
        assert not [each for each in await trial.statuses() if each.dropped]

    told = run(story).told
    assert [(fields["count"], fields["why"]) for kind, _, fields in told if kind == "stream.dropped"] == [(7, "7 late")]


def test_offsets_of_very_many_partitions_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "TOGETHER", 1)  # as few as of a topic that a pattern found

    async def story(trial: Trial, node: Node) -> None:
        trial.topic.make_anew(120)
        await trial.declare()
        await asyncio.sleep(3)
        await trial.wish(reset=Reset(to="0", by="me", at=EPOCH))
        await asyncio.sleep(5)
        assert (await trial.wishes()).reset is None
        assert len((await trial.store.scan(keys.stream_moves("clicks"))).entries) == 120

    run(story)


def test_offsets_are_set_by_where_the_source_ends_now() -> None:
    async def story(trial: Trial, node: Node) -> None:
        await trial.declare(duration="10m")
        await asyncio.sleep(7)  # the source was looked at two seconds ago
        trial.grow(0, 100)
        await verbs.reset(trial.store, "clicks", "ann", to="latest")
        await asyncio.sleep(2)
        assert (await trial.status()).committed == {0: 100, 1: 0}

    run(story)


def test_a_stream_that_ends_somewhere_is_completed_there_and_reads_nothing_more() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 30)
        trial.grow(1, 20)
        await trial.declare(upto="latest", duration="5s", replicas=2, batch=7)
        await asyncio.sleep(0.5)
        trial.grow(0, 10)
        await asyncio.sleep(25)
        status = await trial.status()
        assert (status.state, status.upto, status.lag) == (StreamState.COMPLETED, {0: 30, 1: 20}, 0)
        assert await trial.groups() == []
        assert await trial.rows() == [*((0, at) for at in range(30)), *((1, at) for at in range(20))]

    run(story)


def test_a_completed_stream_reads_on_when_its_declaration_lets_it() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 3)
        await trial.declare(upto="latest")
        await asyncio.sleep(10)
        assert (await trial.status()).state is StreamState.COMPLETED
        trial.grow(0, 4)
        await trial.declare(duration="5s")
        await asyncio.sleep(20)
        assert (await trial.status()).state is StreamState.RUNNING
        assert await trial.rows() == trial.appended()

    run(story)


def test_a_stream_begins_at_a_time() -> None:
    async def story(trial: Trial, node: Node) -> None:
        for hour in range(4):
            trial.topic.append(0, [NewRecord(value=b"{}", time_ms=hour * 3_600_000)], 0)
        await trial.declare(start="1970-01-01T02:00+00:00", upto="latest")
        await asyncio.sleep(10)
        assert await trial.rows() == [(0, 2), (0, 3)]

    run(story)


def test_a_stream_has_more_groups_while_its_lag_is_high() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.topic.grow(4)
        trial.grow(0, 50)
        await trial.declare(tasks_most=3, scale_out_lag=40, scale_in_lag=10, scale_over="20s", duration="1h")
        await asyncio.sleep(15)
        assert len(await trial.groups()) == 1
        await asyncio.sleep(15)
        assert sorted(group.partitions for group in await trial.groups()) == [(0, 3), (1,), (2,)]
        assert (await trial.status()).tasks == 3
        await asyncio.sleep(60)  # what the one group had read is published, so that the lag is low
        assert len(await trial.groups()) == 1
        assert await trial.rows() == trial.appended()

    told = [fields for kind, _, fields in run(story).told if kind == "stream.scaled"]
    assert told[0] == {"tasks": 3, "before": 1, "lag": 50}
    assert [fields["tasks"] for fields in told] == [3, 2, 1]


def test_a_leader_makes_no_group_before_the_start_delay_is_over_and_says_so() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 3)
        await trial.declare(start_delay="20s", duration="1h")
        await asyncio.sleep(15)
        assert await trial.groups() == []
        assert (await trial.status()).detail == "it begins 20s after a leader took it up: start_delay"
        await asyncio.sleep(10)
        assert [group.phase for group in await trial.groups()] == [Phase.READING]
        assert (await trial.status()).detail == ""

    run(story)


def test_groups_that_are_there_go_on_while_a_new_leader_waits() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 3)
        await trial.declare(start_delay="20s", duration="10s")
        first = node("a", trial.lead)
        await asyncio.sleep(25)
        before = await trial.groups()
        first.cancel()
        node("b", trial.lead)
        await asyncio.sleep(15)
        assert {group.id for group in before} >= {group.id for group in await trial.groups()} != set()
        await asyncio.sleep(60)
        assert await trial.rows() == trial.appended()

    run(story, is_led=False)


def test_what_a_reset_leaves_out_is_read_by_another_stream_and_everything_is_there_once() -> None:
    async def story(trial: Trial, node: Node) -> None:
        await trial.declare(tasks=2, duration="40s")
        trial.grow(0, 20)
        await asyncio.sleep(50)
        for partition in (0, 1):
            trial.grow(partition, 500)
        await asyncio.sleep(6)  # the leader has looked at the source since
        await verbs.reset(trial.store, trial.name, "me", to="latest", is_backfilled=True)
        await asyncio.sleep(8)
        (filling,) = await backfills(trial)
        assert filling.app == "shop"
        assert filling.spec["ranges"] == {"0": [20, 520], "1": [0, 500]}
        for partition in (0, 1):
            trial.grow(partition, 7)
        await asyncio.sleep(100)
        assert await trial.rows() == trial.appended()
        assert (await trial.status(filling.name)).state is StreamState.COMPLETED
        assert (await trial.status()).committed == {0: 527, 1: 507}
        (move,) = [codec.decode(MoveRecord, each.value) for each in (await trial.store.scan(keys.STREAM_MOVES)).entries]
        assert (move.backfill, move.by) == (filling.name, "me")

    run(story)


def test_a_reset_that_leaves_nothing_out_is_not_filled() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 5)
        await trial.declare(duration="5s")
        await asyncio.sleep(30)
        await verbs.reset(trial.store, trial.name, "me", to="earliest", is_backfilled=True)
        await asyncio.sleep(30)
        assert (await backfills(trial), (await trial.wishes()).reset) == ([], None)
        assert await trial.rows() == sorted(trial.appended() * 2)

    run(story)


@pytest.mark.parametrize("seed", range(6))
def test_a_gap_is_filled_once_whoever_leads_when_it_is_made(seed: int) -> None:
    async def story(trial: Trial, node: Node) -> None:
        nodes = {name: node(name, trial.lead) for name in "abcd"}
        await trial.declare(duration="20s")
        await asyncio.sleep(10)
        trial.grow(0, 300)
        await asyncio.sleep(5.5)
        await verbs.reset(trial.store, trial.name, "me", to="latest", is_backfilled=True)
        for _ in range(3):
            await asyncio.sleep(0.03 * seed)
            if (first := await leader(trial.store)) in nodes:
                nodes.pop(first).cancel()
            trial.grow(1, 5)
            await asyncio.sleep(12)
        await asyncio.sleep(60)
        assert [each.spec["ranges"]["0"] for each in await backfills(trial)] == [[0, 300]]
        assert await trial.rows() == trial.appended()

    run(story, is_led=False)
