"""Logs of attempts: written down each second, read from memory before that, kept through outages."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.jobs.logs.folder import FolderLogs
from rota.jobs.logs.port import LogChunk
from rota.jobs.logs.reading import read_piece
from rota.jobs.node.attempt_logs import RunLogs
from rota.kit.time import virtual
from rota.link.records import AttemptId, LogPiece
from rota.model.errors import Denied, Unavailable

KEY = ("job/1", 1)
ATTEMPT = AttemptId(*KEY)


class Shelf(FolderLogs):
    """A folder that may be out of reach, and counts how often it is written to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_away = False
        self.appends = 0
        self.pieces: list[LogChunk] = []

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        if self.is_away:
            raise Unavailable("shelf: away")
        self.appends += 1
        self.pieces += chunks
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
    assert logs.unwritten(ATTEMPT, 0) is None
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


async def test_a_log_that_cannot_be_kept_costs_no_other_log_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    bad = ("x" * 500, 1)
    for key in (KEY, bad):
        logs.take(key, b"one\n")
    await logs.write_down()
    logs.take(KEY, b"two\n")
    for key in (KEY, bad):
        logs.close(key)
    await logs.write_down()
    assert await kept(shelf) == b"one\ntwo\n"
    assert await shelf.is_whole(*KEY)
    given_up = [record for record in caplog.records if record.message == "log given up"]
    assert {record.run for record in given_up} == {bad[0]}  # type: ignore[attr-defined]
    keeping.cancel()


async def test_a_place_that_lets_nobody_in_is_asked_once_for_all_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Closed(Shelf):
        asked = 0

        async def append(self, chunks: Sequence[LogChunk]) -> None:
            self.asked += 1
            raise Denied("wrong password")

    logs, closed = RunLogs(10**6), Closed(tmp_path)
    keeping = asyncio.create_task(logs.keep(closed))
    await asyncio.sleep(0)
    for number in range(100):
        logs.take((f"job/{number:02}", 1), b"one\n")
    await logs.write_down()
    assert closed.asked == 1
    (record,) = [each for each in caplog.records if each.message == "log given up"]
    assert (record.run, record.more) == ("job/00", 99)  # type: ignore[attr-defined]
    keeping.cancel()


async def test_a_long_outage_gives_up_the_oldest_logs_that_are_over_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.jobs.node.attempt_logs.HELD", 300_000)
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


async def test_what_is_not_written_down_is_read_from_memory(tmp_path: Path) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    assert logs.unwritten(ATTEMPT, 0) is None, "there is no such log"
    logs.take(KEY, b"old ")
    assert logs.unwritten(ATTEMPT, 0) == LogPiece(b"old ", is_last=False)
    await logs.write_down()
    logs.take(KEY, b"new")
    assert logs.unwritten(ATTEMPT, 1) is None, "that is where logs are kept"
    assert logs.unwritten(ATTEMPT, 4) == LogPiece(b"new", is_last=False)
    assert logs.unwritten(ATTEMPT, 5) == LogPiece(b"ew", is_last=False)
    assert logs.unwritten(ATTEMPT, 7) == logs.unwritten(ATTEMPT, 10**9) == LogPiece(b"", is_last=False)
    logs.close(KEY)
    assert logs.unwritten(ATTEMPT, 4) == LogPiece(b"new", is_last=True)
    assert logs.unwritten(ATTEMPT, 7) == logs.unwritten(ATTEMPT, 10**9) == LogPiece(b"", is_last=True)
    await logs.write_down()
    assert logs.unwritten(ATTEMPT, 4) is None
    keeping.cancel()


async def test_pieces_from_memory_fit_on_to_each_other_and_change_nothing_of_what_is_written_down(
    tmp_path: Path,
) -> None:
    logs, shelf = RunLogs(10**6), Shelf(tmp_path)
    keeping = asyncio.create_task(logs.keep(shelf))
    await asyncio.sleep(0)
    shelf.is_away = True
    found, is_last = b"", False
    for number in range(2000):
        logs.take(KEY, b"%0100d" % number)
        piece = logs.unwritten(ATTEMPT, len(found))
        found += piece.data if piece else b""
    logs.close(KEY)
    while not is_last:
        piece = logs.unwritten(ATTEMPT, len(found))
        assert piece is not None
        found, is_last = found + piece.data, piece.is_last
    shelf.is_away = False
    await logs.write_down()
    assert found == await kept(shelf) == b"".join(b"%0100d" % number for number in range(2000))
    assert len(shelf.pieces) == 4, "chunks of 64 KiB, however often somebody has looked"
    keeping.cancel()


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


# A run that is made anew under the same id


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "cut off"])
async def test_a_log_that_begins_anew_has_nothing_of_the_one_before(tmp_path: Path, is_whole: bool) -> None:
    kept, attempt = FolderLogs(tmp_path), AttemptId("job/1", 1)
    await kept.append([LogChunk("job/1", 1, 0, b"begin\nthe old one, which is longer\n", is_whole)])
    logs = RunLogs(10**6)
    keeping = asyncio.create_task(logs.keep(kept))
    await asyncio.sleep(0)
    logs.take(("job/1", 1), b"begin\n")
    await logs.write_down()
    assert await read_piece(kept, attempt, 0) == LogPiece(b"begin\n", is_last=False)
    logs.take(("job/1", 1), b"new\n")
    logs.close(("job/1", 1))
    await logs.write_down()
    assert await read_piece(kept, attempt, 0) == LogPiece(b"begin\nnew\n", is_last=True)
    assert await kept.held() == 10
    keeping.cancel()


async def test_a_log_that_goes_while_it_is_read_does_not_look_whole(tmp_path: Path) -> None:
    class Going(FolderLogs):
        async def read(self, run: str, attempt: int, offset: int = 0) -> bytes:
            await self.forget([run])
            return await super().read(run, attempt, offset)

    kept = Going(tmp_path)
    await kept.append([LogChunk("job/1", 1, 0, b"all of it\n", True)])
    assert await read_piece(kept, AttemptId("job/1", 1), 0) == LogPiece(b"", is_last=False)
