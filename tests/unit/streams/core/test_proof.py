"""Whether a partition has every record once, told from ranges and moves alone."""

from hypothesis import assume, given
from hypothesis import strategies as st

from rota.streams.core.proof import Walk

ALL = (0, 10**9)


def flaws(walk: Walk) -> list[str]:
    return [str(flaw) for flaw in walk.flaws(0, ALL)]


def test_a_chain_of_ranges_has_no_flaw_wherever_it_begins() -> None:
    assert flaws(Walk([(0, 10), (10, 25)], [], 25)) == []
    assert flaws(Walk([(25, 30), (7, 25), (30, 30)], [], 30)) == []
    assert flaws(Walk([], [], 12)) == []


def test_a_gap_and_a_repeat_are_named() -> None:
    assert flaws(Walk([(0, 10), (20, 30)], [], 30)) == ["partition 0: records 10 to 19 are not in the output"]
    assert flaws(Walk([(0, 10), (9, 20)], [], 20)) == ["partition 0: record 9 is in the output 2 times instead of once"]
    assert flaws(Walk([(0, 10)], [], 12)) == ["partition 0: records 10 to 11 are not in the output"]


def test_only_what_is_asked_for_is_looked_at() -> None:
    walk = Walk([(0, 10), (20, 30)], [], 30)
    assert [(flaw.start, flaw.end) for flaw in walk.flaws(3, (15, 18))] == [(15, 18)]
    assert walk.flaws(3, (20, 30)) == []


def test_what_was_read_again_is_there_twice_and_what_was_left_out_is_not_missed() -> None:
    again = Walk([(0, 10), (4, 20)], [(10, 4)], 20)
    assert (flaws(again), again.due(3), again.due(4), again.due(9), again.due(10), again.due(20)) == ([], 1, 2, 2, 1, 0)
    ahead = Walk([(0, 10), (15, 20)], [(10, 15)], 20)
    assert (flaws(ahead), ahead.due(9), ahead.due(12), ahead.due(15)) == ([], 1, 0, 1)
    back_before_the_beginning = Walk([(100, 150), (0, 200)], [(150, 0)], 200)
    assert (flaws(back_before_the_beginning), back_before_the_beginning.begin) == ([], 100)


def test_a_record_that_was_read_again_and_published_once_is_missed() -> None:
    walk = Walk([(0, 10), (6, 20)], [(10, 4)], 20)
    assert flaws(walk) == ["partition 0: records 4 to 5 are in the output once instead of 2 times"]


steps = st.lists(st.tuples(st.booleans(), st.integers(1, 50)), min_size=1, max_size=30)


def walked(begin: int, taken: list[tuple[bool, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
    """Ranges and moves of a walk: forward by publishing, or anywhere by somebody's hand."""
    at, spans, moves = begin, [], []
    for is_range, far in taken:
        to = at + far if is_range else max(0, at + 25 - far)
        (spans if is_range else moves).append((at, to))
        at = to
    return spans, moves, at


@given(st.integers(0, 100), steps)
def test_no_walk_has_a_flaw(begin: int, taken: list[tuple[bool, int]]) -> None:
    spans, moves, committed = walked(begin, taken)
    assert Walk(spans, moves, committed).flaws(0, ALL) == []


@given(st.integers(0, 100), steps, st.data())
def test_a_range_that_is_missing_or_there_twice_is_found(
    begin: int, taken: list[tuple[bool, int]], data: st.DataObject
) -> None:
    spans, moves, committed = walked(begin, taken)
    assume(len(spans) > 1)
    index = data.draw(st.integers(1, len(spans) - 1))
    # Where somebody set the offset back, a range too many may look like one that the walk began with.
    twice = Walk([*spans, spans[index]], moves, committed)
    assert any(flaw.times > flaw.due for flaw in twice.flaws(0, ALL)) or twice.begin != begin
    less = Walk([*spans[:index], *spans[index + 1 :]], moves, committed)
    assert less.flaws(0, ALL) or less.begin != begin
