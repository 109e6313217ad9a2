"""The laws of run logs, beside every store: the numbers are those of `rota.jobs.logs.port.Logs`.

SQL stores keep logs in their own database; memory and etcd have a folder for them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar, cast

import pytest

from rota.jobs.logs.open import folder_of, open_logs
from rota.jobs.logs.port import CHUNK, LogChunk, Logs
from rota.jobs.logs.reading import read_piece
from rota.jobs.logs.sql import MOST, SqlLogs
from rota.link.records import AttemptId
from rota.model.errors import Denied, Invalid, Unavailable
from rota.store import Store, open_store
from rota.store.sql.log import LogStore
from rota.store.sql.steps import Driver, SqlQuery, Step, Steps
from tests.kit.clearing import clear_beside_a_writer
from tests.kit.harness import MysqlHarness, PostgresHarness, SqliteHarness, StoreHarness, params

T = TypeVar("T")

on_sql = pytest.mark.parametrize("harness", params([SqliteHarness, PostgresHarness, MysqlHarness]), indirect=True)

NOW = datetime.now(UTC)


def chunk(offset: int, data: bytes, *, run: str = "job/1", attempt: int = 1, is_last: bool = False) -> LogChunk:
    return LogChunk(run, attempt, offset, data, is_last)


async def whole(logs: Logs, run: str = "job/1", attempt: int = 1) -> bytes:
    """A log read piece by piece."""
    found = b""
    while piece := await logs.read(run, attempt, len(found)):
        found += piece
    return found


@pytest.fixture
async def logs(harness: StoreHarness, store: Store, tmp_path: Path) -> AsyncIterator[Logs]:
    """Empty logs, where a node on this store keeps them."""
    logs = open_logs(None, harness.url(), store, tmp_path / "own")
    yield logs
    await logs.close()


async def test_law_1_what_was_appended_is_read_back_from_any_offset(logs: Logs) -> None:
    data = bytes(range(256)) * 1000
    pieces = [chunk(place, data[place : place + CHUNK]) for place in range(0, len(data), CHUNK)]
    await logs.append(pieces[:2])
    await logs.append(pieces[2:])
    assert await whole(logs) == data
    for offset in (1, CHUNK - 1, CHUNK, CHUNK + 1, len(data) - 1):
        assert data[offset:].startswith(await logs.read("job/1", 1, offset))


async def test_law_1_small_pieces_are_one_log(logs: Logs) -> None:
    for number in range(50):
        await logs.append([chunk(number * 10, b"%010d" % number)])
    assert await logs.read("job/1", 1, 0) == b"".join(b"%010d" % number for number in range(50))
    assert (await logs.read("job/1", 1, 495)) == b"00049"


async def test_law_2_appending_again_changes_nothing(logs: Logs) -> None:
    pieces = [chunk(0, b"one "), chunk(4, b"two", is_last=True)]
    await logs.append(pieces)
    await logs.append(pieces)
    await logs.append(pieces[1:])
    assert await whole(logs) == b"one two"
    assert await logs.is_whole("job/1", 1)


async def test_law_3_past_the_end_there_is_nothing(logs: Logs) -> None:
    assert await logs.read("none", 1) == b""
    await logs.append([chunk(0, b"abc")])
    assert await logs.read("job/1", 1, 3) == b""
    assert await logs.read("job/1", 1, 300_000) == b""
    assert len(await logs.read("job/1", 1)) <= CHUNK


async def test_law_3_a_log_is_whole_when_its_last_chunk_is_there(logs: Logs) -> None:
    assert not await logs.is_whole("job/1", 1)
    await logs.append([chunk(0, b"abc")])
    assert not await logs.is_whole("job/1", 1)
    await logs.append([chunk(3, b"", is_last=True)])
    assert await logs.is_whole("job/1", 1)
    assert await whole(logs) == b"abc"


@pytest.mark.parametrize("size", [3, 200, 3 * CHUNK])
async def test_law_3_a_log_says_what_never_came(logs: Logs, size: int) -> None:
    await logs.append([chunk(0, b"one\n")])
    await logs.append([chunk(4 + size, b"three\n", is_last=True)])
    found = await whole(logs)
    said = b"\n[rota: %d bytes are missing here]\n" % size
    assert (found[:4], found[4 : 4 + size].strip(), found[4 + size :]) == (b"one\n", said[:size].strip(), b"three\n")
    for offset in (0, 3, 4, 4 + size - 1, 4 + size):
        assert found[offset:].startswith(await logs.read("job/1", 1, offset))
        assert await logs.read("job/1", 1, offset)
    assert await logs.read("job/1", 1, len(found)) == b""
    piece = await read_piece(logs, AttemptId("job/1", 1), 0)
    assert piece.is_last == (len(found) <= CHUNK), "a log does not end where something is missing"


async def test_law_3_a_log_whose_beginning_never_came_can_be_read(logs: Logs) -> None:
    await logs.append([chunk(100, b"two\n")])
    found = await whole(logs)
    assert (found[:100].strip(), found[100:]) == (b"[rota: 100 bytes are missing here]", b"two\n")


async def test_law_3_what_comes_while_it_is_read_is_no_gap(logs: Logs) -> None:
    pieces = [chunk(place, b"%d" % (place % 7) * CHUNK) for place in range(0, 8 * CHUNK, CHUNK)]
    data, found = b"".join(each.data for each in pieces), b""

    async def write() -> None:
        for number in range(0, len(pieces), 2):
            await logs.append(pieces[number : number + 2])

    writing = asyncio.create_task(write())
    while len(found) < len(data):
        found += await logs.read("job/1", 1, len(found))
    await writing
    assert found == data


async def test_law_4_attempts_and_runs_are_apart(logs: Logs) -> None:
    names = ["job/1", "job/1/../2", "job", "Job", "job ", "..", "%2e", "ä/ö", "x" * 399]
    for number, run in enumerate(names):
        await logs.append(
            [chunk(0, b"%d first" % number, run=run), chunk(0, b"%d second" % number, run=run, attempt=2)]
        )
    for number, run in enumerate(names):
        assert await whole(logs, run) == b"%d first" % number
        assert await whole(logs, run, 2) == b"%d second" % number


async def test_law_5_forgetting_takes_all_attempts_and_nothing_else(logs: Logs) -> None:
    await logs.append([chunk(0, b"a"), chunk(0, b"b", attempt=2), chunk(0, b"c", run="job/2"), chunk(0, b"d", run="x")])
    await logs.forget(["job/1", "x", "never"])
    await logs.forget(["job/1"])
    await logs.forget([])
    assert [await whole(logs), await whole(logs, attempt=2), await whole(logs, "x")] == [b"", b"", b""]
    assert await whole(logs, "job/2") == b"c"


async def test_law_5_old_logs_are_found_by_the_clock_of_their_place(logs: Logs) -> None:
    await logs.append([chunk(0, b"a", run="job/1"), chunk(1, b"b", run="job/1"), chunk(0, b"c", run="y" * 300)])
    assert await logs.older(timedelta(hours=1), 10) == []
    assert sorted(await logs.older(-timedelta(hours=1), 10)) == ["job/1", "y" * 300]
    assert len(await logs.older(-timedelta(hours=1), 1)) == 1


class Counting:
    """A driver that notes how many rows each transaction changes, and fails where a test says."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.asked: list[int] = []
        self.fails_at = -1

    def keys_parameter(self, keys: Sequence[str]) -> object:
        return self._driver.keys_parameter(keys)

    async def write(self, steps: Callable[[], Steps[T]]) -> T:
        if len(self.asked) == self.fails_at:
            raise Unavailable("the database is away")
        asked = [step for step in _steps(steps()) if isinstance(step, SqlQuery) and step.name == "forget_output"]
        self.asked += [int(str(step.parameters[-1])) for step in asked]
        return await self._driver.write(steps)


def _steps(steps: Steps[T]) -> Iterator[Step]:
    """The steps of a transaction whose queries find nothing."""
    with suppress(StopIteration):
        step = next(steps)
        while True:
            yield step
            step = steps.send([])


@on_sql
async def test_law_5_forgetting_takes_few_rows_at_a_time_and_goes_on_where_it_failed(store: Store) -> None:
    assert isinstance(store, LogStore)
    driver = Counting(store.driver)
    logs, runs = SqlLogs(cast(Driver, driver)), [f"job/{number}" for number in range(20)]
    for run in (*runs, "kept"):
        await SqlLogs(store.driver).append([chunk(place * 10, b"ten bytes.", run=run) for place in range(9)])
    driver.fails_at = 2
    with pytest.raises(Unavailable):
        await logs.forget(runs)
    assert any([await SqlLogs(store.driver).read(run, 1) for run in runs])
    driver.fails_at = -1
    await logs.forget(runs)
    assert not any([await SqlLogs(store.driver).read(run, 1) for run in runs])
    assert len(await SqlLogs(store.driver).read("kept", 1)) == 90
    assert len(driver.asked) > 2
    assert max(driver.asked) <= MOST


@on_sql
async def test_law_5_another_process_keeps_its_lease_and_writes_while_much_is_forgotten(
    harness: StoreHarness, tmp_path: Path
) -> None:
    cleared = await clear_beside_a_writer(harness.url(), 30 * 2**20, tmp_path, ttl="60s")
    assert (cleared.runs, cleared.left, cleared.leases_lost) == (3, 0, 0)
    assert cleared.commits > 1


async def test_law_6_a_chunk_that_is_too_large_is_refused_with_its_company(logs: Logs) -> None:
    for wrong, says in (
        (chunk(1, bytes(CHUNK + 1)), f"a chunk of {CHUNK + 1} bytes; {CHUNK} is the most, cut it"),
        (chunk(-1, b"x"), "a chunk at -1; offsets begin at 0"),
        (chunk(0, b"x", run=""), "the run's name must have 1 to 400 bytes"),
        (chunk(0, b"x", run="ä" * 201), "the run's name must have 1 to 400 bytes"),
    ):
        with pytest.raises(Invalid) as caught:
            await logs.append([chunk(0, b"a", run="good"), wrong])
        assert says in str(caught.value)
    assert await whole(logs, "good") == b""


async def test_law_7_what_is_held_is_counted(logs: Logs) -> None:
    assert await logs.held() == 0
    for number in range(250):
        await logs.append([chunk(0, b"12345", run=f"job/{number}"), chunk(5, b"678", run=f"job/{number}")])
    await logs.append([chunk(5, b"678", run="job/1"), chunk(0, b"x", run="job/1", attempt=2, is_last=True)])
    assert (await logs.held(), await logs.held("job/1"), await logs.held("none")) == (2001, 9, 0)
    await logs.forget([f"job/{number}" for number in range(1, 250)])
    assert await logs.held() == 8


@pytest.mark.parametrize("victim", params([PostgresHarness, MysqlHarness]), indirect=True)
async def test_law_8_a_server_that_is_away_is_told_so(victim: StoreHarness, tmp_path: Path) -> None:
    async with open_store(victim.url(timeout="1s")) as store:
        logs = open_logs(None, victim.url(), store, tmp_path / "own")
        await logs.append([chunk(0, b"a")])
        assert victim.running is not None
        victim.running.kill()
        with pytest.raises(Unavailable):
            await logs.read("job/1", 1)


def test_a_shared_folder_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    assert folder_of(f"folder://{tmp_path}/logs") == tmp_path / "logs"
    for wrong in ("file:///x", "folder://host/x", "folder:///", "folder:///x?a=b"):
        with pytest.raises(Invalid, match="write folder:///srv/rota"):
            folder_of(wrong)


async def test_two_nodes_meet_in_a_shared_folder(tmp_path: Path) -> None:
    async with open_store("memory://shared-logs") as store:
        url = f"folder://{tmp_path}/logs"
        one, two = (open_logs(url, "memory://shared-logs", store, tmp_path / name) for name in "ab")
        await one.append([chunk(0, b"from one", is_last=True)])
        assert await whole(two) == b"from one"
        assert not (tmp_path / "a").exists()


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with open_store("memory://no-folder") as store:
        with pytest.raises(Denied, match="choose another folder"):
            open_logs(None, "memory://no-folder", store, tmp_path / "file" / "logs")
