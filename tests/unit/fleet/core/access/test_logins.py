"""How often a caller may be turned away before it is told to wait."""

import pytest

from rota.fleet.core.access.logins import Failures, source_of
from rota.kit.time.instant import Instant


def failed(failures: Failures, source: str, *times: float) -> list[bool]:
    return [failures.is_too_often(source, Instant(time)) for time in times]


def test_some_failures_at_once_and_then_one_in_a_while() -> None:
    failures = Failures(at_once=3, every=10)
    assert failed(failures, "a", 0, 0, 0, 0, 5) == [False, False, False, True, True]
    assert failed(failures, "a", 15, 16, 26) == [False, True, False]


def test_who_was_quiet_long_enough_begins_anew() -> None:
    failures = Failures(at_once=2, every=1)
    assert failed(failures, "a", 0, 0, 0) == [False, False, True]
    assert failed(failures, "a", 100, 100, 100) == [False, False, True]


def test_each_source_has_its_own_count() -> None:
    failures = Failures(at_once=1, every=10)
    assert failed(failures, "a", 0, 0) == [False, True]
    assert failed(failures, "b", 0) == [False]


def test_a_clock_that_goes_back_gives_nobody_more() -> None:
    failures = Failures(at_once=1, every=10)
    assert failed(failures, "a", 100, 50) == [False, True]


def test_only_so_many_sources_are_remembered_and_the_latest_count() -> None:
    failures = Failures(at_once=1, every=1000, most=2)
    assert failed(failures, "a", 0) + failed(failures, "b", 0) + failed(failures, "a", 0) == [False, False, True]
    assert failed(failures, "c", 0) == [False]
    assert failed(failures, "b", 0) == [False]  # it failed longest ago, and was forgotten


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nowhere", "nowhere"),
    ],
)
def test_a_source_is_an_address_or_the_network_of_one(address: str, source: str) -> None:
    assert source_of(address) == source
