"""Which offsets have no record, and which are gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.sources.gaps import Missing, between, outside, split
from rota.sources.port import Batch, Bounds, Gap, Record


def records(*offsets: int) -> list[Record]:
    return [Record(offset, 0, None, b"") for offset in offsets]


@pytest.mark.parametrize(
    ("position", "has", "then", "expected"),
    [
        pytest.param(5, (5, 6, 7), 8, (), id="none"),
        pytest.param(5, (7,), 8, (Gap(5, 6),), id="before"),
        pytest.param(5, (5, 8), 9, (Gap(6, 7),), id="between"),
        pytest.param(5, (5,), 9, (Gap(6, 8),), id="behind"),
        pytest.param(5, (), 7, (Gap(5, 6),), id="nothing else"),
    ],
)
def test_between(position: int, has: tuple[int, ...], then: int, expected: tuple[Gap, ...]) -> None:
    assert between(position, records(*has), then) == expected


@given(st.sets(st.integers(0, 60)), st.integers(0, 20))
def test_records_and_gaps_are_all_offsets(has, more):
    then = max(has, default=0) + 1 + more
    gaps = between(0, records(*sorted(has)), then)
    assert sorted([*has, *(offset for gap in gaps for offset in range(gap.first, gap.last + 1))]) == list(range(then))


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(0, 5), st.data())
def test_a_split_batch_is_the_batch(has, more, data):
    then = max(has) + 1 + more
    batch = Batch(3, records(*sorted(has)), then, between(0, records(*sorted(has)), then))
    most = data.draw(st.integers(0, len(has) - 1))
    head, tail = split(batch, most)
    assert len(head.records) == most
    assert head.records + tail.records == batch.records
    assert head.gaps + tail.gaps == batch.gaps
    assert tail.next == batch.next
    assert head.gaps == between(0, head.records, head.next)
    assert tail.gaps == between(head.next, tail.records, tail.next)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        pytest.param(10, None, id="the first"),
        pytest.param(20, None, id="the end"),
        pytest.param(7, Gap(7, 9), id="too old"),
        pytest.param(25, Gap(20, 24), id="too new"),
    ],
)
def test_outside(position: int, expected: Gap | None) -> None:
    found = outside(position, Bounds(10, 20))
    assert (found.gap if isinstance(found, Missing) else found) == expected


def test_a_gap_says_its_offsets() -> None:
    assert str(Gap(4, 4)) == "offset 4"
    assert str(Gap(4, 6)) == "offsets 4 to 6"
    assert len(Gap(4, 6)) == 3
