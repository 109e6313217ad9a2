"""A stream's groups: nothing is lost, doubled or stuck, whatever happens to their tasks."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from rota.kit.record import replace
from rota.model.ids import NodeId, Revision
from rota.store.rules import MAX_WRITES
from rota.streams.core.group import NO_PAUSE, NO_START_TIME, GroupMember, hesitation, reading_since
from rota.streams.core.plan import MADE_ANEW, Aims, numbered, plan
from rota.streams.core.records import Group, Phase, StreamTaskStatus, TaskState
from tests.unit.streams.core.small_fleet import NOON, TUNING, SmallFleet


@pytest.mark.parametrize("seed", range(60))
def test_every_record_is_in_the_output_once_whatever_happens(seed: int) -> None:
    fleet = SmallFleet(seed)
    fleet.run(120)
    assert max(Counter(fleet.output).values(), default=1) == 1
    fleet.stop_growing()
    fleet.run(90)
    fleet.aims = replace(fleet.aims, is_stopping=True)
    fleet.run(60)
    every = {(partition, offset) for partition, end in fleet.log.items() for offset in range(end)}
    assert Counter(fleet.output) == Counter(every)
    assert fleet.groups == {}


def test_without_faults_nothing_is_given_up_and_tasks_read_on() -> None:
    fleet = SmallFleet(1)
    fleet.has_faults = False
    fleet.log = dict.fromkeys(fleet.log, 10_000)
    fleet.run(120)
    assert fleet.given_up == []
    assert all(not group.dismissed for group in fleet.groups.values())
    assert sum(fleet.committed.values()) > 200


def planned(aims: Aims, *groups: Group, committed: dict[int, int]) -> list[Group]:
    return list(plan(aims, groups, {}, committed, NOON).groups.values())


SECOND = timedelta(seconds=1)
AIMS = Aims(stream="s", spec="1", tasks=2, partitions=range(4), tuning=TUNING)


def test_partitions_go_to_groups_by_number() -> None:
    assert numbered(range(5), 2) == {0: (0, 2, 4), 1: (1, 3)}
    assert numbered([7], 3) == {1: (7,)}


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_no_group_has_more_partitions_than_one_commit_can_publish(tasks: int) -> None:
    found = numbered(range(0, 1000, 2), tasks)
    assert max(map(len, found.values())) + 1 < MAX_WRITES
    assert sorted(partition for each in found.values() for partition in each) == list(range(0, 1000, 2))
    assert all(partition % tasks == number % tasks for number, each in found.items() for partition in each)
    more = numbered(range(0, 1010, 2), tasks)
    assert sum(more.get(number) != each for number, each in found.items()) <= tasks, "the others stay as they are"


def test_a_stream_begins_at_its_committed_offsets() -> None:
    groups = planned(AIMS, committed={0: 5, 1: 6, 2: 7, 3: 8})
    assert [(group.partitions, group.starts, group.phase) for group in groups] == [
        ((0, 2), {0: 5, 2: 7}, Phase.READING),
        ((1, 3), {1: 6, 3: 8}, Phase.READING),
    ]
    assert len({group.id for group in groups}) == 2


def test_the_same_question_has_the_same_answer() -> None:
    committed = dict.fromkeys(range(4), 0)
    assert planned(AIMS, committed=committed) == planned(AIMS, committed=committed)


def test_offsets_that_somebody_moved_give_up_what_reads_elsewhere() -> None:
    groups = planned(AIMS, committed=dict.fromkeys(range(4), 10))
    moved = plan(AIMS, groups, {}, {0: 3, 1: 10, 2: 10, 3: 10}, NOON)
    assert moved.given_up == {groups[0].id: "partition 0 is at 3, and it starts at 10"}
    assert {group.number: group.starts for group in moved.groups.values()} == {0: {0: 3, 2: 10}, 1: {1: 10, 3: 10}}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"is_made_anew": True}, id="the offsets are still those of the source before"),
        pytest.param({"identity": "new"}, id="the offsets were set, and are the same by chance"),
        pytest.param(
            {"replaced": frozenset([0, 1]), "partitions": [2, 3]},
            id="its topics were made anew, each under another number",
        ),
    ],
)
def test_what_was_read_of_a_source_before_is_given_up_and_not_published(changed: dict[str, Any]) -> None:
    aims, committed = replace(AIMS, identity="old"), dict.fromkeys(range(4), 10)
    groups = planned(aims, committed=committed)
    assert {group.identity for group in groups} == {"old"}
    ending = [
        replace(group, phase=Phase.PUBLISHING, sequences=(dict.fromkeys(group.partitions, 20),)) for group in groups
    ]
    found = plan(replace(aims, generation=2, **changed), ending, {}, committed, NOON)
    assert found.given_up == {group.id: MADE_ANEW for group in groups}
    assert not found.groups.keys() & found.given_up.keys()


def test_a_group_that_does_not_publish_takes_its_followers_along() -> None:
    [group] = planned(replace(AIMS, tasks=1, partitions=[0]), committed={0: 0})
    ended = replace(group, phase=Phase.PUBLISHING, sequences=({0: 50},), since=NOON, progressed=NOON)
    aims = replace(AIMS, tasks=1, partitions=[0])
    both = planned(aims, ended, committed={0: 0})
    assert [each.starts for each in both] == [{0: 0}, {0: 50}]
    late = plan(aims, both, {}, {0: 0}, NOON + TUNING.completion_timeout + timedelta(seconds=1))
    assert list(late.given_up) == [each.id for each in both]
    assert "made no progress" in late.given_up[ended.id]
    assert [each.starts for each in late.groups.values()] == [{0: 0}]


def test_scaling_leaves_groups_alone_whose_partitions_stay() -> None:
    aims, committed = replace(AIMS, partitions=[0, 1, 5]), {0: 0, 1: 7, 5: 9}
    stays, changes = planned(aims, committed=committed)
    after = planned(replace(aims, tasks=3), stays, changes, committed=committed)
    assert stays in after
    reading = {group.number: group.starts for group in after if group.phase is Phase.READING}
    assert reading == {0: {0: 0}, 1: {1: 7}, 2: {5: 9}}


def test_a_stopping_stream_makes_nothing_new() -> None:
    assert planned(replace(AIMS, is_stopping=True), committed=dict.fromkeys(range(4), 0)) == []
    assert planned(replace(AIMS, is_idle=True), committed=dict.fromkeys(range(4), 0)) == []


ONE = replace(AIMS, tasks=1, partitions=[0])


def said(group: Group, state: TaskState, **more: Any) -> GroupMember:
    """The one task of a group, which has been there since noon and says this."""
    me = {"stream": "s", "group": group.id, "slot": 0, "node": NodeId("n"), "epoch": Revision(1), "at": NOON}
    status = StreamTaskStatus(state=state, **me, **more)  # type: ignore[arg-type]
    return GroupMember(slot=0, epoch=Revision(1), node=NodeId("n"), placed=NOON, status=status)


def after(seconds: timedelta, group: Group, *members: GroupMember) -> Group:
    """What becomes of a group by then."""
    return plan(ONE, [group], {group.id: members}, {0: 0}, NOON + seconds).groups[group.id]


def test_what_a_task_reported_is_agreed_on_though_it_does_not_pause_in_time() -> None:
    [group] = planned(ONE, committed={0: 0})
    pausing = replace(group, phase=Phase.PAUSING, is_final=True)
    reader = said(group, TaskState.READING, started=NOON, offsets={0: 500})
    found = after(TUNING.pause_timeout + SECOND, pausing, reader)
    assert (found.phase, found.sequences) == (Phase.PUBLISHING, ({0: 500},)), "a replacement reads up to there"
    assert found.dismissed[0].why == NO_PAUSE


def test_tasks_that_fail_one_after_the_other_make_room_ever_more_slowly_until_something_is_agreed_on() -> None:
    [group] = planned(ONE, committed={0: 0})
    waits = [hesitation(group)]
    for epoch in range(1, 9):
        failed = said(group, TaskState.FAILED, error="it does not fit")
        status = replace(failed.status, epoch=Revision(epoch)) if failed.status else None
        group = after(SECOND, group, replace(failed, epoch=Revision(epoch), status=status))
        waits.append(hesitation(group))
    assert [wait // SECOND for wait in waits] == [0, 1, 2, 4, 8, 16, 30, 30, 30]
    paused = said(group, TaskState.PAUSED, started=NOON, offsets={0: 7})
    paused = replace(paused, epoch=Revision(9))
    agreed = after(SECOND, replace(group, phase=Phase.PAUSING), paused)
    assert hesitation(agreed) == timedelta()


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.STANDBY])
def test_a_task_that_does_not_begin_when_its_group_does_is_dismissed(state: TaskState) -> None:
    [group] = planned(ONE, committed={0: 0})
    assert after(TUNING.status_timeout, group, said(group, state)).dismissed == {}
    found = after(TUNING.status_timeout + SECOND, group, said(group, state))
    assert found.dismissed[0].why == NO_START_TIME


def test_a_task_in_the_place_of_one_that_died_is_measured_by_its_own_progress() -> None:
    [group] = planned(ONE, committed={0: 0})
    ended = replace(group, phase=Phase.PUBLISHING, sequences=({0: 5000},), progressed=NOON)
    dead = said(group, TaskState.PUBLISHING, life="a", progress=1200)
    ended = after(SECOND, ended, dead)
    assert ended.progressed == NOON + SECOND
    assert after(2 * SECOND, ended, dead).progressed == NOON + SECOND
    replacing = after(3 * SECOND, ended, said(group, TaskState.PUBLISHING, life="b", progress=20))
    assert replacing.progressed == NOON + 3 * SECOND
    stuck = after(4 * SECOND, replacing, said(group, TaskState.PUBLISHING, life="b", progress=20))
    assert stuck.progressed == NOON + 3 * SECOND


@pytest.mark.parametrize(
    ("off", "age"),
    [
        pytest.param(timedelta(), 5, id="clocks agree"),
        pytest.param(timedelta(days=-1), 9, id="the task's clock is behind: no older than the group"),
        pytest.param(timedelta(days=1), 9, id="the task's clock is ahead: it has begun all the same"),
    ],
)
def test_a_wrong_clock_makes_a_group_neither_old_nor_young(off: timedelta, age: int) -> None:
    """Found by the fleet's simulator: a stream rolled over four times a second while clocks were a day apart."""
    [group] = planned(replace(AIMS, tasks=1, partitions=[0]), committed={0: 0})
    now = NOON + timedelta(seconds=9)
    status = StreamTaskStatus(
        stream="s",
        group=group.id,
        slot=0,
        node=NodeId("n"),
        epoch=Revision(1),
        state=TaskState.READING,
        started=NOON + timedelta(seconds=4) + off,
        at=now,
    )
    since = reading_since(
        group, [GroupMember(slot=0, epoch=Revision(1), node=NodeId("n"), placed=NOON, status=status)], now
    )
    assert since == now - timedelta(seconds=age)
