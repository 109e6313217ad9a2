import json
from datetime import UTC, datetime

import msgspec
import pytest

from rota.model import codec
from rota.model.errors import Invalid
from rota.model.ids import NodeId, SessionId
from rota.model.node import Leader

LEADER = Leader(node=NodeId("a"), session=SessionId("s"), since=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_record_comes_back_as_it_was() -> None:
    assert codec.decode(Leader, codec.encode(LEADER)) == LEADER


def test_the_bytes_are_json_with_a_version() -> None:
    assert json.loads(codec.encode(LEADER)) == {"v": 1, "node": "a", "session": "s", "since": "2026-01-01T00:00:00Z"}


@codec.stored(version=3, upgrades={1: lambda old: {"names": old["name"]}, 2: lambda old: {"names": [old["names"]]}})
class Names(msgspec.Struct, frozen=True):
    names: list[str]


@pytest.mark.parametrize("data", [b'{"v":1,"name":"a"}', b'{"v":2,"names":"a"}', b'{"v":3,"names":["a"]}'])
def test_a_record_of_an_older_version_is_brought_up_step_by_step(data: bytes) -> None:
    assert codec.decode(Names, data) == Names(["a"])


def test_only_records_that_are_declared_as_stored_are_written_and_read() -> None:
    class Stray(msgspec.Struct):
        name: str

    with pytest.raises(KeyError):
        codec.encode(Stray("a"))
    with pytest.raises(KeyError):
        codec.decode(Stray, b'{"v":1,"name":"a"}')


def test_a_field_of_a_later_release_is_left_alone() -> None:
    data = json.dumps({**json.loads(codec.encode(LEADER)), "colour": "red"}).encode()
    assert codec.decode(Leader, data) == LEADER


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b'{"v":2,"node":"a"}', "version 2, this Rota knows 1; upgrade this node", id="newer"),
        pytest.param(b'{"v":1,"node":7}', "broken leader record", id="a field of the wrong type"),
        pytest.param(b'{"node":"a"}', "no leader record", id="no version"),
        pytest.param(b"\xff\x00", "no leader record", id="no JSON"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        codec.decode(Leader, data)
