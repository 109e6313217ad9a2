"""`rota log`, as a user runs it."""

import json
import signal
from pathlib import Path

import pytest

from rota.sources import open_log
from tests.kit.cli import ROTA, rota
from tests.kit.process import Process
from tests.kit.servers import wait_until
from tests.kit.sources import news


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with two partitions."""
    url = f"log://{tmp_path / 'clicks'}"
    made = rota("log", "create", url, "--partitions", 2, cwd=tmp_path)
    assert (made.code, made.out) == (0, f"made {url} with 2 partitions\n")
    return url


def test_lines_are_appended_and_shown(url: str, tmp_path: Path) -> None:
    answer = rota("log", "append", url, "--partition", 1, cwd=tmp_path, stdin="one\ntwo\n\nfour")
    assert (answer.code, answer.err) == (0, "appended 4 records: 4 to partition 1\n")
    assert rota("log", "tail", url, cwd=tmp_path).out == "one\ntwo\n\nfour\n"
    assert rota("log", "tail", url, "-n", 2, cwd=tmp_path).out == "\nfour\n"
    assert rota("log", "tail", url, "--offset", 1, "--partition", 1, cwd=tmp_path).out == "two\n\nfour\n"
    assert rota("log", "tail", url, "--partition", 0, cwd=tmp_path).out == ""
    assert rota("log", "tail", url, "--since", "2099-01-01T00:00:00Z", cwd=tmp_path).out == ""


def test_what_tail_shows_as_json_append_takes(url: str, tmp_path: Path) -> None:
    given = [
        {"value": {"a": [1, None]}, "key": "k", "headers": {"h": "v"}, "time": "2026-01-01T00:00:00Z"},
        {"value": "text", "headers": [["h", None], ["h", {"base64": "/w=="}]]},
        {"value": {"base64": "/w=="}, "key": {"base64": "AP8="}},
        {"value": None, "key": "gone"},
    ]
    lines = "\n".join(map(json.dumps, given))
    assert rota("log", "append", url, "--json", "--partition", 0, cwd=tmp_path, stdin=lines).code == 0
    shown = rota("log", "tail", url, "--json", cwd=tmp_path).out
    first, second, third, fourth = map(json.loads, shown.splitlines())
    assert (
        first | {"time": "2026-01-01T00:00:00Z", "value": '{"a":[1,null]}', "key": "k", "headers": [["h", "v"]]}
        == first
    )
    assert second["headers"] == [["h", None], ["h", {"base64": "/w=="}]]
    assert (third["value"], third["key"]) == ({"base64": "/w=="}, {"base64": "AP8="})
    assert (fourth["value"], fourth["key"]) == (None, "gone")
    assert [each["offset"] for each in (first, second, third, fourth)] == [0, 1, 2, 3]
    assert rota("log", "append", url, "--json", "--partition", 1, cwd=tmp_path, stdin=shown).code == 0
    again = rota("log", "tail", url, "--json", "--partition", 1, cwd=tmp_path).out
    assert again == shown.replace('"partition":0', '"partition":1')


def test_keys_share_records_out(url: str, tmp_path: Path) -> None:
    for key in ("a", "b", "c", "d"):
        assert rota("log", "append", url, "--key", key, cwd=tmp_path, stdin=f"{key}1\n{key}2\n").code == 0
    shown = [json.loads(line) for line in rota("log", "tail", url, "--json", cwd=tmp_path).out.splitlines()]
    where = {each["key"]: {one["partition"] for one in shown if one["key"] == each["key"]} for each in shown}
    assert set(where) == {"a", "b", "c", "d"}
    assert all(len(partitions) == 1 for partitions in where.values())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        pytest.param("no json", "is no record", id="no JSON"),
        pytest.param('{"key": "k"}', "missing required field `value`", id="no value"),
        pytest.param('{"value": 1, "colour": 2}', "unknown field `colour`", id="something else"),
        pytest.param('{"value": 1, "time": "2026-01-01T00:00:00"}', "has no zone", id="a time without a zone"),
        pytest.param('{"value": {"base64": "?"}}', "is no record", id="no base64"),
    ],
)
def test_a_line_that_is_no_record_is_invalid(url: str, tmp_path: Path, line: str, why: str) -> None:
    answer = rota("log", "append", url, "--json", cwd=tmp_path, stdin=line)
    assert answer.code == 2
    assert why in answer.err
    assert "write one like" in answer.err


def test_ls_truncate_and_a_tail_over_the_gap(url: str, tmp_path: Path) -> None:
    with open_log(url) as log:
        log.append(news(20), partition=0)
    cut = rota("log", "truncate", url, "--partition", 0, "--before", 15, cwd=tmp_path)
    assert (cut.code, cut.out) == (0, "partition 0 starts at 15 now\n")
    told = json.loads(rota("log", "ls", url, "-o", "json", cwd=tmp_path).out)
    assert [(each["start"], each["end"], each["segments"]) for each in told] == [(15, 20, 1), (0, 0, 0)]
    table = rota("log", "ls", url, cwd=tmp_path).out.splitlines()
    assert table[0].split() == ["PARTITION", "START", "END", "RECORDS", "SEGMENTS", "BYTES"]
    assert table[1].split()[:4] == ["0", "15", "20", "5"]
    tail = rota("log", "tail", url, "--offset", 10, "--partition", 0, cwd=tmp_path)
    assert (tail.code, tail.out.split()) == (1, ["15", "16", "17", "18", "19"])
    assert "offsets 10 to 14 cannot be read: the source has deleted them" in tail.err
    assert rota("log", "truncate", url, "--retain", cwd=tmp_path).out == "deleted 0 segments\n"


def test_tail_follows_and_a_half_written_end_is_told(url: str, tmp_path: Path) -> None:
    with Process([ROTA, "log", "tail", url, "-f"], tmp_path / "tail.out") as tail:
        rota("log", "append", url, "--partition", 0, cwd=tmp_path, stdin="one\n")
        wait_until(lambda: tail.lines() == ["one"], "the first line")
        with next((tmp_path / "clicks/0").glob("*.segment")).open("ab") as segment:
            segment.write(b"half")
        appended = rota("log", "append", url, "--partition", 0, cwd=tmp_path, stdin="two\n")
        assert appended.err.splitlines()[0] == "partition 0: cut 4 bytes off its end that were half written"
        wait_until(lambda: tail.lines() == ["one", "two"], "the second line")
        tail.send(signal.SIGINT)
        wait_until(lambda: not tail.is_running, "tail to end")
        assert "Traceback" not in tail.complaint()


def test_it_grows(url: str, tmp_path: Path) -> None:
    assert rota("log", "grow", url, "--partitions", 3, cwd=tmp_path).out == f"{url} has 3 partitions now\n"
    assert rota("log", "append", url, "--partition", 2, cwd=tmp_path, stdin="x").code == 0


def test_exit_codes(url: str, tmp_path: Path) -> None:
    nowhere = f"log://{tmp_path / 'nowhere'}"
    assert rota("log", "ls", nowhere, cwd=tmp_path).code == 3
    assert rota("log", "append", url, "--partition", 9, cwd=tmp_path, stdin="x").code == 3
    assert rota("log", "create", url, cwd=tmp_path).code == 5
    assert rota("log", "append", "kafka://host/topic", cwd=tmp_path).code == 2
    assert rota("log", "truncate", url, "--before", 3, cwd=tmp_path).code == 2
    assert rota("log", "tail", url, "--offset", 1, "--since", "2026-01-01T00:00:00Z", cwd=tmp_path).code == 2
    with open_log(url) as log:
        log.append(news(1), partition=0)
        busy = rota("log", "append", url, "--partition", 0, cwd=tmp_path, stdin="x")
    assert busy.code == 5
    assert "another process appends to it" in busy.err
