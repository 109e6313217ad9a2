"""What a user's function is handed."""

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.kit.time import virtual
from rota.model.errors import Invalid
from rota.sdk.context import Message, Stopping, SyncTask, Task


class Door:
    """Writes down what came through."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.signs = 0
        self.saved: list[dict[str, Any]] = []

    async def emit(self, messages: list[Message]) -> None:
        await asyncio.sleep(0)
        self.messages += messages

    def alive(self) -> None:
        self.signs += 1

    async def save(self, state: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        self.saved.append(state)


def given(**more):
    return {"id": "room/1/0", "resource": "1", "slot": 0, "epoch": 7, "spec": {"id": "1"}, **more}


def inline(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """A bridge for tests: a loop for one call."""
    return virtual.run(coroutine)


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("payload", "sent"),
    [
        (b"bytes", b"bytes"),
        (bytearray(b"array"), b"array"),
        (memoryview(b"view"), b"view"),
        ("täxt", "täxt".encode()),
        ({"a": [1, None]}, b'{"a":[1,null]}'),
        ([1, 2], b"[1,2]"),
        (3, b"3"),
        (True, b"true"),
        (Point(1), b'{"x":1}'),
        (datetime(2026, 1, 1, tzinfo=UTC), b'"2026-01-01T00:00:00Z"'),
        (b"", b""),
    ],
)
def test_a_payload_is_bytes_text_or_json(payload, sent):
    assert Message(payload).payload == sent


@pytest.mark.parametrize("payload", [None, object(), {"a": object()}, {(1, 2): 3}, lambda: 1])
def test_what_is_no_payload(payload):
    with pytest.raises(Invalid, match=r"the payload is .*; send bytes"):
        Message(payload)


@pytest.mark.parametrize(("key", "kept"), [(None, None), ("a", "a"), (5, "5"), ("", ""), (-1, "-1")])
def test_a_key_is_text(key, kept):
    assert Message(b"", key=key).key == kept


@pytest.mark.parametrize("key", [b"a", 1.5, True, ["a"]])
def test_what_is_no_key(key):
    with pytest.raises(Invalid, match="it must be a str or an int"):
        Message(b"", key=key)


class Found(str):
    """Text as parsers give it."""


class Blob(bytes):
    """Bytes of a library's own."""


def test_text_and_bytes_of_a_library_are_sent_as_plain_ones():
    sent = Message(Blob(b"a"), key=Found("k"), to=Found("t"))
    assert [type(part) for part in (sent.payload, sent.key, sent.to)] == [bytes, str, str]
    assert sent == Message(b"a", key="k", to="t")


@pytest.mark.parametrize("to", [b"topic", 5, ["a"]])
def test_what_is_no_place(to):
    with pytest.raises(Invalid, match="it must be a str"):
        Message(b"", to=to)


@pytest.mark.parametrize("name", ["\ud800", "a" * 20_000])
def test_what_cannot_be_sent_is_refused_before_it_is_among_what_others_send(name):
    with pytest.raises(Invalid, match=r"the key .*; send text|the key .*: shorten"):
        Message(b"", key=name)
    with pytest.raises(Invalid, match=r"to .*; send text|to .*: shorten"):
        Message(b"", to=name)


def test_equal_messages_are_equal_and_none_changes():
    assert Message("a", key=1, to="t") == Message(b"a", key="1", to="t")
    assert Message("a") != Message("a", confirm=True)
    with pytest.raises(AttributeError):
        Message("a").key = "b"


async def test_an_async_task_awaits_its_door():
    door = Door()
    task = Task(**given(), door=door)
    await task.emit({"a": 1}, key=5, to="chat", confirm=True)
    await task.emit_many([b"x", Message("y", key="k")], to="t")
    task.alive()
    assert door.messages == [Message({"a": 1}, 5, "chat", True), Message("x", to="t"), Message("y", "k")]
    assert door.signs == 1
    assert (task.id, task.resource, task.slot, task.epoch, task.spec) == ("room/1/0", "1", 0, 7, {"id": "1"})


def test_a_plain_task_blocks_instead():
    door = Door()
    task = SyncTask(**given(), door=door, call=inline)
    assert task.emit("a", key="k") is None
    task.emit_many(["b", "c"], confirm=True)
    task.alive()
    task.save({"at": 3})
    assert door.messages == [Message("a", "k"), Message("b", confirm=True), Message("c", confirm=True)]
    assert door.saved == [{"at": 3}]
    assert task.saved == {"at": 3}


@pytest.mark.parametrize("items", [b"bytes", "text", {"a": 1}])
async def test_emit_many_is_for_many(items):
    with pytest.raises(Invalid, match="use emit for one"):
        await Task(**given(), door=Door()).emit_many(items)


async def test_saved_is_what_comes_back_after_a_restart():
    task = Task(**given(saved={"old": 1}), door=Door())
    assert task.saved == {"old": 1}
    await task.save({"when": datetime(2026, 1, 1, tzinfo=UTC), "pair": (1, 2)})
    assert task.saved == {"when": "2026-01-01T00:00:00Z", "pair": [1, 2]}


async def test_saved_stays_when_saving_failed():
    class Broken(Door):
        async def save(self, state):
            raise Invalid("no")

    task = Task(**given(saved={"a": 1}), door=Broken())
    with pytest.raises(Invalid):
        await task.save({"a": 2})
    assert task.saved == {"a": 1}


@pytest.mark.parametrize("state", [[1], "a", None, {"a": object()}])
async def test_what_cannot_be_saved(state):
    with pytest.raises(Invalid, match="task room/1/0: "):
        await Task(**given(), door=Door()).save(state)


def test_stopping_is_asked_for_once_and_stays():
    stopping = Stopping()
    assert not stopping
    assert not stopping.wait(0)
    assert not stopping.wait("1ms")
    stopping.set()
    assert stopping
    assert stopping.is_set()
    assert stopping.wait()
    assert stopping.wait(timedelta(hours=1))


def test_stopping_wakes_who_waits():
    stopping = Stopping()
    woken = []
    thread = threading.Thread(target=lambda: woken.append(stopping.wait("30s")))
    thread.start()
    stopping.set()
    thread.join(timeout=10)
    assert woken == [True]


async def test_who_waits_on_a_loop_is_told_what_to_do():
    with pytest.raises(Invalid, match=r"await asyncio\.Event"):
        Stopping().wait("30s")


def test_a_bad_time_out_is_told():
    with pytest.raises(Invalid, match="is not a duration"):
        Stopping().wait("30")


@pytest.mark.parametrize(
    "state",
    [
        {"x": float("nan")},
        {"x": [1.0, {"y": float("inf")}]},
        {"x": (None, -float("inf"))},
    ],
)
async def test_a_number_that_json_does_not_have_is_not_saved_as_nothing(state):
    door = Door()
    task = Task(**given(), door=door)
    with pytest.raises(Invalid, match=r"x.*(nan|inf), which JSON does not have; save None"):
        await task.save(state)
    assert door.saved == []


async def test_nothing_is_saved_as_nothing():
    door = Door()
    await Task(**given(), door=door).save({"x": None, "text": "null", "y": 1e308})
    assert door.saved == [{"x": None, "text": "null", "y": 1e308}]
