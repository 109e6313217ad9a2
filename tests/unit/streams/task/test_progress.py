"""How far a stream task has come, and what it has to do next."""

from datetime import UTC, datetime

import pytest

from rota.kit.record import replace
from rota.model.ids import Revision
from rota.outputs.verdict import PUBLISHED, PublishVerdict, Turn
from rota.streams.core.records import Dismissal, Group, Phase, TaskState
from rota.streams.task.progress import Next, TaskProgress
from tests.kit.rows import ranges

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
GROUP = Group(
    stream="s", id="g", number=0, generation=1, partitions=(0, 1), starts={0: 10, 1: 20}, since=NOON, created=NOON
)


@pytest.fixture
def task() -> TaskProgress:
    """A task that has begun."""
    task = TaskProgress(slot=0, epoch=Revision(5), group=GROUP)
    task.begin({0: 10, 1: 20})
    return task


def test_a_task_that_stands_by_waits() -> None:
    task = TaskProgress(slot=0, epoch=Revision(5), group=replace(GROUP, starts={}, phase=Phase.STANDBY))
    assert (task.next, task.state) == (Next.WAIT, TaskState.STANDBY)
    task.heard(GROUP)
    assert (task.next, task.state) == (Next.WAIT, TaskState.STARTING)
    task.begin({0: 10, 1: 20})
    assert (task.next, task.state) == (Next.READ, TaskState.READING)


def test_a_task_that_is_asked_to_stops_where_it_is(task: TaskProgress) -> None:
    task.read(0, 15, 5)
    task.heard(replace(GROUP, phase=Phase.PAUSING))
    assert (task.next, task.state, task.offsets) == (Next.WAIT, TaskState.PAUSED, {0: 15, 1: 20})


def test_a_task_that_is_behind_reads_up_to_what_was_agreed_and_goes_on(task: TaskProgress) -> None:
    task.read(0, 15, 5)
    task.heard(replace(GROUP, sequences=({0: 18, 1: 20},)))
    assert (task.next, task.ends) == (Next.READ, {0: 18, 1: 20})
    task.read(0, 18, 3)
    [closed] = task.closed
    assert closed.ranges == tuple(ranges((0, 10, 18), (1, 20, 20)))
    assert (task.next, task.ends, task.starts) == (Next.READ, None, {0: 18, 1: 20})
    task.told(closed, PUBLISHED)
    assert task.closed == []


def test_a_task_that_read_past_what_was_agreed_fails(task: TaskProgress) -> None:
    task.read(1, 31, 11)
    task.heard(replace(GROUP, sequences=({0: 10, 1: 30},)))
    assert (task.next, task.state) == (Next.END, TaskState.FAILED)
    assert task.error == "partition 1: it has read up to 31, and 30 was agreed without it"


def test_a_group_that_ended_is_published_and_that_is_the_end(task: TaskProgress) -> None:
    task.read(0, 15, 5)
    task.heard(replace(GROUP, phase=Phase.PUBLISHING, sequences=({0: 15, 1: 20},)))
    assert (task.next, task.state) == (Next.FINISH, TaskState.PUBLISHING)
    [closed] = task.closed
    task.told(closed, PublishVerdict(Turn.AHEAD, "wait"))
    assert task.next is Next.FINISH
    task.told(closed, PublishVerdict(Turn.THERE, "a replica"))
    assert (task.next, task.state) == (Next.END, TaskState.DONE)


def test_a_replacement_begins_behind_what_is_published() -> None:
    group = replace(GROUP, sequences=({0: 15, 1: 20}, {0: 30, 1: 40}))
    task = TaskProgress(slot=1, epoch=Revision(9), group=group)
    task.begin({0: 15, 1: 20})
    assert (task.number, task.starts, task.ends) == (1, {0: 15, 1: 20}, {0: 30, 1: 40})


def test_others_that_published_another_range_end_a_task(task: TaskProgress) -> None:
    task.heard(replace(GROUP, phase=Phase.PUBLISHING, sequences=({0: 10, 1: 20},)))
    task.told(task.closed[0], PublishVerdict(Turn.BEHIND, "others were here"))
    assert (task.next, task.error) == (Next.END, "others were here")


@pytest.mark.parametrize(("epoch", "ends"), [(4, False), (5, True), (6, True)])
def test_a_dismissal_counts_for_its_epoch_and_those_before(task: TaskProgress, epoch: int, ends: bool) -> None:
    task.heard(replace(GROUP, dismissed={0: Dismissal(epoch=Revision(epoch), why="too slow")}))
    assert (task.next is Next.END) == ends
    assert task.error == ("too slow" if ends else "")


def test_a_task_without_a_group_ends(task: TaskProgress) -> None:
    task.heard(None)
    assert (task.next, task.state) == (Next.END, TaskState.FAILED)
