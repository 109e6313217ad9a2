"""The last line of a show: what became of the processors' time."""

from typing import NamedTuple

from shows.report import told


class Linux(NamedTuple):
    user: float
    idle: float
    iowait: float
    steal: float


class Mac(NamedTuple):
    user: float
    idle: float


def test_what_others_took_is_told() -> None:
    said = told(Linux(10.0, 10.0, 0.0, 5.0), Linux(70.0, 30.0, 5.0, 20.0))
    assert said == "15% of the processors' time was taken by other machines, 25% was idle"


def test_a_machine_that_does_not_know_says_none() -> None:
    assert told(Mac(0.0, 0.0), Mac(1.0, 3.0)).startswith("0% of the processors' time was taken by other machines, 75%")


def test_no_time_at_all_breaks_nothing() -> None:
    assert told(Mac(1.0, 1.0), Mac(1.0, 1.0)).startswith("0% ")
