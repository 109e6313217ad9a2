"""`rota streams` on a store in a file."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.terminal.rows import CsvPaper
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound, RotaError, Unknown
from rota.store import open_store
from rota.streams.cli.streams import command
from rota.streams.core.records import MoveRecord, StreamState, StreamWishes
from rota.streams.core.spec import declared
from tests.kit.stream_records import NOON, STATUS, TASK, declare, group, put, remember, say
from tests.kit.written_stream import Written


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a stream in it."""
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            await declare(store, "clicks")
            await say(store, STATUS)
            await put(store, keys.stream_group("clicks", "g0"), group(0))
            await put(store, keys.stream_task("clicks", "g0", 0, 7), TASK)

    asyncio.run(fill())
    return url


def streams(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "--store", url], catch_exceptions=False)


def wishes(url: str) -> StreamWishes:
    async def read() -> StreamWishes:
        async with open_store(url, create=False) as store:
            entry = await store.get(keys.STREAM_WISHES + "clicks")
            assert entry is not None
            return codec.decode(StreamWishes, entry.value)

    return asyncio.run(read())


def test_streams_are_listed_for_people_and_for_programs(url: str) -> None:
    lines = streams(url, "ls").output.splitlines()
    assert lines[0].split() == ["STREAM", "STATE", "LAG", "GROUPS", "SOURCE", "SINK", "DETAIL"]
    assert lines[1].split() == ["clicks", "running", "30", "2", "reading", "log:///data/in", "parquet:///data/out"]
    assert json.loads(streams(url, "ls", "-o", "json").output)[0]["lag"] == 30
    assert "no such streams" in streams(url, "ls", "--prefix", "x").output


def test_one_group_of_one_task_is_counted_as_one(url: str) -> None:
    streams(url, "scale", "clicks", "1")
    assert re.search(r"^tasks +1 group of \d tasks?$", streams(url, "status", "clicks").output, re.MULTILINE)


def test_a_backfill_that_is_completed_is_listed_if_all_are_asked_for(url: str) -> None:
    past = "clicks~20260116T120000"

    async def complete() -> None:
        async with open_store(url) as store:
            await declare(store, past)
            await say(store, replace(STATUS, stream=past, state=StreamState.COMPLETED))

    asyncio.run(complete())
    assert past not in streams(url, "ls").output
    assert past in streams(url, "ls", "--all").output
    assert streams(url, "status", past).exit_code == 0


def test_the_history_of_a_stream_is_shown(url: str) -> None:
    async def change() -> None:
        async with open_store(url) as store:
            await remember(store, hours=0)
            await remember(store, hours=1, tasks=2)

    assert "nothing was kept" in streams(url, "history", "clicks").output
    asyncio.run(change())
    lines = streams(url, "history", "clicks").output.splitlines()
    assert lines[0].split() == ["DECLARED", "APP", "NODE", "CHANGED"]
    assert [line.split() for line in lines[1:]] == [
        ["2026-01-16", "12:00:00", "shop", "n1"],
        ["2026-01-16", "13:00:00", "shop", "n1", "tasks", "1", "→", "2"],
    ]
    assert json.loads(streams(url, "history", "clicks", "-o", "json").output)[1]["changed"] == {"tasks": [1, 2]}


def test_the_status_of_a_stream_is_shown_and_its_health_is_the_exit_code(url: str) -> None:
    shown = streams(url, "status", "clicks")
    assert shown.exit_code == 0
    assert "committed 0:100, 1:50" in shown.output
    assert "group 0   g0 reading, partitions 0, from 0:0" in shown.output
    assert "  #0 on n1 reading, 120 rows, 3 late, 10 behind" in shown.output
    assert shown.output.splitlines()[-1].endswith("a blip")

    async def ail() -> None:
        async with open_store(url, create=False) as store:
            await say(store, type(STATUS)(stream="clicks", state=StreamState.UNHEALTHY_TASKS, since=STATUS.since))

    asyncio.run(ail())
    assert streams(url, "status", "clicks", "-o", "json").exit_code == 1
    with pytest.raises(NotFound, match="did you mean"):
        streams(url, "status", "clickz")


def test_the_lag_is_shown_by_partition(url: str) -> None:
    lines = streams(url, "lag").output.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["clicks", "0", "100", "130", "30"],
        ["clicks", "1", "50", "50", "0"],
    ]
    assert json.loads(streams(url, "lag", "clicks", "-o", "json").output)[0]["lag"] == 30


def test_what_is_asked_is_written_and_told(url: str) -> None:
    assert streams(url, "suspend", "clicks", "--no-wait").output == "clicks: running (to be suspended), 2 reading\n"
    assert streams(url, "resume", "clicks", "--no-wait").output == "clicks: running, 2 reading\n"
    streams(url, "scale", "clicks", "5")
    streams(url, "handoff", "clicks", "0", "--no-wait")
    streams(url, "reset-offsets", "clicks", "0=12", "1=earliest", "--yes", "--no-wait")
    streams(url, "terminate", "clicks", "--yes", "--no-wait")
    found = wishes(url)
    assert (found.tasks, found.hand_off, found.is_terminated, found.is_suspended) == (5, (0,), True, False)
    assert found.reset is not None
    assert found.reset.partitions == {0: "12", 1: "earliest"}
    assert "reset     0=12, 1=earliest" in streams(url, "status", "clicks").output
    streams(url, "scale", "clicks", "--as-declared")
    assert wishes(url).tasks is None


def test_all_streams_are_suspended_and_resumed_but_for_those_that_were_terminated(url: str) -> None:
    async def another() -> None:
        async with open_store(url, create=False) as store:
            await declare(store, "orders")

    asyncio.run(another())
    assert [line.partition(":")[0] for line in streams(url, "suspend", "--all", "--no-wait").output.splitlines()] == [
        "clicks",
        "orders",
    ]
    streams(url, "terminate", "orders", "--yes", "--no-wait")
    assert streams(url, "resume", "--all", "--no-wait").output == "clicks: running, 2 reading\n"
    shown = json.loads(streams(url, "ls", "-o", "json").output)
    assert [(each["name"], each["suspended"], each["terminated"]) for each in shown] == [
        ("clicks", False, False),
        ("orders", True, True),
    ]


def test_who_does_not_say_enough_is_told_how(url: str) -> None:
    for arguments, why in (
        (("suspend",), "name a stream, or say --all"),
        (("resume", "clicks", "--all"), "name a stream, or say --all"),
        (("scale", "clicks"), "say how many task groups, or --as-declared"),
        (("reset-offsets", "clicks", "0", "--yes"), "write one like 0=12000"),
        (("terminate", "clicks"), "cannot ask for confirmation here; add --yes"),
        (("reset", "clicks"), "cannot ask for confirmation here; add --yes"),
    ):
        refused = streams(url, *arguments)
        assert refused.exit_code == 2
        assert why in refused.output
    with pytest.raises(Invalid, match="has no partition 9"):
        streams(url, "reset-offsets", "clicks", "9=1", "--yes")


def test_what_is_not_done_in_time_goes_on_and_is_told(url: str) -> None:
    with pytest.raises(Unknown, match="it is not done after 50ms, and goes on; look again with: rota streams status"):
        streams(url, "reset", "clicks", "--to", "latest", "--yes", "--timeout", "50ms")
    assert wishes(url).reset is not None


# What was published


@pytest.fixture
def published(tmp_path: Path) -> str:
    """A store of a stream that has published into files, as `Written` does it."""
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            written = Written(tmp_path, store)
            await put(store, keys.STREAMS + "clicks", declared("shop", written.spec))
            written.append(0, 20)
            await written.publish(0, 0, 10)
            await written.publish(0, 10, 20)

    asyncio.run(fill())
    return url


def test_rows_are_printed_as_json_or_csv(published: str) -> None:
    lines = streams(published, "read", "clicks").output.splitlines()
    assert [json.loads(line) for line in lines] == [{"part": 0, "at": at} for at in range(20)]
    table = streams(published, "read", "clicks", "--limit", "2", "--format", "csv").output
    assert table == "part,at\n0,0\n0,1\n"
    assert streams(published, "read", "clicks", "--limit", "1", "--columns", "at").output == '{"at":0}\n'
    chosen = streams(published, "read", "clicks", "--limit", "1", "--columns", "at,part", "--format", "csv").output
    assert chosen == "at,part\n0,0\n"


def test_a_table_has_the_fields_of_its_first_rows(capsys: pytest.CaptureFixture[str]) -> None:
    paper = CsvPaper(None)
    paper.print([])
    paper.print([{"a": 1}, {"b": 2}])
    assert capsys.readouterr().out == "a,b\n1,\n,2\n"
    with pytest.raises(Invalid, match='a row has a field "c" that those before it had not; say --columns'):
        paper.print([{"c": 3}])


def test_a_sound_output_is_proved(published: str) -> None:
    proved = streams(published, "verify", "clicks", "--by", "part,at")
    assert proved.output.splitlines() == [
        "PARTITION  FROM  TO  RECORDS  UNREAD  FLAWS",
        "0          0     20  20       0       0",
        "no gap and no repeat in 20 records; 2 publishes with 20 rows",
    ]
    assert json.loads(streams(published, "verify", "clicks", "--from", "5", "-o", "json").output)["flaws"] == []


def test_the_first_flaw_is_named_and_the_exit_code_is_1(published: str, tmp_path: Path) -> None:
    for path in (tmp_path / "out").glob("*.parquet"):
        path.unlink()
    with pytest.raises(
        RotaError, match=r'stream "clicks": publish .* 0 of its 10 rows are there, and 1 more'
    ) as failed:
        streams(published, "verify", "clicks")
    assert failed.value.exit_code == 1
    refused = streams(published, "verify", "clicks", "--by", "part")
    assert (refused.exit_code, "does not name two fields" in refused.output) == (2, True)


def test_what_a_reset_leaves_out_is_filled_and_the_status_says_by_whom(url: str) -> None:
    streams(url, "reset", "clicks", "--to", "latest", "--backfill", "--yes", "--no-wait")
    asked = wishes(url).reset
    assert asked is not None
    assert (asked.to, asked.is_backfilled) == ("latest", True)

    async def move() -> None:
        moved = MoveRecord(stream="clicks", before={0: 5}, after={0: 9}, by="me", why="", at=NOON, backfill="clicks~1")
        async with open_store(url) as store:
            await put(store, keys.stream_move("clicks", "a"), moved)

    asyncio.run(move())
    shown = streams(url, "status", "clicks").output
    assert "0 from 5 to 9: by me; clicks~1 reads what lies between" in shown
