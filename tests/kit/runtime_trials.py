"""Trials of the node runtime with real processes: what is killed, reloaded, frozen or stuck, and what comes of it.

Tests ask whether the rules held; `make show-runtime` prints the figures too.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
import psutil

from rota.jobs.core.records import Cause, JobRecord, JobSpec, RunRecord, RunState, order_for
from rota.link.records import AttemptId, AttemptRefused, StartAttempt
from rota.model import codec, keys
from rota.model.errors import Conflict, RotaError
from rota.model.ids import NodeId, SessionId
from rota.store import Absent, At, Delete, Put, Store, open_store
from tests.kit.cli import Answer
from tests.kit.node import APP, NodeUnderTest, children, is_gone, loader, workers
from tests.kit.waiting import eventually

ROLES = ("agent", "loader", "worker", "old loader")


async def kill_one(node: NodeUnderTest, role: str) -> float:
    """Kill −9 one role of a running node; seconds until the rest has recovered or is gone."""
    match role:
        case "agent":
            return await _kill_agent(node)
        case "loader":
            return await _kill_loader(node)
        case "worker":
            return await _kill_worker(node)
        case "old loader":
            return await _kill_old_loader(node)
    raise AssertionError(role)


async def _kill_agent(node: NodeUnderTest) -> float:
    await node.ready()
    assert len(node.family()) >= 4
    began = time.monotonic()
    node.kill()
    await eventually(lambda: not node.leftovers())
    took = time.monotonic() - began
    node.start()
    await node.ready()
    return took


async def _kill_loader(node: NodeUnderTest) -> float:
    before = await node.ready()
    began = time.monotonic()
    os.kill(loader(before), signal.SIGKILL)
    after = await node.until(lambda now: loader(now) not in (0, loader(before)) and now["is_ready"])
    took = time.monotonic() - began
    assert workers(after, "") == workers(before, ""), "workers outlive their loader"
    return took


async def _kill_worker(node: NodeUnderTest) -> float:
    before = await node.ready()
    (victim,) = workers(before, "host")
    began = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    await node.until(lambda now: victim not in workers(now, "host") and now["is_ready"])
    return time.monotonic() - began


async def _kill_old_loader(node: NodeUnderTest) -> float:
    """The loader of the generation before, while a worker of it drains."""
    before = await node.ready()
    run = f"r{time.monotonic_ns()}"
    node.gate.unlink(missing_ok=True)
    await dispatch(node, run, "held")
    await eventually(lambda: ["run", run] in [words[:2] for words in node.notes()])
    answer = await asyncio.to_thread(node.rota, "reload")
    assert answer.code == 0, answer.err
    status = await node.status()
    draining = workers(status, "executor", "draining")
    began = time.monotonic()
    os.kill(loader(before), signal.SIGKILL)
    node.gate.touch()
    await node.until(lambda now: not workers(now, "", "draining") and now["is_ready"])
    took = time.monotonic() - began
    assert draining, "nothing was draining"
    assert ["done", run, str(draining[0])] in node.notes(), "the draining worker did not finish its run"
    return took


async def dispatch(node: NodeUnderTest, run: str, job: str) -> str:
    """Bind a run to the node and tell it so; the reason if it was refused."""
    async with dispatching(node) as give:
        return await give(run, job)


Give: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Binds a run of a job to a node; the reason if it was refused."""


@asynccontextmanager
async def dispatching(node: NodeUnderTest) -> AsyncIterator[Give]:
    """A way to give runs to a node as those do that schedule jobs."""
    from rota.link.open import open_link

    status = await node.status()
    async with (
        open_store(node.store) as store,
        open_link(f"grpc://{status['doors']['grpc']}", token=node.token) as link,
    ):

        async def give(run: str, job: str) -> str:
            wanted = await eventually(lambda: _job(store, job))  # the node declares its app's jobs when it has joined
            now, key = datetime.now(UTC), keys.live_run(run)
            record = RunRecord(
                id=run,
                job=job,
                due=now,
                cause=Cause.MANUAL,
                created=now,
                dispatched=now,
                state=RunState.DISPATCHED,
                node=NodeId(node.name),
                session=SessionId(status["session"]),
            )
            epoch = await store.commit(Put(key, codec.encode(record)), expect=[Absent(key)])
            order = order_for(record, wanted, epoch)
            start = StartAttempt(attempt=AttemptId(run, 1), epoch=epoch, payload=msgspec.json.encode(order))
            (answer,) = await link.dispatch_many([start])
            if not isinstance(answer, AttemptRefused):
                return ""
            try:  # or else the node would find it bound, and take it by itself in the end
                await store.commit(Delete(key), expect=[At(key, epoch)])
            except Conflict:
                return ""
            return answer.why

        yield give


async def _job(store: Store, name: str) -> JobSpec | None:
    entry = await store.get(keys.job(name))
    return codec.decode(JobRecord, entry.value).spec if entry else None


BROKEN = {
    "a syntax error": "def broken(:\n",
    "an import that hangs": "import time\ntime.sleep(600)\n",
    "an import that exits": "raise SystemExit(3)\n",
    "an import that ends the process": "import os\nos._exit(3)\n",
    "a canary that crashes": APP + "\n@app.on_worker_start\ndef crash():\n    import os\n    os._exit(7)\n",
    "a canary whose hook fails": APP + "\n@app.on_worker_start\ndef fail():\n    raise ValueError('no database')\n",
}


@dataclass(frozen=True)
class FailedReload:
    """What `rota reload` said about broken code."""

    answer: Answer
    seconds: float
    is_unharmed: bool
    """Does the old generation serve on, with the same processes?"""


async def reload_broken(node: NodeUnderTest, app: str) -> FailedReload:
    """Reload with broken code in place, and put the good code back."""
    before = await node.ready()
    node.app.write_text(app)
    began = time.monotonic()
    answer = await asyncio.to_thread(node.rota, "reload")
    took = time.monotonic() - began
    node.app.write_text(APP)
    after = await node.until(lambda now: not now["work"]["reloading"])
    same = (
        workers(before, "") == workers(after, "")
        and after["work"]["generation"] == before["work"]["generation"]
        and after["is_ready"]
    )
    await eventually(lambda: len(node.family()) == len(children(before)))
    return FailedReload(answer, took, same)


@dataclass(frozen=True)
class Footprint:
    """What a node holds."""

    processes: int
    fds: int
    memory: int
    """Bytes of the agent that nobody shares with it."""


def footprint(node: NodeUnderTest) -> Footprint:
    """The node's processes, and the agent's descriptors and memory."""
    agent = psutil.Process(node.pid)
    return Footprint(len(node.family()), agent.num_fds(), agent.memory_full_info().uss)


@dataclass(frozen=True)
class Reloads:
    """Many reloads while tasks and a busy pool run."""

    failed: list[str]
    tasks: int
    gaps: list[str]
    """Tasks that did not run for a moment."""

    runs: int
    """Runs that were accepted."""

    refused: int
    """Starts that were refused because all executors were taken."""

    lost: int
    doubled: int
    seconds: list[float]
    before: Footprint
    after: Footprint


EXECUTORS = 6
"""How many executors the node must have been given."""


async def reload_again_and_again(node: NodeUnderTest, times: int, tasks: int) -> Reloads:
    """Reload `times` times with `tasks` host tasks and short runs going on all the time."""
    await node.ready()
    await node.assign("room", [f"{number:03}" for number in range(tasks)])
    await node.until(lambda now: now["work"]["tasks_running"] == tasks)
    for number in range(EXECUTORS):  # so that all executors are there, and their number does not grow later
        assert await dispatch(node, f"warm-{number}", "held") == ""
    await node.until(lambda now: len(workers(now, "executor")) == EXECUTORS)
    node.gate.touch()
    warm = await asyncio.to_thread(node.rota, "reload")
    assert warm.code == 0, warm.err
    await node.until(lambda now: now["work"]["tasks_running"] == tasks and not workers(now, "", "draining"))
    failed, seconds = [], []
    load = Busy()
    busy = asyncio.create_task(_keep_busy(node, load))
    try:
        await eventually(lambda: len(load.accepted) > 200, within=60)
        before = footprint(node)
        for _ in range(times):
            began = time.monotonic()
            answer = await asyncio.to_thread(node.rota, "reload")
            seconds.append(time.monotonic() - began)
            if answer.code != 0:
                failed.append(answer.err)
        await node.until(lambda now: now["work"]["tasks_running"] == tasks and not workers(now, "", "draining"))
        with suppress(AssertionError):  # a guard ends a moment after its worker; what stays is in the figures
            await eventually(lambda: len(node.family()) <= before.processes)
        after = footprint(node)
    finally:
        busy.cancel()
        await asyncio.wait([busy])
    await eventually(lambda: not load.accepted - _done(node))
    notes = node.notes()
    did = [words[1] for words in notes if words[0] == "did"]
    return Reloads(
        failed=failed,
        tasks=tasks,
        gaps=gaps(notes),
        runs=len(load.accepted),
        refused=load.refused,
        lost=len(load.accepted - set(did)),
        doubled=len(did) - len(set(did)),
        seconds=seconds,
        before=before,
        after=after,
    )


def _done(node: NodeUnderTest) -> set[str]:
    return {words[1] for words in node.notes() if words[0] == "did"}


class Busy:
    """What became of the starts."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.refused = 0


async def _keep_busy(node: NodeUnderTest, load: Busy) -> None:
    """Start short runs in four lanes, a hundred a second in each at most."""
    async with dispatching(node) as give:

        async def one(lane: int) -> None:
            number = 0
            while True:
                number += 1
                run = f"busy-{lane}-{number}"
                if await give(run, "short"):
                    load.refused += 1
                else:
                    load.accepted.add(run)
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as lanes:
            for lane in range(4):
                lanes.create_task(one(lane))


def gaps(notes: list[list[str]]) -> list[str]:
    """Tasks that at some time, between their first start and the end of the notes, did not run anywhere."""
    running: dict[str, int] = {}
    found = []
    for words in notes:
        if words[0] == "start":
            running[words[1]] = running.get(words[1], 0) + 1
        elif words[0] == "stop":
            running[words[1]] -= 1
            if running[words[1]] == 0:
                found.append(words[1])
    return found


async def freeze_the_agent(node: NodeUnderTest, ttl: float) -> tuple[float, float]:
    """SIGSTOP the agent alone; when its exclusive task last acted, and when its process was gone, after the freeze."""
    await node.ready()
    await node.assign("single", ["x"], exclusive=True)
    status = await node.until(lambda now: workers(now, "task:"))
    (pid,) = workers(status, "task:")
    await eventually(lambda: [words for words in node.notes() if words[0] == "act"])
    node.freeze()
    began = time.monotonic()  # by now it has renewed its lease for the last time
    try:
        await eventually(lambda: is_gone(pid), within=10 * ttl)
        gone = time.monotonic() - began
    finally:
        node.thaw()
    acted = [float(words[3]) for words in node.notes() if words[0] == "act" and int(words[2]) == pid]
    await node.unassign("single", ["x"])
    return acted[-1] - began, gone


async def take_from_a_stuck_worker(node: NodeUnderTest, how: str) -> float:
    """Order a task that never ends, take it back; seconds until its process is gone."""
    await node.ready()
    name = f"{how}-{time.monotonic_ns()}"
    await node.assign("stuck", [name], how=how)
    status = await node.until(lambda now: workers(now, "task:"))
    (pid,) = workers(status, "task:")
    await eventually(lambda: ["start", f"stuck/{name}#0"] in [words[:2] for words in node.notes()])
    began = time.monotonic()
    await node.unassign("stuck", [name])
    await eventually(lambda: is_gone(pid))
    return time.monotonic() - began


async def has_left(node: NodeUnderTest) -> bool:
    """Has the node ended, with all its processes?"""
    try:
        await node.status()
    except RotaError:
        return not node.leftovers()
    return False
