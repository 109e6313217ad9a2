"""How much of the store's history may go."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.fleet.core.leading.history import MOST, clearing, until_next
from rota.model.history import HistoryNote
from rota.model.ids import Revision

NOW = datetime(2026, 11, 18, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEEP = 10 * MINUTE


def note(minutes_ago: float, revision: int) -> HistoryNote:
    return HistoryNote(at=NOW - minutes_ago * MINUTE, revision=Revision(revision))


@pytest.mark.parametrize(
    ("notes", "before"),
    [
        pytest.param([], None, id="nothing is noted"),
        pytest.param([note(9, 5)], None, id="nothing is old enough"),
        pytest.param([note(10, 5)], 5, id="just old enough"),
        pytest.param([note(30, 3), note(12, 5), note(9, 7)], 5, id="the newest of the old ones"),
        pytest.param([note(12, 5), note(11, 900)], 5, id="a revision of another store says nothing"),
        pytest.param([note(-60, 5)], None, id="nor does a note from the future"),
    ],
)
def test_what_is_cleared(notes: list[HistoryNote], before: int | None) -> None:
    found = clearing(notes, Revision(100), NOW, KEEP)
    assert found.before == before
    assert found.notes[-1] == note(0, 100)
    assert all(NOW - KEEP < each.at <= NOW and each.revision <= 100 for each in found.notes)


@pytest.mark.parametrize(
    ("notes", "wait"),
    [
        pytest.param([], timedelta(0), id="nobody has ever looked"),
        pytest.param([note(0.25, 5)], 0.75 * MINUTE, id="somebody has just done so"),
        pytest.param([note(3, 5)], timedelta(0), id="nobody has for long"),
        pytest.param([note(-3, 5)], timedelta(0), id="the clock was set back"),
    ],
)
def test_when_to_look(notes: list[HistoryNote], wait: timedelta) -> None:
    assert until_next(notes, NOW, MINUTE, KEEP) == wait


@given(keep=st.timedeltas(min_value=MINUTE, max_value=timedelta(days=100)))
def test_there_are_never_many_notes_and_history_stays_as_long_as_it_should(keep: timedelta) -> None:
    notes: tuple[HistoryNote, ...] = ()
    now, noted = NOW, {}
    for turn in range(3 * MOST):
        now += until_next(notes, now, MINUTE, keep) or MINUTE
        newest = Revision(turn + 1)
        found = clearing(notes, newest, now, keep)
        noted[newest] = now
        notes = found.notes
        assert len(notes) <= MOST + 1
        if found.before is not None:
            assert now - noted[found.before] >= keep
