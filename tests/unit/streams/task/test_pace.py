"""How many records a stream's function is given at a time."""

from rota.streams.task.pace import FIRST, ReadPace


def test_a_quick_function_soon_gets_as_many_as_are_allowed() -> None:
    pace = ReadPace(2000)
    assert pace.size == FIRST
    for _ in range(3):
        pace.took(pace.size, 0.01)
    assert pace.size == 2000


def test_a_slow_function_gets_as_many_as_it_takes_in_a_second_and_never_none() -> None:
    pace = ReadPace(2000)
    pace.took(100, 10)
    assert pace.size == 10
    pace.took(10, 3600)
    assert pace.size == 1


def test_what_was_not_there_to_be_read_does_not_count_as_quick() -> None:
    pace = ReadPace(2000)
    pace.took(FIRST - 1, 0)
    assert pace.size == FIRST
    assert ReadPace(7).size == 7
