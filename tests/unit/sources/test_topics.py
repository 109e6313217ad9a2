"""Patterns of topics, and the numbers of their partitions."""

import pytest

from rota.model.errors import Invalid
from rota.sources import topics
from rota.sources.topics import SourcePartition, matching, numbered


def test_a_pattern_means_whole_names_and_never_the_brokers_own() -> None:
    names = ["clicks.eu", "clicks.us", "clicks.us.old", "views.eu", "__clicks.eu"]
    assert matching("^clicks[.](eu|us)", names) == ["clicks.eu", "clicks.us"]
    assert matching("^.*[.]eu", names) == ["clicks.eu", "views.eu"]
    assert matching("^x", names) == []


def test_numbers_stay_when_topics_come_and_end_in_the_partition() -> None:
    before = numbered({"b": ("id-b", [0, 1])})
    after = numbered({"a": ("id-a", [0]), "b": ("id-b", [0, 1, 12])})
    assert before.items() < after.items()
    assert sorted(after.values()) == [
        SourcePartition("a", 0),
        SourcePartition("b", 0),
        SourcePartition("b", 1),
        SourcePartition("b", 12),
    ]
    assert [number % topics.MOST for number, place in after.items() if place == SourcePartition("b", 12)] == [12]
    assert max(after) < 2**53  # as large as numbers in JSON may be for everybody


def test_a_topic_that_was_made_anew_has_other_partitions() -> None:
    assert not numbered({"b": ("old", [0])}).keys() & numbered({"b": ("new", [0])}).keys()


def test_two_topics_of_one_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "crc32", lambda data: 7)
    with pytest.raises(Invalid, match="topics a and b cannot be read by one pattern; read one of them by name"):
        numbered({"a": ("1", [0]), "b": ("2", [0])})
