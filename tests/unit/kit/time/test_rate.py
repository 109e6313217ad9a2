"""So many in a time, evenly."""

from datetime import timedelta

from rota.kit.time.rate import TokenBucket

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def test_rights_come_back_evenly_and_are_not_hoarded() -> None:
    pace = TokenBucket(10, SECOND, 0.0)
    assert pace.left(0.0) == 10
    pace.spend(10)
    assert [pace.left(now) for now in (0.05, 0.35, 0.5, 100.0)] == [0, 3, 5, 10]


def test_a_slow_pace_lets_one_through_from_time_to_time() -> None:
    pace = TokenBucket(6, MINUTE, 0.0)
    spent = []
    for now in range(60):
        count = pace.left(float(now))
        pace.spend(count)
        spent.append(count)
    assert sum(spent) == 6
    assert max(spent) == 1


def test_a_clock_that_goes_back_gives_nothing() -> None:
    pace = TokenBucket(10, SECOND, 5.0)
    pace.spend(10)
    assert pace.left(1.0) == 0
    assert pace.left(5.15) == 1
