"""A stream that publishes often, on nodes that are reloaded again and again: every record must be in the output once.

A reload cancels stream tasks wherever they are, in the middle of a publish too. `reload_and_verify` is for a test with
few reloads and for a show with many: how likely one of them meets a publish depends on their number alone.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rota.outputs.open import open_output
from tests.kit.cli import rota
from tests.kit.node import NodeUnderTest
from tests.kit.streams import StreamTrial, stream_trial
from tests.kit.waiting import eventually

OFTEN = 'tasks=4, duration="20s", checkpoint_every="100ms"'


@dataclass(frozen=True)
class Reloaded:
    """What went in and came out, and what `rota streams verify` says about it."""

    records: int
    rows: int
    """In the output, also in what is not handed off yet."""

    code: int
    said: str


async def reload_and_verify(folder: Path, reloads: int, options: str = OFTEN) -> Reloaded:
    """What came out of a stream whose node was reloaded `reloads` times while records came in."""
    async with stream_trial(folder, nodes="a", options=options) as trial:
        producing = asyncio.create_task(trial.keep_appending())
        try:
            for _ in range(reloads):
                await _more_is_published(trial)
                await _reload(trial.fleet.nodes["a"])
        finally:
            producing.cancel()
            with suppress(asyncio.CancelledError):
                await producing
        await trial.until_lag(0, within=120)
        await trial.end()
        return await _verified(folder, trial)


async def _reload(node: NodeUnderTest) -> None:
    """Reload a node; where the machine is busy, importing may take too long, and the node stays as it is."""

    async def is_done() -> bool:
        return (await asyncio.to_thread(node.rota, "reload", within=120)).code == 0

    await eventually(is_done, within=300)


async def _more_is_published(trial: StreamTrial) -> None:
    """Wait for a publish, so that the next reload meets a stream that publishes."""
    before = await _committed(trial)

    async def look() -> bool:
        return await _committed(trial) > before

    await eventually(look, within=120)


async def _committed(trial: StreamTrial) -> int:
    status = await trial.status()
    return sum(status.committed.values()) if status else 0


async def _verified(folder: Path, trial: StreamTrial) -> Reloaded:
    async with open_output(trial.output.url(), "clicks", trial.store) as output:
        rows = sum([len(piece) async for piece in output.rows()])
    command = "streams", "verify", "clicks", "--by", "part,at", "--store", f"sqlite:///{folder}/rota.db"
    answer = await asyncio.to_thread(rota, *command, cwd=folder, within=300)
    return Reloaded(sum(trial.appended.values()), rows, answer.code, answer.out + answer.err)
