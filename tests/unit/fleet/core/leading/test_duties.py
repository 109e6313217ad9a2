"""Which beat of a duty may be claimed, and who comes first."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.fleet.core.leading.duties import beat_of, claimed, until, wait
from rota.model.ids import NodeId, SessionId
from rota.model.peers import DutyHeld

MINUTE = timedelta(minutes=1)
NOW = datetime(2026, 1, 1, 12, 0, 15, tzinfo=UTC)


def held(beat: int) -> DutyHeld:
    return DutyHeld(beat=beat, node=NodeId("a"), session=SessionId("s"))


def test_beats_follow_each_other() -> None:
    beat = beat_of(NOW, MINUTE)
    assert beat_of(NOW + MINUTE, MINUTE) == beat + 1
    assert until(beat + 1, NOW, MINUTE) == timedelta(seconds=45)
    assert until(beat, NOW, MINUTE) == timedelta()


@pytest.mark.parametrize(("score", "milliseconds"), [(0, 0), (0.5, 5), (25, 250), (100, 1000), (250, 1000), (-1, 0)])
def test_who_is_busy_waits(score: float, milliseconds: int) -> None:
    assert wait(score) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("before", "beat", "unchanged", "expected"),
    [
        pytest.param(None, 7, 0, 7, id="the first"),
        pytest.param(held(6), 7, 0, 7, id="a later one"),
        pytest.param(held(6), 9, 0, 9, id="beats may be left out"),
        pytest.param(held(7), 7, 0, None, id="it is taken"),
        pytest.param(held(9), 7, 0, None, id="it is long over"),
        pytest.param(held(9), 7, 179, None, id="the others may only be slow"),
        pytest.param(held(9), 7, 180, 10, id="the clock went back, and numbers still grow"),
    ],
)
def test_what_is_claimed(before: DutyHeld | None, beat: int, unchanged: float, expected: int | None) -> None:
    assert claimed(before, beat, timedelta(seconds=unchanged), MINUTE) == expected
