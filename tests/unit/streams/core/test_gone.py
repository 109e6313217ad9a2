"""Which partitions of a stream cannot be read on."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rota.model.ids import NodeId, Revision
from rota.streams.core.gone import gone, reached
from rota.streams.core.records import Group, Phase, StreamTaskStatus, TaskState

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def group(id: str, generation: int, **fields: Any) -> Group:
    return Group(
        stream="s", id=id, number=0, generation=generation, partitions=(0,), since=NOON, created=NOON, **fields
    )


def task(group: str, at: int) -> StreamTaskStatus:
    return StreamTaskStatus(
        stream="s",
        group=group,
        slot=0,
        node=NodeId("n"),
        epoch=Revision(1),
        state=TaskState.READING,
        offsets={0: at},
        at=NOON,
    )


@pytest.mark.parametrize(
    ("committed", "before", "held", "is_gone"),
    [
        pytest.param(10, 10, None, False, id="at its start"),
        pytest.param(9, 9, None, True, id="deleted"),
        pytest.param(9, 9, 10, False, id="deleted after it was read"),
        pytest.param(5, 5, 9, True, id="deleted in front of its group"),
        pytest.param(25, 25, None, True, id="shorter than it was"),
        pytest.param(25, 20, None, False, id="published since the look"),
        pytest.param(25, None, None, False, id="begun since the look"),
    ],
)
def test_gone(committed: int, before: int | None, held: int | None, is_gone: bool) -> None:
    found = gone({0: (10, 20)}, {0: committed}, {0: before} if before else {}, {0: held} if held else {})
    why = f"it is committed up to {committed}, and has offsets from 10 to 20"
    assert found == ({0: why} if is_gone else {})


def test_a_partition_is_where_its_newest_group_or_the_furthest_of_its_tasks_is() -> None:
    ended = group("a", 1, phase=Phase.PUBLISHING, starts={0: 0}, sequences=({0: 10},))
    reading, waiting = group("b", 2, starts={0: 10}), group("c", 3, phase=Phase.STANDBY)
    assert reached([], []) == {}
    assert reached([ended, waiting], [task("a", 4)]) == {0: 10}
    assert reached([reading, ended], []) == {0: 10}
    assert reached([reading, ended], [task("b", 12), task("b", 17), task("a", 90)]) == {0: 17}
