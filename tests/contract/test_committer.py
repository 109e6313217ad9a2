"""The laws of committers, on every adapter: the numbers are those of `rota.outputs.port.Committer`."""

import asyncio
import random
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rota.model.errors import Conflict, Invalid, NotFound, Unavailable, Unknown
from rota.outputs.open import open_committer, open_output
from rota.outputs.port import Committer, KeepsLetters, Swept, Unfit
from rota.outputs.sql import remote
from rota.outputs.verdict import Turn
from rota.store import Store, open_store
from rota.streams.core.records import MoveRecord
from tests.kit.committers import HARNESSES, CommitterHarness, MysqlOutput, PostgresOutput, move, numbers, params
from tests.kit.harness import MysqlHarness, PostgresHarness
from tests.kit.publisher import LAST
from tests.kit.rows import STREAM, letter, ranges, rows
from tests.kit.server_pool import ServerPool
from tests.kit.servers import ZONE
from tests.kit.waiting import eventually

BERLIN = ZoneInfo(ZONE)


@pytest.fixture(params=params(HARNESSES))
async def output(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> CommitterHarness:
    return await _prepared(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.is_shared))
async def shared(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> CommitterHarness:
    return await _prepared(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.has_unfit_rows))
async def choosy(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> CommitterHarness:
    return await _prepared(request.param, servers, tmp_path)


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.is_table))
async def tabled(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> CommitterHarness:
    return await _prepared(request.param, servers, tmp_path)


async def _prepared(kind: type[CommitterHarness], servers: ServerPool, folder: Path) -> CommitterHarness:
    server = servers.get(kind.behind.server, "steady") if kind.behind and kind.behind.server else None
    output = kind(folder, server)
    await output.prepare()
    return output


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield store


@pytest.fixture
async def committer(output: CommitterHarness, store: Store) -> AsyncIterator[Committer]:
    async with open_committer(output.url(), STREAM, store) as committer:
        yield committer


async def publish(committer: Committer, *spans: tuple[int, int, int], task: str = "t1") -> Turn:
    """Publish a row for each record of these ranges."""
    draft = committer.draft(task, {partition: start for partition, start, _ in spans})
    for span in spans:
        draft.append(rows(*span))
    verdict = await committer.publish(draft, ranges(*spans))
    if verdict.turn is not Turn.PUBLISHED:
        draft.discard()
    return verdict.turn


# Law 1: begin gives partitions an offset that have none


async def test_law_1_a_partition_begins_once(committer: Committer) -> None:
    assert await committer.committed() == {}
    assert await committer.begin({0: 5, 1: 7}) == {0: 5, 1: 7}
    assert await committer.begin({0: 99, 2: 3}) == {0: 5, 1: 7, 2: 3}
    assert await committer.committed() == {0: 5, 1: 7, 2: 3}


async def test_law_1_many_partitions_begin_together(committer: Committer) -> None:
    assert await committer.begin(dict.fromkeys(range(250), 3)) == dict.fromkeys(range(250), 3)
    assert await committer.committed() == dict.fromkeys(range(250), 3)


async def test_law_1_of_concurrent_ones_one_wins(shared: CommitterHarness, store: Store) -> None:
    async with AsyncExitStack() as stack:
        several = [await stack.enter_async_context(open_committer(shared.url(), STREAM, store)) for _ in range(4)]
        found = await asyncio.gather(*(one.begin({9: 0, 0: number}) for number, one in enumerate(several)))
        assert len({each[0] for each in found}) == 1
        assert await several[0].committed() == found[0]


# Law 2: publishes are judged by the committed offsets


async def test_law_2_a_chain_of_ranges_is_published(
    output: CommitterHarness, committer: Committer, store: Store
) -> None:
    await committer.begin({0: 100})
    assert await publish(committer, (0, 100, 150)) is Turn.PUBLISHED
    assert await publish(committer, (0, 150, 151)) is Turn.PUBLISHED
    assert await committer.committed() == {0: 151}
    assert numbers(await output.read(store), 0) == list(range(100, 151))


async def test_law_2_ahead_behind_and_there_change_nothing(
    output: CommitterHarness, committer: Committer, store: Store
) -> None:
    await committer.begin({0: 0})
    assert await publish(committer, (0, 10, 20)) is Turn.AHEAD
    assert await publish(committer, (0, 0, 10)) is Turn.PUBLISHED
    assert await publish(committer, (0, 0, 10)) is Turn.THERE
    assert await publish(committer, (0, 0, 11)) is Turn.BEHIND
    assert await committer.committed() == {0: 10}
    assert numbers(await output.read(store), 0) == list(range(10))


async def test_law_2_offsets_move_without_rows(output: CommitterHarness, committer: Committer, store: Store) -> None:
    await committer.begin({0: 0, 1: 0})
    draft = committer.draft("t1", {0: 0, 1: 0})
    verdict = await committer.publish(draft, ranges((0, 0, 50), (1, 0, 0)))
    assert verdict.turn is Turn.PUBLISHED
    assert await committer.committed() == {0: 50, 1: 0}
    assert await output.read(store) == []


async def test_law_2_a_partition_that_was_not_begun_is_refused(committer: Committer) -> None:
    with pytest.raises(Invalid, match="partition 3 has no committed offset"):
        await publish(committer, (3, 0, 10))


# Law 3: rows and offsets change together


async def test_law_3_a_publisher_killed_at_any_moment_leaves_no_gap_and_no_repeat(
    shared: CommitterHarness, store: Store, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "tests.kit.publisher", f"sqlite:///{tmp_path / 'store.db'}", shared.url()]
    chance = random.Random(7)
    for _ in range(6):
        pair = [await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE) for _ in range(2)]
        for process in pair:
            assert process.stdout is not None
            for _ in range(chance.randint(1, 8)):
                if not await process.stdout.readline():
                    break
        for process in pair:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
        async with open_committer(shared.url(), STREAM, store) as committer:
            await committer.sweep()
            at, found, letters, starts = await _at_rest(shared, committer, store)
            assert found == list(range(at))
            assert letters == starts, "law 11: each publish has one, for its first record"
    assert 0 < at <= LAST


async def _at_rest(
    shared: CommitterHarness, committer: Committer, store: Store
) -> tuple[int, list[int], list[int], list[int]]:
    """Where the output is, its rows, its letters, and where its publishes start.

    A server may still commit what a process asked for that is dead now.
    """
    while True:
        before = (await committer.begin({0: 0}))[0]
        found, letters = numbers(await shared.read(store), 0), numbers(await shared.letters(), 0)
        async with open_output(shared.url(), STREAM, store) as output:
            starts = sorted(each.ranges[0].start for each in await output.manifests() or ())
        if (await committer.committed())[0] == before:
            return before, found, letters, starts


# Law 4: nothing is seen before it is published, everything from then on


async def test_law_4_a_draft_is_not_seen(output: CommitterHarness, committer: Committer, store: Store) -> None:
    await committer.begin({0: 0})
    draft = committer.draft("t1", {0: 0})
    for start in range(0, 1000, 100):
        draft.append(rows(0, start, start + 100))
    assert draft.rows == 1000
    assert draft.bytes > 1000
    assert await output.read(store) == []
    await committer.publish(draft, ranges((0, 0, 1000)))
    assert numbers(await output.read(store), 0) == list(range(1000))


async def test_law_4_a_discarded_draft_is_never_seen(
    output: CommitterHarness, committer: Committer, store: Store
) -> None:
    await committer.begin({0: 0})
    draft = committer.draft("t1", {0: 0})
    draft.append(rows(0, 0, 10))
    draft.discard()
    await publish(committer, (0, 0, 5))
    assert numbers(await output.read(store), 0) == list(range(5))


async def test_law_4_rows_that_do_not_fit_are_refused_and_the_draft_stays(
    choosy: CommitterHarness, store: Store
) -> None:
    async with open_committer(choosy.url(), STREAM, store) as committer:
        await committer.begin({0: 0})
        draft = committer.draft("t1", {0: 0})
        draft.append(rows(0, 0, 3))
        odd = [{"part": 0, "number": 3}, {"part": 0, "number": 4, "colour": object()}]
        with pytest.raises(Invalid, match="colour"):
            draft.append(odd)
        with pytest.raises(Invalid, match="colour"):
            await committer.fitted(odd)
        await committer.publish(draft, ranges((0, 0, 3)))
        assert numbers(await choosy.read(store), 0) == [0, 1, 2]


async def test_law_4_a_draft_takes_rows_that_were_found_to_fit(
    output: CommitterHarness, committer: Committer, store: Store
) -> None:
    await committer.begin({0: 0})
    draft = committer.draft("t1", {0: 0})
    for is_tried in (False, True):
        assert draft.rows == 3 * is_tried
        draft.append(await committer.fitted(rows(0, draft.rows, draft.rows + 3), is_tried=is_tried))
        assert await output.read(store) == []
    assert (await committer.publish(draft, ranges((0, 0, 6)))).turn is Turn.PUBLISHED
    assert numbers(await output.read(store), 0) == list(range(6))


# Law 6: what is refused because of a row is not published, and the row can be found


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"part": None, "number": 2}, id="null"),
        pytest.param({"part": 0, "number": 5000}, id="check"),
        pytest.param({"part": 0, "number": 1}, id="unique"),
        pytest.param({"part": 0, "number": 2, "word": "much too long"}, id="length"),
        pytest.param({"part": 2**70, "number": 2}, id="overflow"),
        pytest.param({"part": 0, "number": 2, "word": object()}, id="type"),
        pytest.param({"part": 0, "number": 2, "word": "\ud800"}, id="text"),
        pytest.param({"part": 0, "number": 2, "day": "no day"}, id="time"),
        pytest.param({"part": 0, "number": 2, "note": secrets.token_hex(20_000)}, id="index"),
    ],
)
async def test_law_6_a_row_that_a_table_refuses_is_unfit_and_found_by_trying(
    tabled: CommitterHarness, store: Store, odd: dict[str, object]
) -> None:
    async with open_committer(tabled.url("picky"), STREAM, store) as committer:
        await committer.begin({0: 0})
        assert await publish(committer, (0, 0, 2)) is Turn.PUBLISHED
        draft = committer.draft("t1", {0: 2})
        draft.append([*rows(0, 2, 4), odd])
        with pytest.raises(Unfit, match="a row does not fit"):
            await committer.publish(draft, ranges((0, 2, 5)))
        with pytest.raises(Unfit, match="a row does not fit"):
            await committer.fitted([odd], is_tried=True)
        sound = await committer.fitted(rows(0, 2, 4), is_tried=True)
        assert await committer.committed() == {0: 2}
        draft = committer.draft("t1", {0: 2})
        draft.append(sound)
        assert (await committer.publish(draft, ranges((0, 2, 5)))).turn is Turn.PUBLISHED
        async with open_output(tabled.url("picky"), STREAM, store) as seen:
            assert await seen.total() == 4


@pytest.mark.needs("postgresql")
async def test_law_6_a_row_that_only_the_commit_refuses_is_found_by_trying(
    servers: ServerPool, tmp_path: Path, store: Store
) -> None:
    output = await _prepared(PostgresOutput, servers, tmp_path)
    assert output.place is not None
    assert isinstance(output.place, PostgresHarness)
    await output.place.rows("CREATE TABLE parents (number INT PRIMARY KEY)")
    await output.place.rows("INSERT INTO parents VALUES (0), (1)")
    await output.place.rows(
        "CREATE TABLE children (part INT, word TEXT,"
        " number INT REFERENCES parents (number) DEFERRABLE INITIALLY DEFERRED)"
    )
    async with open_committer(output.url("children"), STREAM, store) as committer:
        await committer.begin({0: 0})
        draft = committer.draft("t1", {0: 0})
        draft.append(rows(0, 0, 3))
        with pytest.raises(Unfit, match="a row does not fit"):
            await committer.publish(draft, ranges((0, 0, 3)))
        with pytest.raises(Unfit, match="a row does not fit"):
            await committer.fitted(rows(0, 2, 3), is_tried=True)
        draft = committer.draft("t1", {0: 0})
        draft.append(await committer.fitted(rows(0, 0, 2), is_tried=True))
        assert (await committer.publish(draft, ranges((0, 0, 3)))).turn is Turn.PUBLISHED


# Law 5: of concurrent publishes of one range one wins, and other partitions are not disturbed


async def test_law_5_replicas_publish_once(shared: CommitterHarness, store: Store) -> None:
    async with AsyncExitStack() as stack:
        several = [await stack.enter_async_context(open_committer(shared.url(), STREAM, store)) for _ in range(3)]
        await several[0].begin({0: 0})
        for start in range(0, 100, 10):
            turns = await asyncio.gather(*(publish(one, (0, start, start + 10)) for one in several))
            assert sorted(turns) == [Turn.PUBLISHED, Turn.THERE, Turn.THERE]
        assert numbers(await shared.read(store), 0) == list(range(100))


async def test_law_5_groups_do_not_disturb_each_other(shared: CommitterHarness, store: Store) -> None:
    async with AsyncExitStack() as stack:
        several = [await stack.enter_async_context(open_committer(shared.url(), STREAM, store)) for _ in range(3)]
        await several[0].begin(dict.fromkeys(range(6), 0))

        async def group(number: int) -> None:
            for step in range(5):
                start, end = (number * 1000 + step * 10, number * 1000 + step * 10 + 10)
                draft = several[number].draft("t", {number: step * 10, number + 3: 0})
                draft.append(rows(number, start, end))
                verdict = await several[number].publish(
                    draft, ranges((number, step * 10, step * 10 + 10), (number + 3, 0, 0))
                )
                assert verdict.turn is Turn.PUBLISHED

        await asyncio.gather(*(group(number) for number in range(3)))
        found = await shared.read(store)
        for number in range(3):
            assert numbers(found, number) == list(range(number * 1000, number * 1000 + 50))


class Hanging:
    """A publish that stands still in the middle of its transaction, as if its process were frozen."""

    def __init__(self, committer: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hangs = asyncio.Event()

        async def stand_still(*_: object) -> None:
            self.hangs.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(committer, "_note", stand_still)
        self._task = asyncio.create_task(publish(committer, (0, 0, 10), task="frozen"))

    async def end(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


async def test_law_5_a_publish_that_hangs_holds_up_neither_those_who_look_nor_other_partitions(
    tabled: CommitterHarness, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LOCK", 0.5)
    async with AsyncExitStack() as stack:
        frozen, other = [await stack.enter_async_context(open_committer(tabled.url(), STREAM, store)) for _ in range(2)]
        await other.begin({0: 0, 1: 0})
        hanging = Hanging(frozen, monkeypatch)
        stack.push_async_callback(hanging.end)
        await hanging.hangs.wait()
        assert await other.committed() == {0: 0, 1: 0}
        assert await other.begin({0: 7, 1: 7}) == {0: 0, 1: 0}
        async with open_output(tabled.url(), STREAM, store) as seen:
            assert (await seen.committed(), await seen.total()) == ({0: 0, 1: 0}, 0)
        if not tabled.is_server:
            return  # one transaction writes at a time
        assert await publish(other, (1, 100, 110)) is Turn.AHEAD
        with pytest.raises(Unavailable):
            await publish(other, (0, 0, 5))
        assert (await other.begin({0: 7, 1: 7, 2: 200}))[2] == 200
        assert await publish(other, (2, 200, 210)) is Turn.PUBLISHED


async def test_law_5_a_publish_that_hangs_is_ended_by_the_server(
    tabled: CommitterHarness, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not tabled.is_server:
        return  # a file has nobody who could
    async with AsyncExitStack() as stack:
        frozen, other = [
            await stack.enter_async_context(open_committer(f"{tabled.url()}&timeout=1s", STREAM, store))
            for _ in range(2)
        ]
        await other.begin({0: 0})
        hanging = Hanging(frozen, monkeypatch)
        stack.push_async_callback(hanging.end)
        await hanging.hangs.wait()

        async def published() -> bool:
            return await publish(other, (0, 0, 5)) is Turn.PUBLISHED

        await eventually(published, despite=(Unavailable, Unknown))
        assert numbers(await tabled.read(store), 0) == list(range(5))


# Law 7: offsets are set by hand only where somebody looked


async def test_law_7_offsets_are_moved_as_expected_or_not_at_all(committer: Committer) -> None:
    await committer.begin({0: 10, 1: 10})
    with pytest.raises(Conflict, match="partition 1 is committed up to 10"):
        await committer.move(move("a", {0: 10, 1: 9}, {0: 0, 1: 0}))
    assert await committer.committed() == {0: 10, 1: 10}
    made = move("a", {0: 10}, {0: 3, 5: 1})
    assert await committer.move(made) == made
    assert await committer.committed() == {0: 3, 1: 10, 5: 1}


async def test_law_7_a_move_is_made_once_wherever_the_offsets_have_come_to(
    output: CommitterHarness, committer: Committer, store: Store
) -> None:
    await committer.begin({0: 10})
    assert await committer.moved("a") is None
    made = await committer.move(move("a", {0: 10}, {0: 20}))
    assert await committer.moved("a") == made
    assert await publish(committer, (0, 20, 25)) is Turn.PUBLISHED
    async with open_committer(output.url(), STREAM, store) as other:
        assert await other.move(move("a", {0: 25}, {0: 40})) == made
        assert await other.committed() == {0: 25}
        await other.move(move("b", {0: 25}, {0: 20}))
    assert await committer.committed() == {0: 20}


async def test_law_7_offsets_that_a_publish_came_to_are_no_move(committer: Committer) -> None:
    await committer.begin({0: 10})
    assert await publish(committer, (0, 10, 20)) is Turn.PUBLISHED
    with pytest.raises(Conflict, match="partition 0 is committed up to 20"):
        await committer.move(move("a", {0: 10}, {0: 20}))
    made = move("a", {0: 20}, {0: 20})
    assert await committer.move(made) == made


async def test_law_7_of_concurrent_moves_of_one_id_one_is_made(shared: CommitterHarness, store: Store) -> None:
    async with AsyncExitStack() as stack:
        several = [await stack.enter_async_context(open_committer(shared.url(), STREAM, store)) for _ in range(4)]
        await several[0].begin({0: 10})
        asked = [one.move(move("a", {0: 10}, {0: number})) for number, one in enumerate(several)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, MoveRecord | Conflict) for each in answers), answers
        (made,) = {each.after[0] for each in answers if isinstance(each, MoveRecord)}
        assert await several[0].committed() == {0: made}
        assert (await several[1].move(move("a", {0: made}, {0: 99}))).after == {0: made}


@pytest.mark.parametrize("then", ["nothing", "published up to there"])
async def test_law_7_what_was_read_before_offsets_were_set_by_hand_is_never_published(
    output: CommitterHarness, store: Store, then: str
) -> None:
    async with AsyncExitStack() as stack:
        frozen, other = [await stack.enter_async_context(open_committer(output.url(), STREAM, store)) for _ in range(2)]
        await other.begin({0: 10, 1: 0})
        assert await frozen.attach() == {0: 10, 1: 0}
        draft, beside = frozen.draft("frozen", {0: 10}), frozen.draft("frozen", {1: 0})
        draft.append(rows(0, 10, 20))
        beside.append(rows(1, 100, 110))
        assert await publish(other, (0, 10, 15)) is Turn.PUBLISHED
        await other.sweep()  # the draft can never be published, so it may be gone now
        if then == "nothing":
            await other.move(move("a", {0: 15}, {0: 10}))
        else:
            await other.move(move("a", {0: 15}, {0: 5}))
            assert await publish(other, (0, 5, 10)) is Turn.PUBLISHED
        before = await output.read(store)
        verdict = await frozen.publish(draft, ranges((0, 10, 20)))
        assert (verdict.turn, "set by hand" in verdict.why) == (Turn.BEHIND, True)
        assert await other.committed() == {0: 10, 1: 0}
        assert await output.read(store) == before
        assert (await frozen.publish(beside, ranges((1, 0, 10)))).turn is Turn.PUBLISHED, "nobody moved that one"
        assert await frozen.attach() == {0: 10, 1: 10}
        draft = frozen.draft("frozen", {0: 10})
        draft.append(rows(0, 20, 30))
        assert (await frozen.publish(draft, ranges((0, 10, 20)))).turn is Turn.PUBLISHED


# Law 8: the sweep takes what can never be published


async def test_law_8_the_sweep_leaves_what_may_be_published(
    output: CommitterHarness, committer: Committer, store: Store
) -> None:
    await committer.begin({0: 0})
    slow, lost = committer.draft("slow", {0: 10}), committer.draft("lost", {0: 0})
    slow.append(rows(0, 10, 20))
    lost.append(rows(0, 0, 4))
    assert await publish(committer, (0, 0, 10)) is Turn.PUBLISHED
    swept = await committer.sweep()
    assert swept.drafts in (0, 1)
    assert (await committer.sweep()) == Swept()
    assert (await committer.publish(slow, ranges((0, 10, 20)))).turn is Turn.PUBLISHED
    assert numbers(await output.read(store), 0) == list(range(20))


# Laws 9 and 10: who only looks


async def test_law_9_what_is_published_can_be_looked_at(
    output: CommitterHarness, committer: Committer, store: Store
) -> None:
    await committer.begin({0: 0, 1: 100})
    assert await publish(committer, (0, 0, 10), (1, 100, 105)) is Turn.PUBLISHED
    committer.draft("t2", {0: 10}).append(rows(0, 10, 20))
    async with open_output(output.url(), STREAM, store) as seen:
        found = [row async for piece in seen.rows() for row in piece]
        assert sorted((row["part"], row["number"], row["word"]) for row in found) == [
            *((0, number, f"w{number}") for number in range(10)),
            *((1, number, f"w{number}") for number in range(100, 105)),
        ]
        assert len([row async for piece in seen.rows(3) for row in piece]) == 3
        assert await seen.committed() == {0: 10, 1: 105}
        for manifest in await seen.manifests() or ():
            assert manifest.rows == 15
            assert await seen.counted(manifest) == 15 or await seen.total() == 15


async def test_law_10_looking_makes_nothing(output: CommitterHarness, store: Store) -> None:
    before = sorted(output.folder.rglob("*"))
    with suppress(NotFound):
        async with open_output(output.url(), STREAM, store) as seen:
            assert await seen.committed() == {}
    assert sorted(output.folder.rglob("*")) == before


# Times


@pytest.mark.needs("mariadb")
@pytest.mark.parametrize("column", ["TIMESTAMP", "DATETIME"])
async def test_a_time_is_kept_as_the_instant_it_is_wherever_the_server_stands(
    servers: ServerPool, store: Store, tmp_path: Path, column: str
) -> None:
    output = await _prepared(MysqlOutput, servers, tmp_path)
    assert isinstance(output.place, MysqlHarness)
    await output.place.rows(f"ALTER TABLE clicks ADD COLUMN at {column} NULL")
    twice = [datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)]
    async with open_committer(output.url(), STREAM, store) as committer:
        await committer.begin({0: 0})
        draft = committer.draft("t1", {0: 0})
        draft.append([{"number": place, "at": at.astimezone(BERLIN)} for place, at in enumerate(twice)])
        assert (await committer.publish(draft, ranges((0, 0, 2)))).turn is Turn.PUBLISHED
    async with output.place.raw() as run:
        await run("SET time_zone = '+00:00'")
        found = await run("SELECT at FROM clicks ORDER BY number")
    assert [at.replace(tzinfo=UTC) for (at,) in found] == twice


# Law 11: dead letters are published with their offsets, or not at all


async def test_law_11_letters_come_with_their_offsets_and_only_then(shared: CommitterHarness, store: Store) -> None:
    async with open_committer(shared.url(), STREAM, store) as committer:
        assert isinstance(committer, KeepsLetters)
        await committer.begin({0: 0, 1: 5})
        ahead = committer.draft("t1", {0: 10})
        committer.keep_letters(ahead, [letter(12)])
        assert (await committer.publish(ahead, ranges((0, 10, 20)))).turn is Turn.AHEAD
        for _ in range(2):  # two replicas read the same
            draft = committer.draft("t2", {0: 0, 1: 5})
            draft.append(rows(0, 0, 9))
            committer.keep_letters(draft, [letter(0)])
            committer.keep_letters(draft, [letter(9), letter(5, 1, more="€" * 100_000)])
            verdict = await committer.publish(draft, ranges((0, 0, 10), (1, 5, 6)))
        assert verdict.turn is Turn.THERE
        draft.discard()
        assert await shared.letters() == [(0, 9), (1, 5)]
        assert (await committer.publish(ahead, ranges((0, 10, 20)))).turn is Turn.PUBLISHED
        assert await committer.sweep() == Swept()
    assert await shared.letters() == [(0, 9), (0, 12), (1, 5)]
    assert numbers(await shared.read(store), 0) == list(range(9))


async def test_law_11_after_a_reset_the_same_letter_may_come_again(shared: CommitterHarness, store: Store) -> None:
    async with open_committer(shared.url(), STREAM, store) as committer:
        assert isinstance(committer, KeepsLetters)
        await committer.begin({0: 0})
        for id in ("one", "two"):
            draft = committer.draft("t", {0: 0})
            committer.keep_letters(draft, [letter(0)])
            assert (await committer.publish(draft, ranges((0, 0, 1)))).turn is Turn.PUBLISHED
            await committer.move(move(id, {0: 1}, {0: 0}))
    assert await shared.letters() == [(0, 0), (0, 0)]


@pytest.mark.needs("postgresql")
async def test_who_may_not_make_the_table_of_letters_publishes_without_it(
    servers: ServerPool, tmp_path: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    output = await _prepared(PostgresOutput, servers, tmp_path)
    place = output.place
    assert isinstance(place, PostgresHarness)
    async with open_committer(output.url(), STREAM, store) as committer:
        await committer.begin({0: 0})
    user = f"u{place.space}"
    for query in (
        "DROP TABLE rota_stream_letters",  # an older Rota made the others
        f"CREATE ROLE {user} LOGIN",
        f'GRANT USAGE ON SCHEMA "{place.space}" TO {user}',
        f'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA "{place.space}" TO {user}',
    ):
        await place.rows(query)
    async with open_committer(place.url(login=user, table="clicks"), STREAM, store) as committer:
        assert not isinstance(committer, KeepsLetters), "then the task writes them into the node's file"
        assert "no table for them" in caplog.text
        draft = committer.draft("t", {0: 0})
        draft.append(rows(0, 0, 9))
        assert (await committer.publish(draft, ranges((0, 0, 10)))).turn is Turn.PUBLISHED
    async with open_committer(output.url(), STREAM, store) as committer:
        assert isinstance(committer, KeepsLetters)
