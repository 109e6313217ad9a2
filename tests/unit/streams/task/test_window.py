"""Which records a stream's function gets to see, and with what."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.kit.time.epoch import milliseconds
from rota.sources.port import Record as Read
from rota.streams.core.context import Record
from rota.streams.core.records import Group
from rota.streams.task.window import EARLY, EMPTY, LATE, taken

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
AT = milliseconds(NOON)


def group(**fields: Any) -> Group:
    return Group(stream="clicks", id="g", number=0, generation=1, partitions=(3,), since=NOON, created=NOON, **fields)


@pytest.mark.parametrize("window", [{}, {"earliest": NOON, "latest": NOON}])
def test_a_record_comes_whole(window: dict[str, datetime]) -> None:
    read = Read(7, AT, b"key", b"value", (("trace", b"1"),))
    (seen,) = taken(3, [read], group(**window), Counter(), NOON)
    assert seen == Record(3, 7, b"value", b"key", (("trace", b"1"),), AT)
    assert seen.at == NOON


def test_what_is_of_other_times_or_has_no_value_is_counted() -> None:
    read = [
        Read(0, AT - 1, None, b"a"),
        Read(1, AT, None, b"b"),
        Read(2, AT + 1, None, b"c"),
        Read(3, AT, None, None),
        Read(4, -1, None, b"of any time"),
    ]
    dropped: Counter[str] = Counter()
    assert [seen.offset for seen in taken(3, read, group(earliest=NOON, latest=NOON), dropped, NOON)] == [1, 4]
    assert dropped == {LATE: 1, EARLY: 1, EMPTY: 1}


@pytest.mark.parametrize(
    ("read_at", "early"),
    [
        pytest.param(NOON, [2, 3], id="read when the group was made"),
        pytest.param(NOON + timedelta(hours=3), [3], id="read hours after the group was made"),
    ],
)
def test_a_record_whose_time_has_come_is_not_early_however_old_its_group_is(
    read_at: datetime, early: list[int]
) -> None:
    hours = [timedelta(), timedelta(hours=1), timedelta(hours=3), timedelta(hours=5)]
    read = [Read(offset, milliseconds(NOON + after), None, b"v") for offset, after in enumerate(hours)]
    dropped: Counter[str] = Counter()
    window = {"latest": NOON + timedelta(hours=1), "early": timedelta(hours=1)}
    seen = taken(3, read, group(**window), dropped, read_at)
    assert [each.offset for each in seen] == [offset for offset in range(4) if offset not in early]
    assert dropped == {EARLY: len(early)}
