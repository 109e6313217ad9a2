"""The proof that every record was published once, on a real log and real files, without a fleet."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from rota.kit.record import replace
from rota.model.errors import Invalid, NotFound
from rota.outputs import parquet
from rota.outputs.open import open_committer
from rota.sources import log_place
from rota.store import open_store
from rota.streams.core.spec import StreamSpec
from rota.streams.fleet.verify import Extent, verify
from tests.kit.written_stream import BY, NOON, Written


@pytest.fixture
async def written(tmp_path: Path) -> AsyncIterator[Written]:
    async with open_store("memory://") as store:
        yield Written(tmp_path, store)


async def test_a_sound_output_is_proved(written: Written) -> None:
    written.append(0, 100)
    written.append(1, 30)
    for start, end in ((0, 40), (40, 40), (40, 90)):
        await written.publish(0, start, end)
    await written.publish(1, 0, 30)
    seen: list[tuple[int, int, int]] = []
    found = await written.verify(tell=lambda *each: seen.append(each))
    assert found.flaws == ()
    assert [(each.start, each.end, each.records, each.unread) for each in found.partitions] == [
        (0, 90, 90, 0),
        (0, 30, 30, 0),
    ]
    assert (found.publishes, found.rows) == (4, 120)
    assert seen[-1] == (1, 30, 30)


async def test_a_range_that_is_missing_is_named(written: Written) -> None:
    written.append(0, 30)
    for start, end in ((0, 10), (10, 20), (20, 30)):
        await written.publish(0, start, end)
    await written.forget_a_publish(1)
    found = await written.verify(Extent())
    assert found.flaws == ("partition 0: records 10 to 19 are not in the output",)
    assert (await written.verify(Extent(start=20))).flaws == ()


async def test_rows_that_are_missing_doubled_or_of_no_record_are_named(written: Written) -> None:
    written.append(0, 20)
    await written.publish(0, 0, 10, rows=[0, 0, 1, 2, 3, 4, 5, 6, 9])
    await written.publish(0, 10, 20)
    assert (await written.verify(Extent())).flaws == (), "ranges and files are sound"
    assert (await written.verify()).flaws == (
        "partition 0: record 0 is in the output 2 times instead of once",
        "partition 0: records 7 to 8 are not in the output",
    )


async def test_files_that_are_gone_are_named(written: Written) -> None:
    written.append(0, 10)
    await written.publish(0, 0, 10)
    next((written.folder / "out").glob("*.parquet")).unlink()
    (flaw,) = (await written.verify(Extent())).flaws
    assert flaw.endswith("0 of its 10 rows are there")


@pytest.mark.parametrize("left", [None, b"PAR1", b""], ids=["gone", "torn", "empty"])
async def test_every_file_that_is_gone_or_damaged_is_named_also_where_rows_are_looked_at(
    written: Written, left: bytes | None
) -> None:
    written.append(0, 30)
    for start, end in ((0, 10), (10, 20), (20, 30)):
        await written.publish(0, start, end)
    for path in sorted((written.folder / "out").glob("*.parquet"))[:2]:
        path.unlink()
        if left is not None:
            path.write_bytes(left)
    missing, *publishes = (await written.verify()).flaws
    assert missing == "partition 0: records 0 to 19 are not in the output"
    assert [flaw.partition(": ")[2] for flaw in publishes] == ["0 of its 10 rows are there"] * 2


async def test_a_list_of_files_that_is_gone_is_named(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "LONGEST", 0)
    written.append(0, 10)
    await written.publish(0, 0, 10)
    next((written.folder / "out" / "_manifests").iterdir()).unlink()
    assert [flaw.partition(": ")[2] for flaw in (await written.verify()).flaws] == [
        "records 0 to 9 are not in the output",
        "0 of its 10 rows are there",
    ]


async def test_what_somebody_had_read_again_is_no_flaw(written: Written) -> None:
    written.append(0, 20)
    await written.publish(0, 0, 20)
    await written.move(0, 20, 5)
    await written.publish(0, 5, 20)
    assert (await written.verify()).flaws == ()


async def test_what_the_source_has_no_more_is_told_of_by_the_ranges(written: Written) -> None:
    written.append(0, 20)
    await written.publish(0, 0, 20)
    (part,) = (await written.verify(Extent(start=5, end=15))).partitions
    assert (part.start, part.end, part.records, part.unread) == (5, 15, 10, 0)
    log_place(f"log://{written.folder}/other").create(1)
    other = StreamSpec.parse(
        name="clicks", source=f"log://{written.folder}/other", sink=written.spec.sink, is_async=False
    )
    found = await verify(written.store, other, Extent())
    assert found.flaws == ("partition 0: it is published up to 20, and its source ends at 0",)
    assert found.partitions[0].unread == 20


async def test_a_part_may_be_named_by_time_and_by_partition(written: Written) -> None:
    for partition in (0, 1):
        written.append(partition, 10)
        await written.publish(partition, 0, 10)
    (part,) = (await written.verify(Extent(partitions=frozenset({1}), start=NOON))).partitions
    assert (part.partition, part.start, part.end) == (1, 0, 10)
    later = await written.verify(Extent(start=NOON + timedelta(seconds=1)))
    assert [(each.start, each.end, each.records) for each in later.partitions] == [(10, 10, 0), (10, 10, 0)]
    with pytest.raises(NotFound, match="has published nothing of partition 7; leave it out"):
        await written.verify(Extent(partitions=frozenset({7})))


async def test_rows_are_known_by_fields_that_they_have(written: Written) -> None:
    written.append(0, 10)
    await written.publish(0, 0, 10)
    with pytest.raises(Invalid, match='a row has no whole numbers in "part" and "offset"'):
        await written.verify(Extent(by=("part", "offset")))


async def test_a_stream_that_has_published_nothing_has_no_flaw(written: Written) -> None:
    written.append(0, 10)
    async with open_committer(written.spec.sink, "clicks", written.store) as committer:
        await committer.begin({0: 10})
    (part,) = (await written.verify()).partitions
    assert (part.start, part.end, part.flaws) == (10, 10, ())


async def test_what_another_stream_filled_in_is_part_of_the_output(written: Written) -> None:
    written.append(0, 30)
    await written.publish(0, 0, 10)
    await written.move(0, 10, 25, backfill="clicks~1")
    await written.publish(0, 25, 30)
    assert (await written.verify()).flaws[0] == "partition 0: records 10 to 24 are not in the output"
    await written.publish(0, 10, 25, by="clicks~1")
    found = await written.verify()
    assert (found.flaws, found.publishes, found.rows) == ((), 3, 30)
    written.spec = replace(written.spec, name="clicks~1")
    with pytest.raises(Invalid, match='fills a gap of "clicks"; verify that one'):
        await written.verify()


@pytest.fixture
def table(written: Written) -> Written:
    """A stream into a table."""
    with closing(sqlite3.connect(written.folder / "out.db")) as database:
        database.execute("CREATE TABLE clicks (part INTEGER, at INTEGER)")
    written.spec = replace(written.spec, sink=f"sqlite:///{written.folder}/out.db?table=clicks")
    written.append(0, 20)
    return written


def change(table: Written, statement: str) -> None:
    with closing(sqlite3.connect(table.folder / "out.db")) as database, database:
        database.execute(statement)


async def test_a_table_is_proved_by_its_ranges_and_its_rows(table: Written) -> None:
    await table.publish(0, 0, 12)
    await table.publish(0, 12, 20)
    for extent in (Extent(), BY):
        found = await table.verify(extent)
        assert (found.flaws, found.publishes, found.rows) == ((), 2, 20)
    change(table, "DELETE FROM clicks WHERE at = 7")
    assert (await table.verify(Extent())).flaws == ("the output has 19 rows, and 20 were published",)
    assert (await table.verify()).flaws[0] == "partition 0: record 7 is not in the output"


async def test_a_range_of_a_table_that_is_missing_or_there_twice_is_named(table: Written) -> None:
    for start, end in ((0, 5), (5, 12), (12, 20)):
        await table.publish(0, start, end)
    change(table, "UPDATE rota_stream_publishes SET next_offset = 10 WHERE start_offset = 5")
    assert (await table.verify(Extent())).flaws == ("partition 0: records 10 to 11 are not in the output",)


async def test_a_table_that_lists_no_publishes_is_proved_by_its_rows_alone(table: Written) -> None:
    await table.publish(0, 0, 20, rows=[at for at in range(20) if at != 7])
    change(table, "DROP TABLE rota_stream_publishes")
    with pytest.raises(Invalid, match="keeps no list of ranges; say which fields"):
        await table.verify(Extent())
    assert (await table.verify()).flaws == ("partition 0: record 7 is not in the output",)
    assert (await table.verify(replace(BY, start=8))).flaws == ()


async def test_what_another_stream_filled_into_a_table_is_part_of_it(table: Written) -> None:
    await table.publish(0, 0, 5)
    await table.move(0, 5, 15, backfill="clicks~1")
    await table.publish(0, 15, 20)
    assert (await table.verify(Extent())).flaws == ("partition 0: records 5 to 14 are not in the output",)
    await table.publish(0, 5, 15, by="clicks~1")
    assert (await table.verify(Extent())).flaws == (await table.verify()).flaws == ()
