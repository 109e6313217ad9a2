from datetime import UTC, datetime, timedelta

import pytest

from rota.model import codec, event
from rota.model.errors import Invalid
from rota.model.event import LONGEST, Event, Severity, make, matches
from rota.model.ids import NodeId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A = NodeId("a")


def exited(at: datetime = NOON, number: int = 1, node: str = "a", **fields: event.Value) -> Event:
    return make("worker.exited", "echo-1", fields, node=NodeId(node), at=at, number=number)


def test_an_event_says_a_sentence_with_its_reason() -> None:
    made = exited(why="killed by signal 9", pid=7)
    assert made.text == "worker echo-1 exited: killed by signal 9"
    assert made.severity is Severity.WARNING
    assert made.fields == {"why": "killed by signal 9", "pid": 7}
    assert exited().text == "worker echo-1 exited"


def test_a_subject_with_braces_is_only_a_subject() -> None:
    assert make("app.failed", "{x}.py", {}, node=A, at=NOON, number=1).text == "app {x}.py cannot be loaded"


def test_fields_stand_where_the_sentence_names_them() -> None:
    told = make("stream.state", "{state}", {"state": "idle", "why": "no news"}, node=A, at=NOON, number=1)
    assert told.text == "stream {state} is idle: no news"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(Invalid, match=r"worker.exploded.*add it to KINDS"):
        make("worker.exploded", "x", {}, node=A, at=NOON, number=1)


def test_it_comes_back_as_it_was() -> None:
    made = exited(code=3, share=0.5, again=True, signal=None, why="ü")
    assert codec.decode(Event, codec.encode(made)) == made


def test_long_texts_are_cut() -> None:
    made = exited(why="x" * 5000)
    assert len(str(made.fields["why"])) == LONGEST
    assert len(made.text) == LONGEST


def test_ids_sort_as_events_happened() -> None:
    made = [exited(NOON), exited(NOON, 2), exited(NOON + timedelta(milliseconds=1)), exited(NOON + timedelta(days=9))]
    ids = [each.id for each in made]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("at", [NOON, NOON + timedelta(milliseconds=7), datetime(1970, 1, 1, tzinfo=UTC)])
def test_an_id_tells_its_time(at: datetime) -> None:
    assert event.time_of(exited(at).id) == at


@pytest.mark.parametrize("text", ["", "12", "x" * 20, "9" * 15, "²" * 15])
def test_what_is_no_id_has_no_time(text: str) -> None:
    assert event.time_of(text) is None


@pytest.mark.parametrize(
    ("kinds", "node", "expected"),
    [
        pytest.param((), None, True, id="anything"),
        pytest.param(("worker.*",), None, True, id="a pattern"),
        pytest.param(("node.*", "worker.exited"), None, True, id="one of several"),
        pytest.param(("worker",), None, False, id="half a name"),
        pytest.param((), "b", False, id="another node"),
        pytest.param(("worker.*",), "a", True, id="kind and node"),
    ],
)
def test_matching(kinds: tuple[str, ...], node: str | None, expected: bool) -> None:
    assert matches(exited(), kinds, node) is expected


def test_every_kind_says_something_of_its_subject() -> None:
    for name, kind in event.KINDS.items():
        assert name.count(".") == 1
        assert "{subject}" in kind.says
        assert kind.doc.endswith(".")
