"""Streams on real nodes: whoever is killed, every record is in the output once."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from rota.model.stream import Phase, StreamState, TaskState
from tests.kit.streams import StreamTrial, stream_trial
from tests.kit.waiting import eventually

TWO_BY_TWO = 'tasks=2, replicas=2, duration="4s", checkpoint_every="1s"'


@pytest.mark.parametrize("to", ["parquet", "sqlite"])
async def test_workers_and_the_leader_are_killed_and_every_record_is_there_once(tmp_path: Path, to: str) -> None:
    async with stream_trial(tmp_path, nodes="abc", to=to, options=TWO_BY_TWO) as trial:
        producing = asyncio.create_task(trial.keep_appending())
        await trial.until_lag(10**9)
        killed = 0
        for turn in range(4):
            await asyncio.sleep(2)
            killed += bool(await trial.kill_a_worker())
            if turn == 1:
                trial.fleet.nodes[await trial.fleet.leader()].kill()
        producing.cancel()
        with suppress(asyncio.CancelledError):
            await producing
        assert killed >= 2
        await trial.end()
        assert trial.rows() == trial.expected()
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
        assert trial.rows() == trial.expected()


async def test_a_record_that_cannot_be_read_is_put_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    async with stream_trial(tmp_path, nodes="a", options='duration="1s"') as trial:
        trial.append_poison(partition=1)
        trial.append(5)
        await trial.until_lag(0)
        assert len(trial.rows()) == sum(trial.appended.values()) - 1
        lines = (trial.fleet.nodes["a"].data / "dead-letters" / "clicks.jsonl").read_text().splitlines()
        letter = json.loads(lines[0])
        assert (letter["partition"], letter["offset"]) == (1, 0)
        assert letter["error"] == "ValueError: this one cannot be read"


async def test_a_suspended_stream_publishes_what_it_has_and_reads_on_when_it_may(tmp_path: Path) -> None:
    async with stream_trial(tmp_path, nodes="ab", options='replicas=2, duration="1h"') as trial:
        trial.append(20)
        await both_have_read(trial, 80)
        (group,) = await trial.groups()
        assert group.phase is Phase.READING
        await trial.end()
        assert trial.rows() == trial.expected()
        trial.append(20)
        await trial.wish()
        await both_have_read(trial, 160)
        await trial.end()
        assert trial.rows() == trial.expected()


async def both_have_read(trial: StreamTrial, records: int) -> None:
    """Wait until both replicas have read so many records."""

    async def look() -> bool:
        tasks = [task for task in await trial.tasks() if task.state is TaskState.READING]
        return len(tasks) == 2 and all(sum(task.offsets.values()) == records for task in tasks)

    await eventually(look, within=30)
