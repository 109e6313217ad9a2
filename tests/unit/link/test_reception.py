"""The answering side without a transport: what it remembers, and for how long."""

import asyncio
from datetime import timedelta

import pytest

from rota.link.reception import Latest, Reception
from rota.link.records import Accepted, AttemptRefused, StartAttempt
from rota.model.errors import Unavailable
from tests.kit.link_server import ATTEMPT, Desk, start


def test_only_the_latest_are_remembered() -> None:
    latest: Latest[str, int] = Latest(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        latest.put(key, value)
    assert [latest.get(key) for key in "abc"] == [3, None, 4]


def test_a_value_is_dropped_unless_there_is_another_by_now() -> None:
    latest: Latest[str, object] = Latest(2)
    old, new = object(), object()
    latest.put("a", new)
    latest.drop("a", old)
    assert latest.get("a") is new
    latest.drop("a", new)
    assert latest.get("a") is None


async def dispatched(reception: Reception, start: StartAttempt) -> Accepted | AttemptRefused:
    (answer,) = await reception.dispatch_many(None, [start])
    return answer


async def test_a_failed_start_does_not_push_out_the_answer_of_a_later_epoch() -> None:
    desk = Desk()
    desk.open.clear()
    reception = Reception(desk)
    desk.answer = Unavailable("not yet")
    first = asyncio.ensure_future(dispatched(reception, start(epoch=5)))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(dispatched(reception, start(epoch=6)))
    await asyncio.sleep(0)
    desk.open.set()
    assert await first == await second == AttemptRefused(why="not yet")
    desk.answer = Accepted()
    assert await dispatched(reception, start(epoch=6)) == Accepted()
    desk.answer = AttemptRefused(why="full")
    assert await dispatched(reception, start(epoch=6)) == Accepted()
    await reception.close(timedelta())


async def test_a_closing_reception_takes_nothing() -> None:
    desk = Desk()
    reception = Reception(desk)
    await reception.close(timedelta())
    with pytest.raises(Unavailable, match="node b is stopping"):
        reception.check(None)
    with pytest.raises(Unavailable):
        await dispatched(reception, start())
    with pytest.raises(Unavailable):
        await reception.read_log(None, ATTEMPT, 0)
    assert not desk.was_asked
