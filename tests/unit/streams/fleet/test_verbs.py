"""What people ask of streams, and what the leader makes of it, in virtual time."""

import asyncio
from datetime import UTC, datetime

import pytest

from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid
from rota.model.ids import Revision
from rota.store import Put, Store, open_store
from rota.streams.core.records import MoveRecord, Reset, StreamState, StreamWishes
from rota.streams.core.where import Edge, targets, where
from rota.streams.fleet import verbs
from tests.kit.committers import move
from tests.kit.stream_stories import backfills, run
from tests.kit.stream_trial import Node, Trial

NOON = datetime(2026, 1, 16, 12, tzinfo=UTC)


async def moves(trial: Trial) -> list[MoveRecord]:
    entries = (await trial.store.scan(f"{keys.STREAM_MOVES}{trial.name}/")).entries
    return [codec.decode(MoveRecord, entry.value) for entry in entries]


# Places


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Edge.EARLIEST),
        ("latest", Edge.LATEST),
        ("120", 120),
        ("2026-01-16T12:00Z", NOON),
    ],
)
def test_a_place_is_an_end_an_offset_or_a_time(text: str, place: object) -> None:
    assert where(text) == place


def test_no_source_had_records_before_1970() -> None:
    with pytest.raises(Invalid, match="before 1970"):
        where("1960-01-01T00:00Z")


@pytest.mark.parametrize("text", ["", "-1", "newest", "2026-01-16T12:00", "9" * 19])
def test_what_is_no_place_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(Invalid, match="write an offset, earliest, latest or"):
        where(text)


def test_a_reset_is_of_those_that_are_named_and_of_the_others_if_it_says_so() -> None:
    assert targets(Reset(partitions={1: "5"}, by="me", at=NOON), (0, 1)) == {1: 5}
    everywhere = Reset(to="latest", partitions={1: "5"}, by="me", at=NOON)
    assert targets(everywhere, (0, 1)) == {0: Edge.LATEST, 1: 5}


# Wishes


async def wishes(store: Store) -> StreamWishes:
    entry = await store.get(keys.STREAM_WISHES + "clicks")
    assert entry is not None
    return codec.decode(StreamWishes, entry.value)


async def test_wishes_are_added_to_those_that_are_there() -> None:
    async with open_store("memory://") as store:
        await verbs.scale(store, "clicks", "me", 3)
        await verbs.hand_off(store, "clicks", "me", [2])
        await verbs.hand_off(store, "clicks", "me", [0])
        await verbs.suspend(store, "clicks", "you")
        found = await wishes(store)
        assert (found.tasks, found.hand_off, found.is_suspended, found.by) == (3, (0, 2), True, "you")
        await verbs.terminate(store, "clicks", "me")
        await verbs.resume(store, "clicks", "me")
        found = await wishes(store)
        assert (found.is_suspended, found.is_terminated, found.tasks) == (False, False, 3)


async def test_what_is_so_already_is_not_written_again() -> None:
    async with open_store("memory://") as store:
        await verbs.suspend(store, "clicks", "me")
        before = await store.get(keys.STREAM_WISHES + "clicks")
        await verbs.suspend(store, "clicks", "you")
        assert await store.get(keys.STREAM_WISHES + "clicks") == before


async def test_resets_that_wait_are_put_together_and_one_of_all_takes_their_place() -> None:
    async with open_store("memory://") as store:
        await verbs.reset(store, "clicks", "me", partitions={0: "5", 1: "6"})
        await verbs.reset(store, "clicks", "you", partitions={1: "7"})
        found = (await wishes(store)).reset
        assert found is not None
        assert (found.to, found.partitions, found.by) == ("", {0: "5", 1: "7"}, "you")
        await verbs.reset(store, "clicks", "me", to="latest")
        found = (await wishes(store)).reset
        assert found is not None
        assert (found.to, found.partitions) == ("latest", {})


async def test_a_verb_gives_up_when_others_are_always_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store("memory://") as store:

        async def refused(*writes: object, expect: object) -> Revision:
            raise Conflict("somebody was faster")

        monkeypatch.setattr(store, "commit", refused)
        with pytest.raises(Conflict, match='stream "clicks": others change it all the time; try again'):
            await verbs.suspend(store, "clicks", "me")


# What the leader makes of them


def test_a_reset_reads_everything_again_and_is_put_on_record() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        trial.grow(1, 4)
        await trial.declare(duration="3s")
        await asyncio.sleep(15)
        assert await trial.rows() == trial.appended()
        await verbs.reset(trial.store, trial.name, "me", to="earliest")
        await asyncio.sleep(20)
        assert await trial.rows() == sorted(trial.appended() * 2)
        assert (await trial.wishes()).reset is None
        (move,) = await moves(trial)
        assert (move.before, move.after, move.by) == ({0: 10, 1: 4}, {0: 0, 1: 0}, "me")

    told = run(story).told
    assert ("stream.moved", "clicks", {"why": "a user requested it", "by": "me"}) in told


def test_offsets_of_one_partition_are_set_and_only_its_group_is_given_up() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        trial.grow(1, 10)
        await trial.declare(tasks=2, duration="1h")
        await asyncio.sleep(3)
        before = {group.number: group.id for group in await trial.groups()}
        await verbs.reset(trial.store, trial.name, "me", partitions={1: "7"})
        await asyncio.sleep(3)
        after = {group.number: group for group in await trial.groups()}
        assert after[0].id == before[0]
        assert after[1].id != before[1]
        assert after[1].starts == {1: 7}
        await verbs.suspend(trial.store, trial.name, "me")
        await asyncio.sleep(5)
        assert await trial.rows() == [*((0, at) for at in range(10)), (1, 7), (1, 8), (1, 9)]

    run(story)


def test_a_partition_that_waits_goes_on_where_somebody_says() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.output.begin({0: 0, 1: 0})
        trial.topic.delete(0, 5)
        await trial.declare(duration="2s")
        await asyncio.sleep(10)
        assert "partition 0 waits" in (await trial.status()).detail
        await verbs.reset(trial.store, trial.name, "me", partitions={0: "earliest"})
        await asyncio.sleep(10)
        assert await trial.rows() == [(0, at) for at in range(5, 10)]
        assert (await trial.status()).detail == ""

    run(story)


def test_a_stream_whose_source_was_made_anew_goes_on_after_a_reset() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="3s")
        await asyncio.sleep(15)
        trial.topic.make_anew(2)
        trial.grow(0, 4)
        await asyncio.sleep(20)
        assert "reset the offsets to go on" in (await trial.status()).detail
        await verbs.reset(trial.store, trial.name, "me", to="earliest")
        await asyncio.sleep(20)
        status = await trial.status()
        assert (status.state, status.detail, status.committed) == (StreamState.RUNNING, "", {0: 4, 1: 0})
        assert len(await trial.rows()) == 14

    run(story)


def test_a_reset_waits_for_a_source_that_is_away() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        trial.topic.is_up = False
        await trial.declare(duration="2s")
        await verbs.reset(trial.store, trial.name, "me", to="latest")
        await asyncio.sleep(10)
        assert (await trial.wishes()).reset is not None
        trial.topic.is_up = True
        await asyncio.sleep(20)
        assert (await trial.wishes()).reset is None
        assert (await trial.rows(), (await trial.status()).committed) == ([], {0: 10, 1: 0})

    run(story)


def test_a_reset_that_a_dead_leader_had_begun_is_ended_by_the_next() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.output.begin({0: 10, 1: 0})
        await trial.declare(duration="1h")
        await trial.wish(reset=Reset(partitions={0: "4"}, move="a", by="me", at=NOON))
        await trial.output.move(move("a-0", {0: 10}, {0: 4}))
        node("a", trial.lead)
        await asyncio.sleep(5)
        (made,) = await moves(trial)
        assert (made.before, made.after) == ({0: 10}, {0: 4})
        assert (await trial.wishes()).reset is None
        assert [group.starts for group in await trial.groups()] == [{0: 4, 1: 0}]

    run(story, is_led=False)


def test_a_reset_to_where_publishing_came_meanwhile_leaves_nothing_out() -> None:
    """The leader had begun, and died; then tasks published up to the very offset that was asked for."""

    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.output.begin({0: 10, 1: 0})
        await trial.declare(duration="1h")
        await trial.wish(reset=Reset(partitions={0: "10"}, is_backfilled=True, move="a", by="me", at=NOON))
        node("a", trial.lead)
        await asyncio.sleep(5)
        (made,) = await moves(trial)
        assert (made.before, made.after, made.backfill) == ({0: 10}, {0: 10}, "")
        assert ((await trial.wishes()).reset, await backfills(trial)) == (None, [])

    run(story, is_led=False)


def test_while_it_is_not_known_where_a_reset_leads_somebody_may_want_another() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="1h")
        await asyncio.sleep(10)
        trial.topic.is_up = False
        await verbs.reset(trial.store, trial.name, "me", to="2026-01-16T12:00Z")
        await asyncio.sleep(10)
        wished = (await trial.wishes()).reset
        assert wished is not None
        assert wished.move == ""
        await verbs.reset(trial.store, trial.name, "me", to="latest")
        await asyncio.sleep(10)
        (made,) = await moves(trial)
        assert made.after == {0: 10, 1: 0}

    run(story)


def test_a_reset_that_was_begun_and_cannot_be_worked_out_any_more_may_be_replaced() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="1h")
        await asyncio.sleep(10)
        trial.topic.is_up = False
        await trial.wish(reset=Reset(to="2026-01-16T12:00Z", move="a", by="me", at=NOON))
        await asyncio.sleep(10)
        await verbs.reset(trial.store, trial.name, "me", to="latest")
        await asyncio.sleep(10)
        assert ((await trial.wishes()).reset, len(await moves(trial))) == (None, 1)

    run(story)


def test_a_move_from_the_time_of_another_source_does_not_make_this_one_known() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(duration="3s")
        await asyncio.sleep(15)
        before = (await trial.status()).committed
        trial.topic.make_anew(2)
        trial.grow(0, 4)
        await trial.output.move(move("a-0", before, {0: 3, 1: 0}))
        await trial.wish(reset=Reset(to="earliest", move="a", source="the one between", by="me", at=NOON))
        await asyncio.sleep(20)
        assert (await trial.wishes()).reset is None
        assert "the source was made anew; reset the offsets to go on" in (await trial.status()).detail

    run(story)


def test_the_offsets_of_more_partitions_than_a_commit_takes_are_set() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.topic.grow(205)
        for partition in range(205):
            trial.grow(partition, 2)
        await trial.output.begin(dict.fromkeys(range(100), 0))
        await trial.declare(duration="1h", tasks=3, replicas=1)
        await asyncio.sleep(10)
        await verbs.reset(trial.store, trial.name, "me", to="latest", is_backfilled=True)
        await asyncio.sleep(15)
        made = await moves(trial)
        assert {partition for each in made for partition in each.after} == set(range(205))
        assert ((await trial.wishes()).reset, len(made)) == (None, 3)
        (filling,) = await backfills(trial)
        assert len(filling.spec["ranges"]) == 205

    run(story)


def test_a_stream_that_fills_gaps_of_some_partitions_is_reset_without_the_others() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 20)
        await trial.declare(duration="1h")
        await asyncio.sleep(10)
        await verbs.reset(trial.store, trial.name, "me", to="latest", is_backfilled=True)
        await asyncio.sleep(10)
        (filling,) = await backfills(trial)
        await verbs.reset(trial.store, filling.name, "me", to="earliest")
        await asyncio.sleep(20)
        (entry,) = (await trial.store.scan(f"{keys.STREAM_MOVES}{filling.name}/")).entries
        assert codec.decode(MoveRecord, entry.value).after == {0: 0}

    run(story)


async def test_nothing_is_asked_while_offsets_are_being_set() -> None:
    async with open_store("memory://") as store:
        under_way = StreamWishes(reset=Reset(to="latest", move="a", by="me", at=NOON))
        await store.commit(Put(keys.STREAM_WISHES + "clicks", codec.encode(under_way)))
        with pytest.raises(Conflict, match="offsets are being set; try again in a moment"):
            await verbs.reset(store, "clicks", "you", to="earliest")


def test_the_same_declaration_written_again_restarts_nothing() -> None:
    async def story(trial: Trial, node: Node) -> None:
        trial.grow(0, 10)
        await trial.declare(tasks=2, replicas=2, duration="1h")
        await asyncio.sleep(3)
        groups, tasks = await trial.groups(), dict(trial.running)
        status = await trial.status()
        for _ in range(3):
            await trial.declare(tasks=2, replicas=2, duration="1h")
            await asyncio.sleep(3)
        assert await trial.groups() == groups
        assert trial.running == tasks
        assert (await trial.status()).generation == status.generation

    assert [kind for kind, _, _ in run(story).told] == ["stream.state"]
