"""When people are told that something waits, and when that it is over."""

from datetime import UTC, datetime, timedelta

from rota.fleet.core.events.waiting import EpisodeReport, OpenWait, step

NOW = datetime(2026, 11, 18, tzinfo=UTC)
AFTER = timedelta(minutes=5)


def since(minutes: float) -> OpenWait:
    return OpenWait(NOW - timedelta(minutes=minutes), "full")


def test_what_waits_long_enough_is_told_once_and_its_end_once() -> None:
    assert step((), {"a": since(4.9), "b": since(5)}, AFTER, NOW) == EpisodeReport(("b",), ())
    assert step({"b"}, {"b": since(6)}, AFTER, NOW) == EpisodeReport((), ())
    assert step({"b"}, {}, AFTER, NOW) == EpisodeReport((), ("b",))


def test_what_another_leader_told_of_is_not_over_because_this_one_has_seen_it_for_a_moment_only() -> None:
    assert step({"b"}, {"b": since(0)}, AFTER, NOW) == EpisodeReport((), ())


def test_of_very_many_those_that_wait_longest_are_told_and_others_when_there_is_room() -> None:
    waiting = {f"r{number}": since(10 + number) for number in range(5)}
    assert step((), waiting, AFTER, NOW, most=2) == EpisodeReport(("r4", "r3"), ())
    assert step({"r4", "gone"}, waiting, AFTER, NOW, most=2) == EpisodeReport(("r3",), ("gone",))


def test_switched_off_nothing_is_told_and_what_was_told_is_over() -> None:
    assert step({"a"}, {"a": since(9), "b": since(9)}, timedelta(), NOW) == EpisodeReport((), ("a",))
