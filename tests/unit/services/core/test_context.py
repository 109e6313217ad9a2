"""What a handler is given and what it may answer."""

import pytest

from rota.model.errors import Invalid
from rota.services.core.context import Reply, Request
from rota.stage.staged import StagedClient


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        (Reply(b"a", 3), Reply(b"a", 3)),
        (b"a", Reply(b"a")),
        ("ä", Reply("ä".encode())),
        ({"ret": -5}, Reply(b"", -5)),
        ({"body": "a"}, Reply(b"a")),
        ({"ret": 1, "body": b"a"}, Reply(b"a", 1)),
        ({"body": {"json": True}}, Reply(b'{"json":true}')),
        ({}, Reply()),
    ],
)
def test_what_a_handler_may_return(value, reply):
    assert Reply.of(value) == reply


@pytest.mark.parametrize(
    "value", [3, None, ["a"], {0: "ret"}, {"ret": "0"}, {"ret": 1 << 31}, {"body": None}, object()]
)
def test_what_a_handler_may_not_return(value):
    with pytest.raises(Invalid):
        Reply.of(value)


def request(sent, body=b""):
    client = StagedClient()
    client.replies = sent
    return Request("logic", 101, 7, body, 1, client)


def test_a_request_is_answered_at_most_once():
    sent = []
    asked = request(sent)
    assert not asked.is_answered
    assert asked.write(b"a")
    assert not asked.write(b"b")
    assert sent == [Reply(b"a")]
    assert asked.is_answered


def test_nonsense_is_not_an_answer():
    sent = []
    asked = request(sent)
    with pytest.raises(Invalid):
        asked.write(3)
    assert asked.write(b"a")
    assert sent == [Reply(b"a")]


@pytest.mark.parametrize(("value", "replies"), [(None, []), (b"no", [Reply(b"no")])])
def test_interrupting(value, replies):
    sent = []
    asked = request(sent)
    assert asked.interrupt(value)
    assert asked.is_interrupted
    assert sent == replies


def test_a_body_as_json():
    assert request([], b'{"a":1}').json() == {"a": 1}
    with pytest.raises(Invalid, match="the body of cmd 101 is not JSON"):
        request([], b"{").json()
