"""The app of this folder, tried in virtual time: a night takes milliseconds."""

import pytest
from app import app, clicks, logic, login, report, room

import rota
from rota.testing import Stage


def test_a_room_talks_every_ten_seconds() -> None:
    with Stage(app) as stage:
        stage.start(room("lobby"))
        stage.advance("25s")
        assert [message["says"] for message in stage.sink.json()] == ["hello 1", "hello 2", "hello 3"]


def test_two_replicas_are_heard_once() -> None:
    with Stage(app) as stage:
        stage.start(room("lobby"), slot=0)
        stage.start(room("lobby"), slot=1)
        assert len(stage.sink.emitted) == 2
        assert stage.sink.messages == [rota.Message({"room": "lobby", "says": "hello 1"}, key=1)]


def test_a_room_goes_on_counting_where_it_was() -> None:
    with Stage(app) as stage:
        first = stage.start(room("lobby"))
        stage.advance("15s")
        first.stop()
        stage.sink.clear()
        stage.start(room("lobby"))
        assert [message["says"] for message in stage.sink.json()] == ["hello 3"]


def test_the_source_lists_two_rooms() -> None:
    with Stage(app) as stage:
        assert [(each.id, each.priority) for each in stage.query(room)] == [("lobby", 1), ("kitchen", 0)]


def test_a_client_is_welcomed() -> None:
    with Stage(app) as stage:
        assert stage.request(logic, 101, {"name": "Ada"}) == rota.Reply(b"welcome, Ada")
        assert stage.request(logic, 102, b"quietly") is None


@pytest.mark.parametrize(("cmd", "body", "ret"), [(999, b"", -10000), (101, b"no json", -10001)])
def test_what_goes_wrong_has_a_code(cmd: int, body: bytes, ret: int) -> None:
    with Stage(app) as stage:
        reply = stage.request(logic, cmd, body)
    assert reply is not None
    assert reply.ret == ret


def test_the_report_runs_at_three_in_shanghai() -> None:
    with Stage(app, at="2026-01-01") as stage:
        done = stage.fire("2026-01-01", "2026-01-02")
    assert [(run.job, f"{run.due:%H:%M}", run.output) for run in done] == [
        ("report", "19:00", "report for 2026-01-01, attempt 1\n"),
        ("tidy", "19:00", "tidied up\n"),
    ]


def test_robots_are_not_counted() -> None:
    with Stage(app) as stage:
        rows = stage.feed(clicks, [{"user": "ada", "page": "/"}, {"user": "robot", "page": "/"}])
    assert [(row["user"], row["page"]) for row in rows] == [("ada", "/")]


def test_a_declared_function_is_still_a_function() -> None:
    assert login.__name__ == "login"
    assert report.spec.retries == 2
