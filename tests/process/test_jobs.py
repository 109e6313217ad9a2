"""Jobs on a fleet of real processes: every due time once, whoever dies."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

from rota.jobs.core.records import Cause, RunRecord, RunState
from rota.jobs.fleet import verbs
from rota.model import codec, keys
from rota.store import Store, open_store
from tests.kit.fleet import stop_all
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually

APP = """
import os
import time
import rota

app = rota.App("jobs")
HERE = os.path.dirname(__file__)


def note(*words):
    with open(os.path.join(HERE, "..", "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


def tick(run: rota.Run) -> None:
    note(run.id, run.attempt, run.token)


for number in range(4):
    app.job(name=f"tick{number}", every="1s")(tick)


@app.job(retries=0)
def long(run: rota.Run) -> None:
    note("began", run.id, run.attempt)
    while not os.path.exists(os.path.join(HERE, "..", run.payload)):
        time.sleep(0.02)


app.command("shout", ["sh", "-c", "echo $ROTA_RUN $RUN_TOKEN >> ../notes"], cwd=HERE, after=["long"])
"""


class Fleet:
    """Nodes that share a file as their store."""

    def __init__(self, folder: Path, store: Store, nodes: dict[str, NodeUnderTest]) -> None:
        self.folder, self.store, self.nodes = folder, store, nodes

    def notes(self) -> list[list[str]]:
        path = self.folder / "notes"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    async def runs(self, job: str) -> list[RunRecord]:
        entries = (await self.store.scan(keys.runs(job))).entries
        return sorted((codec.decode(RunRecord, entry.value) for entry in entries), key=lambda run: run.id)

    async def live(self) -> list[RunRecord]:
        return [codec.decode(RunRecord, entry.value) for entry in (await self.store.scan(keys.LIVE_RUNS)).entries]


@asynccontextmanager
async def fleet(folder: Path, names: str) -> AsyncIterator[Fleet]:
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text("rota_test_0123456789abcdefghij\n")
    url = f"sqlite:///{folder}/rota.db"
    flags = ("--lease-ttl", "5s", "--drain", "2s", "--role", "both", "--token", f"file:{token}")
    async with open_store(url) as store:
        with ExitStack() as up:
            nodes = {
                name: up.enter_context(NodeUnderTest(folder / name, *flags, name=name, app=APP, store=url))
                for name in names
            }
            for node in nodes.values():
                await node.ready()
            yield Fleet(folder, store, nodes)
            stop_all(nodes.values())
    for node in nodes.values():
        await eventually(lambda node=node: not node.leftovers())


async def test_every_due_time_runs_once_while_a_node_is_killed(tmp_path: Path) -> None:
    jobs = [f"tick{number}" for number in range(4)]
    async with fleet(tmp_path, "abc") as found:

        async def count(job: str, least: int) -> bool:
            return len(await found.runs(job)) >= least

        await eventually(lambda: count("tick0", 4), within=30)
        found.nodes["b"].kill()
        await eventually(lambda: count("tick0", 10), within=30)
        found.nodes["b"].start()
        await eventually(lambda: count("tick0", 16), within=30)

        async def all_took_part() -> bool:
            return len({run.node for job in jobs for run in await found.runs(job)}) == 3

        await eventually(all_took_part)
        for job in jobs:
            await verbs.disable(found.store, job, "the test")

        async def is_quiet() -> bool:
            return not await found.live()

        await eventually(is_quiet, within=30)
        noted = Counter((note[0], note[1]) for note in found.notes())
        for job in jobs:
            runs = await found.runs(job)
            dues = [run.due for run in runs]
            assert dues == [dues[0] + number * timedelta(seconds=1) for number in range(len(dues))], "without a gap"
            for run in runs:
                assert run.state is RunState.SUCCEEDED
                assert noted[run.id, str(run.attempt)] == 1
        assert set(noted.values()) == {1}, "no attempt was executed twice"


async def test_runs_by_hand_are_done_interrupted_and_followed(tmp_path: Path) -> None:
    async with fleet(tmp_path, "a") as found:

        async def ended(run_id: str) -> RunRecord | None:
            entry = await found.store.get(keys.run(run_id))
            return codec.decode(RunRecord, entry.value) if entry else None

        async def is_declared() -> bool:
            return await found.store.get(keys.job("shout")) is not None

        await eventually(is_declared, within=30)
        first, second = await verbs.run_now(found.store, "long", "the test", payloads=["gate", "gate"])

        async def running_ones() -> list[str]:
            return [run.id for run in await found.live() if run.job == "long" and run.state is RunState.RUNNING]

        (running,) = await eventually(running_ones)
        waiting = second if running == first else first
        await verbs.interrupt(found.store, waiting, "not that one", "the test")
        stopped = await eventually(lambda: ended(waiting), within=30)
        assert stopped is not None
        assert stopped.state is RunState.INTERRUPTED
        (tmp_path / "gate").touch()
        assert await eventually(lambda: ended(running), within=30)

        async def followed() -> list[RunRecord]:
            return await found.runs("shout")

        (run,) = await eventually(followed, within=30)
        assert (run.cause, run.state) == (Cause.AFTER, RunState.SUCCEEDED)
        assert [run.id, str(run.epoch)] in found.notes()
        (third,) = await verbs.run_now(found.store, "long", "the test", payloads=["never"])
        assert await eventually(running_ones) == [third]
        await verbs.interrupt(found.store, third, "enough", "the test")
        over = await eventually(lambda: ended(third), within=30)
        assert over is not None
        assert (over.state, over.outcome and over.outcome.error) == (RunState.INTERRUPTED, "enough (the test)")
