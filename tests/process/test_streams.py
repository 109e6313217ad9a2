"""Streams on real nodes: whoever is killed, every record is in the output once."""

import json
from pathlib import Path

import pytest

from rota.sources import NewRecord
from rota.streams.core.records import Phase, StreamState, TaskState
from tests.kit.harness import EtcdHarness, PostgresHarness, SqliteHarness, StoreHarness
from tests.kit.server_pool import ServerPool
from tests.kit.servers import Kafka, Postgres
from tests.kit.sources import SourceHarness
from tests.kit.stream_places import Output, ParquetFolder, PostgresTable, SqliteTable, TrialLog, TrialTopic
from tests.kit.stream_reloads import reload_and_verify
from tests.kit.streams import StreamTrial, stream_trial
from tests.kit.waiting import eventually

TWO_BY_TWO = 'tasks=2, replicas=2, duration="4s", checkpoint_every="1s"'


@pytest.mark.variants
@pytest.mark.parametrize(
    ("source", "output", "store"),
    [
        pytest.param(TrialLog, ParquetFolder, SqliteHarness, id="log to parquet on sqlite"),
        pytest.param(TrialLog, SqliteTable, SqliteHarness, id="log to sqlite on sqlite"),
        pytest.param(
            *(TrialLog, ParquetFolder, EtcdHarness),
            id="log to parquet on etcd",
            marks=pytest.mark.needs("etcd"),
        ),
        pytest.param(
            *(TrialTopic, ParquetFolder, PostgresHarness),
            id="kafka to parquet on postgresql",
            marks=[pytest.mark.needs("kafka"), pytest.mark.needs("postgresql")],
        ),
        pytest.param(
            *(TrialTopic, PostgresTable, SqliteHarness),
            id="kafka to postgresql on sqlite",
            marks=[pytest.mark.needs("kafka"), pytest.mark.needs("postgresql")],
        ),
    ],
)
async def test_workers_and_the_leader_are_killed_and_every_record_is_there_once(
    tmp_path: Path,
    servers: ServerPool,
    source: type[SourceHarness],
    output: type[Output],
    store: type[StoreHarness],
) -> None:
    topic = source(tmp_path, servers.get(Kafka, "steady") if source.backend else None)
    place = output(tmp_path, servers.get(Postgres, "steady") if output.backend else None)
    url = store(tmp_path, servers.get(store.server, "steady") if store.server else None).url()
    async with stream_trial(tmp_path, nodes="abc", options=TWO_BY_TWO, source=topic, output=place, url=url) as trial:
        trial.append(1)
        await trial.until_lag(0)
        killed = await trial.storm(6, every=1.5, leaders=[3], least=2)
        assert killed.workers >= 2
        assert await trial.rows() == trial.expected()
        status = await trial.status()
        assert status is not None
        assert status.committed == dict(trial.appended)


async def test_a_stream_on_one_node_is_read_on_by_successors(tmp_path: Path) -> None:
    async with stream_trial(tmp_path, nodes="a", options='duration="2s"') as trial:
        trial.append(50)
        first = await trial.until_lag(0)
        trial.append(50)
        status = await trial.until_lag(0)
        assert status.state is StreamState.RUNNING
        assert status.generation > first.generation > 0
        assert await trial.rows() == trial.expected()


async def test_a_record_that_cannot_be_read_is_put_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    async with stream_trial(tmp_path, nodes="a", options='duration="1s"') as trial:
        trial.append_poison(partition=1)
        trial.append(5)
        await trial.until_lag(0)
        assert len(await trial.rows()) == sum(trial.appended.values()) - 1
        (file,) = tmp_path.rglob("_letters/*.jsonl")
        (line,) = file.read_text().splitlines()
        letter = json.loads(line)
        assert (letter["partition"], letter["offset"]) == (1, 0)
        assert letter["error"] == "ValueError: this one cannot be read"


async def test_reloads_of_a_stream_that_publishes_lose_and_double_nothing(tmp_path: Path) -> None:
    found = await reload_and_verify(tmp_path, reloads=2)
    assert found.rows == found.records
    assert found.code == 0, found.said


async def test_a_suspended_stream_publishes_what_it_has_and_reads_on_when_it_may(tmp_path: Path) -> None:
    async with stream_trial(tmp_path, nodes="ab", options='replicas=2, duration="1h"') as trial:
        trial.append(20)
        await both_have_read(trial, 80)
        (group,) = await trial.groups()
        assert group.phase is Phase.READING
        await trial.end()
        assert await trial.rows() == trial.expected()
        trial.append(20)
        await trial.wish()
        await both_have_read(trial, 160)
        await trial.end()
        assert await trial.rows() == trial.expected()


async def test_a_stream_that_ends_somewhere_is_completed(tmp_path: Path) -> None:
    source = TrialLog(tmp_path, None)
    for partition in range(2):
        source.append(partition, [NewRecord(value=b"%d" % number) for number in range(30)])
    options = 'tasks=2, replicas=2, duration="1h", upto="latest"'
    async with stream_trial(tmp_path, nodes="ab", options=options, source=source, partitions=2) as trial:

        async def look() -> bool:
            status = await trial.status()
            return status is not None and status.state is StreamState.COMPLETED

        await eventually(look, within=60)
        assert await trial.rows() == [(part, number, number) for part in range(2) for number in range(30)]
        assert await trial.groups() == []


async def both_have_read(trial: StreamTrial, records: int) -> None:
    """Wait until both replicas have read so many records."""

    async def look() -> bool:
        tasks = [task for task in await trial.tasks() if task.state is TaskState.READING]
        return len(tasks) == 2 and all(sum(task.offsets.values()) == records for task in tasks)

    await eventually(look, within=30)
