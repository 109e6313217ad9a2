"""One node's relay: what tasks emit is in the sink, whatever dies."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rota.sinks import Message
from rota.store import Store, open_store
from tests.kit.emitters import emit_from, emitting, gaps, numbers_of, relays
from tests.kit.node import NodeUnderTest
from tests.kit.sinks import read_lines
from tests.kit.waiting import eventually


@asynccontextmanager
async def node(folder: Path, *, has_sink: bool = True, **settings: str) -> AsyncIterator[tuple[NodeUnderTest, Store]]:
    sink = f"file://{folder}/out.jsonl"
    found = emitting(folder, sink if has_sink else "", **settings)
    async with open_store(found.store) as store:
        with found:
            await found.ready()
            yield found, store
        await eventually(lambda: not found.leftovers())


def arrived(folder: Path) -> list[Message]:
    path = folder / "out.jsonl"
    return read_lines(path) if path.exists() else []


def noted(found: NodeUnderTest, word: str) -> list[list[str]]:
    return [words for words in found.notes() if words[0] == word]


async def relay(found: NodeUnderTest) -> int:
    """The pid of its relay, once there is one."""
    status = await found.until(lambda status: status["processes"]["relay"])
    return int(status["processes"]["relay"])


async def test_async_and_sync_tasks_emit_and_each_message_is_there_once_and_in_order(tmp_path: Path) -> None:
    async with node(tmp_path) as (found, store):
        await emit_from(store, "counter", ["1", "2"], count=3000)
        await emit_from(store, "plain", ["3"], count=200)
        await eventually(lambda: len(noted(found, "done")) == 3, within=30)
        await eventually(lambda: len(arrived(tmp_path)) >= 6202)
        messages = arrived(tmp_path)
        assert len(messages) == 6202
        for one in ("1", "2"):
            assert numbers_of(messages, one) == list(range(3000))
        keys = [message.key for message in messages if message.resource == "3"]
        assert keys == [*map(str, range(200)), "a", "b"]
        assert {message.node for message in messages} == {found.name}
        status = await eventually(lambda: _confirmed(store, 6202))
        assert status["rejected"] == {}


async def _confirmed(store: Store, count: int) -> dict[str, object] | None:
    for status in (await relays(store)).values():
        for sink in status.sinks:
            if sink.confirmed == count:
                return {"rejected": sink.rejected, "state": sink.state}
    return None


async def test_a_message_that_was_waited_for_is_in_the_sink(tmp_path: Path) -> None:
    async with node(tmp_path) as (found, store):
        await emit_from(store, "careful", ["1"], count=50)
        seen = 0
        while seen < 50:
            await eventually(lambda: len(noted(found, "safe")) > seen)  # noqa: B023  # it is asked at once
            safe = [int(words[2]) for words in noted(found, "safe")]
            assert set(safe) <= set(numbers_of(arrived(tmp_path), "1"))
            seen = len(safe)


async def test_a_relay_that_is_killed_loses_nothing_and_tasks_notice_nothing(tmp_path: Path) -> None:
    async with node(tmp_path) as (found, store):
        await emit_from(store, "counter", ["1", "2"], count=8000, pause=0.2)
        for mark in (1000, 3000, 5000):
            await eventually(lambda: len(arrived(tmp_path)) > mark, within=30)  # noqa: B023
            os.kill(await relay(found), signal.SIGKILL)
        await eventually(lambda: len(noted(found, "done")) == 2, within=30)
        await eventually(lambda: len({one.id for one in arrived(tmp_path)}) == 16_000, within=30)
        assert len(noted(found, "start")) == 2, "tasks were started again"
        messages = arrived(tmp_path)
        first_copies = list({one.id: one for one in messages}.values())
        for one in ("1", "2"):
            assert numbers_of(first_copies, one) == list(range(8000))
        assert len({(one.resource, one.key) for one in messages}) == 16_000, "a repeat has another id"


async def test_new_code_gets_the_work_and_no_message_is_missing(tmp_path: Path) -> None:
    async with node(tmp_path) as (found, store):
        await emit_from(store, "ticker", ["1"])
        await eventually(lambda: len(arrived(tmp_path)) > 20)
        assert found.rota("reload").code == 0
        await eventually(lambda: len({words[3] for words in noted(found, "start")}) == 2)
        count = len(arrived(tmp_path))
        await eventually(lambda: len(arrived(tmp_path)) > count + 40)
        numbers = numbers_of(arrived(tmp_path), "1")
        assert gaps(numbers) == []
        assert len(numbers) == len(set(numbers))


async def test_what_was_emitted_last_is_in_the_sink_when_the_node_has_stopped(tmp_path: Path) -> None:
    async with node(tmp_path) as (found, store):
        await emit_from(store, "counter", ["1"], count=20_000)
        await eventually(lambda: noted(found, "done"), within=30)
        found.stop()
        assert numbers_of(arrived(tmp_path), "1") == list(range(20_000))


async def test_without_a_sink_emit_says_what_to_do_and_there_is_no_relay(tmp_path: Path) -> None:
    async with node(tmp_path, has_sink=False) as (found, store):
        await emit_from(store, "homeless", ["1"])
        refused = await eventually(lambda: noted(found, "refused"))
        assert "set sink in [relay]" in " ".join(refused[0])
        assert (await found.status())["processes"]["relay"] is None


async def test_the_settings_may_name_a_sink_for_all(tmp_path: Path) -> None:
    async with node(tmp_path, has_sink=False, sink=f"file://{tmp_path}/out.jsonl") as (found, store):
        await emit_from(store, "homeless", ["1"])
        await eventually(lambda: noted(found, "sent"))
        assert [one.payload for one in arrived(tmp_path)] == [b"x"]
