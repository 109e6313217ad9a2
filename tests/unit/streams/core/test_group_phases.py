"""The phases of a stream's group."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.kit.record import replace
from rota.kit.transitions import IllegalTransition
from rota.streams.core.group_phases import GroupEvent, enter, leave, step
from rota.streams.core.records import Group, Phase

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
STANDING_BY = Group(
    stream="s", id="g", number=0, generation=1, partitions=(0,), phase=Phase.STANDBY, since=NOW, created=NOW
)
READING = replace(STANDING_BY, phase=Phase.READING, starts={0: 0})


def test_a_group_enters_reading_only_if_it_is_known_where_it_starts() -> None:
    assert enter(replace(STANDING_BY, phase=Phase.PUBLISHING)).phase is Phase.STANDBY
    assert enter(replace(READING, phase=Phase.PUBLISHING)).phase is Phase.READING


def test_a_step_says_since_when_and_changes_what_it_is_told() -> None:
    pausing = step(READING, GroupEvent.END_WANTED, LATER, why="rows")
    assert (pausing.phase, pausing.since, pausing.why) == (Phase.PAUSING, LATER, "rows")


def test_a_group_does_not_publish_before_its_end_is_agreed() -> None:
    with pytest.raises(IllegalTransition):
        step(READING, GroupEvent.END_AGREED, LATER)
    with pytest.raises(IllegalTransition):
        leave(READING, GroupEvent.PUBLISHED)


def test_only_a_group_that_stands_by_is_dropped_and_any_is_given_up() -> None:
    assert leave(STANDING_BY, GroupEvent.UNWANTED) == "g"
    with pytest.raises(IllegalTransition):
        leave(READING, GroupEvent.UNWANTED)
    for phase in Phase:
        assert leave(replace(READING, phase=phase), GroupEvent.GIVEN_UP) == "g"
