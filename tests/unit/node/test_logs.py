"""Logs of attempts: written down each second, followed while they grow, kept through outages."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.kit import virtual
from rota.model.errors import Invalid, Unavailable
from rota.node.logs import RunLogs
from rota.store.logs.folder import FolderLogs
from rota.store.logs.port import LogChunk
from tests.kit.waiting import eventually

KEY = ("job/1", 1)


class Shelf(FolderLogs):
    """A folder that may be out of reach, and counts how often it is written to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_away = False
        self.appends = 0

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        if self.is_away:
            raise Unavailable("shelf: away")
        self.appends += 1
        await super().append(chunks)


async def kept(shelf: Shelf) -> bytes:
    found = b""
    while piece := await shelf.read(*KEY, len(found)):
        found += piece
    return found


async def test_what_comes_is_written_down_and_whole_at_the_end(tmp_path: Path) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    logs.take(KEY, b"one\n")
    await logs.write_down()
    assert await kept(shelf) == b"one\n"
    logs.take(KEY, b"two\n")
    assert logs.close(KEY) == 8
    await logs.write_down()
    assert await kept(shelf) == b"one\ntwo\n"
    assert await shelf.is_whole(*KEY)
    appends = shelf.appends
    await logs.write_down()
    assert shelf.appends == appends, "a log that is whole is let go"
    keeping.cancel()


async def test_a_log_that_ends_after_all_is_written_down_is_marked_whole(tmp_path: Path) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    logs.take(KEY, b"all")
    await logs.write_down()
    logs.close(KEY)
    await logs.write_down()
    assert await shelf.is_whole(*KEY)
    assert await kept(shelf) == b"all"
    keeping.cancel()


async def test_an_attempt_without_output_costs_nothing(tmp_path: Path) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    assert logs.close(KEY) == 0
    await logs.write_down()
    assert shelf.appends == 0
    assert [piece async for piece in logs.follow(*KEY)] == []
    keeping.cancel()


async def test_an_outage_loses_nothing(tmp_path: Path) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    shelf.is_away = True
    for number in range(10):
        logs.take(KEY, b"%d\n" % number)
        await logs.write_down()
    logs.close(KEY)
    shelf.is_away = False
    await logs.write_down()
    assert await kept(shelf) == b"".join(b"%d\n" % number for number in range(10))
    keeping.cancel()


async def test_a_long_outage_gives_up_the_oldest_logs_that_are_over_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.node.logs.HELD", 300_000)
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    shelf.is_away = True
    logs.take(("running", 1), b"x" * 100_000)
    for number in range(10):
        logs.take((f"over/{number}", 1), b"x" * 100_000)
        logs.close((f"over/{number}", 1))
        await logs.write_down()
    shelf.is_away = False
    await logs.write_down()
    found = [number for number in range(10) if await shelf.is_whole(f"over/{number}", 1)]
    assert found == [8, 9]
    assert await shelf.read("running", 1)
    keeping.cancel()


async def test_a_follower_reads_what_is_kept_then_what_comes_and_ends_with_the_log(tmp_path: Path) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    logs.take(KEY, b"old ")
    await logs.write_down()
    logs.take(KEY, b"new ")
    found: list[bytes] = []

    async def follow() -> None:
        async for piece in logs.follow(*KEY, 1):
            found.append(piece)

    following = asyncio.create_task(follow())
    await eventually(lambda: b"".join(found) == b"ld new ")
    logs.take(KEY, b"newest")
    await logs.write_down()
    logs.close(KEY)
    await logs.write_down()
    await asyncio.wait_for(following, 60)
    assert b"".join(found) == b"ld new newest"
    assert b"".join([piece async for piece in logs.follow(*KEY)]) == b"old new newest"
    keeping.cancel()


async def test_a_follower_waits_for_an_attempt_that_has_said_nothing_yet(tmp_path: Path) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    running = {KEY}
    logs.is_running = running.__contains__
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    following = asyncio.create_task(anext(logs.follow(*KEY)))
    silent = asyncio.create_task(_all(logs, ("job/2", 1)))
    await asyncio.sleep(0)
    logs.take(KEY, b"at last")
    assert await asyncio.wait_for(following, 60) == b"at last"
    assert await asyncio.wait_for(silent, 60) == b"", "that one does not run here"
    again = asyncio.create_task(_all(logs, KEY))
    await asyncio.sleep(0)
    running.clear()
    logs.close(KEY)
    assert await asyncio.wait_for(again, 60) == b"at last"
    keeping.cancel()


async def _all(logs: RunLogs, key: tuple[str, int]) -> bytes:
    return b"".join([piece async for piece in logs.follow(*key)])


async def test_a_wrong_offset_is_told() -> None:
    with pytest.raises(Invalid, match="it must be at least 0"):
        await anext(RunLogs(1000).follow(*KEY, -1))


async def test_where_logs_cannot_be_read_that_is_told() -> None:
    with pytest.raises(Unavailable, match="ask again"):
        await anext(RunLogs(1000).follow(*KEY))


def test_a_second_is_enough(tmp_path: Path) -> None:
    """Whatever came is written down within two seconds, without anybody asking."""

    async def story() -> int:
        written: list[LogChunk] = []

        class Desk(Shelf):
            async def append(self, chunks: Sequence[LogChunk]) -> None:
                written.extend(chunks)

        logs = RunLogs(10**6)
        keeping = asyncio.create_task(logs.keep(Desk(tmp_path)))
        await asyncio.sleep(0.5)
        logs.take(KEY, b"x")
        await asyncio.sleep(1.5)
        keeping.cancel()
        return len(written)

    assert virtual.run(story()) == 1
