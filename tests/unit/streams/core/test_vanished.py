"""Where a stream goes on when records have vanished."""

from datetime import UTC, datetime

import pytest

from rota.sources import Bounds, Gap, Vanished
from rota.streams.core.vanished import Skip, StreamHalt, decide

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
DELETED = Vanished("log:///it", 3, Gap(20, 99), Bounds(100, 300), "the source has deleted them")
DAMAGED = Vanished("log:///it", 3, Gap(20, 29), Bounds(0, 300), "they are damaged on disk")
SHORTER = Vanished("log:///it", 3, Gap(40, 99), Bounds(10, 40), "the source is shorter than it was")


@pytest.mark.parametrize("lost", [DELETED, DAMAGED, SHORTER])
@pytest.mark.parametrize("is_anew", [False, True])
def test_halt_waits_and_says_why(lost: Vanished, is_anew: bool) -> None:
    verdict = decide(lost, "halt", NOON, is_anew=is_anew)
    assert verdict == StreamHalt(partition=3, gap=lost.gap, why=str(lost))


@pytest.mark.parametrize(
    ("lost", "policy", "is_anew", "offset", "gap"),
    [
        pytest.param(DELETED, "earliest", False, 100, Gap(20, 99), id="deleted: what is left"),
        pytest.param(DELETED, "latest", False, 300, Gap(20, 299), id="deleted: the end, and a larger gap"),
        pytest.param(DAMAGED, "earliest", False, 30, Gap(20, 29), id="damaged: behind the damage"),
        pytest.param(DAMAGED, "latest", False, 300, Gap(20, 299), id="damaged: the end"),
        pytest.param(SHORTER, "earliest", False, 40, Gap(40, 99), id="cut: nothing is read twice"),
        pytest.param(SHORTER, "earliest", True, 10, Gap(40, 99), id="made anew: all of it is new"),
        pytest.param(SHORTER, "latest", True, 40, Gap(40, 99), id="made anew: the end"),
        pytest.param(DELETED, "earliest", True, 100, Gap(20, 99), id="made anew and deleted"),
    ],
)
def test_going_on_leaves_a_record_of_the_gap(lost: Vanished, policy: str, is_anew: bool, offset: int, gap: Gap) -> None:
    verdict = decide(lost, policy, NOON, is_anew=is_anew)
    assert verdict == Skip(partition=3, gap=gap, offset=offset, policy=policy, why=lost.why, at=NOON)
