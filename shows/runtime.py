"""`make show-runtime`: what the node runtime must show. Takes about six minutes."""

import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

import benchmarks
from shows.ground import figure
from shows.report import Line, show
from tests.kit.cli import ROTA
from tests.kit.node import APP, NodeUnderTest, children, is_alive
from tests.kit.process import ROOT
from tests.kit.runtime_trials import (
    BROKEN,
    EXECUTORS,
    ROLES,
    freeze_the_agent,
    kill_one,
    reload_again_and_again,
    reload_broken,
    take_from_a_stuck_worker,
)
from tests.kit.waiting import eventually

ROUNDS = 50
RELOADS = 100
TASKS = 200


def rota_up_is_quick_to_come_and_to_go() -> Iterator[Line]:
    """Ready, Ctrl-C, gone; the worst of three."""
    for nodes, limit in ((1, 3.0), (3, 6.0)):
        ready, gone, left = [], [], 0
        for _ in range(3):
            with tempfile.TemporaryDirectory(prefix="rota-up-") as folder:
                took = asyncio.run(_up(Path(folder), nodes))
                ready.append(took[0])
                gone.append(took[1])
                left += took[2]
        yield Line(
            max(ready) <= limit,
            f"rota up with {nodes} node{'s' * (nodes > 1)} is ready within {limit:g} s",
            f"{max(ready):.2f} s at worst of 3",
        )
        yield Line(
            max(gone) <= 2 and left == 0,
            f"and stopped within 2 s of Ctrl-C, no process left ({nodes})",
            f"{max(gone):.2f} s at worst of 3, {left} left",
        )


async def _up(folder: Path, nodes: int) -> tuple[float, float, int]:
    (folder / "app.py").write_text(APP)
    began = time.monotonic()
    up = await asyncio.create_subprocess_exec(
        *(str(ROTA), "up", "app.py", "--nodes", str(nodes)),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert up.stdout is not None
    async with asyncio.timeout(60):
        async for line in up.stdout:
            if line.startswith(b"ready"):
                break
        ready = time.monotonic() - began
        family = psutil.Process(up.pid).children(recursive=True)
        assert len(family) >= 5 * nodes, family
        began = time.monotonic()
        up.send_signal(signal.SIGINT)
        await up.stdout.read()
        await up.wait()
    return ready, time.monotonic() - began, sum(is_alive(each) for each in family)


def kill_9_of_any_role_leaves_no_orphan() -> Iterator[Line]:
    """Each role alone, again and again; the process table is looked at after each."""
    for role in ROLES:
        with tempfile.TemporaryDirectory(prefix="rota-kill-") as folder:
            took, orphans = asyncio.run(_kill_rounds(Path(folder) / "n", role))
        yield Line(
            max(took) <= 2 and orphans == 0,
            f"kill −9 of the {role}, {ROUNDS} rounds: the rest recovers or leaves within 2 s, no orphan",
            f"median {statistics.median(took):.2f} s, worst {max(took):.2f} s, {orphans} orphans",
        )


async def _kill_rounds(folder: Path, role: str) -> tuple[list[float], int]:
    took, orphans = [], 0
    with NodeUnderTest(folder, "--lease-ttl", "3s", "--grace", "1s") as node:
        for number in range(ROUNDS):
            if number % 4 == 3:  # or its falls in a row make the worker wait, as they should
                node.stop()
                node.start()
            took.append(await kill_one(node, role))
            status = await node.ready()
            known = children(status)
            try:
                await eventually(lambda known=known: {each.pid for each in node.family()} <= known, within=2)
            except AssertionError:
                orphans += len({each.pid for each in node.family()} - known)
    await eventually(lambda: not node.family())
    return took, orphans


def forking_beats_spawning() -> Iterator[Line]:
    """`make bench`'s part about workers' start, by its own verdicts."""
    for row in benchmarks.run(only="start"):
        yield Line(row.verdict != "short", row.name, figure(row))


def reloads_lose_nothing() -> Iterator[Line]:
    """100 reloads while 200 host tasks and a busy pool run."""
    with tempfile.TemporaryDirectory(prefix="rota-reload-") as folder:
        seen = asyncio.run(_reload_rounds(Path(folder) / "n"))
    before, after = seen.before, seen.after
    yield Line(
        not seen.failed and not seen.gaps and not seen.lost and not seen.doubled,
        f"{RELOADS} reloads with {TASKS} host tasks and a busy pool: no task ends except by hand-over, no run is lost",
        f"{len(seen.failed)} failed, {len(seen.gaps)} tasks with a gap; {seen.runs} runs accepted, {seen.lost} lost, "
        f"{seen.doubled} doubled, {seen.refused} refused as busy; {statistics.median(seen.seconds):.2f} s a reload",
    )
    yield Line(after.processes <= before.processes, "process count flat", f"{before.processes} → {after.processes}")
    yield Line(after.fds <= before.fds + 3, "descriptors flat", f"{before.fds} → {after.fds}")
    grown = (after.memory - before.memory) / 2**20
    yield Line(
        grown < 8,
        "memory flat (agent, own pages; short above 8 MiB)",
        f"{before.memory / 2**20:.1f} → {after.memory / 2**20:.1f} MiB",
    )


async def _reload_rounds(folder: Path):
    with NodeUnderTest(folder, "--executors", EXECUTORS) as node:
        return await reload_again_and_again(node, RELOADS, TASKS)


def broken_code_changes_nothing() -> Iterator[Line]:
    """Each way an app can be broken."""
    with tempfile.TemporaryDirectory(prefix="rota-broken-") as folder:
        seen = asyncio.run(_break(Path(folder) / "n"))
    for what, failed in seen.items():
        said = failed.answer.err.splitlines()[0] if failed.answer.err else "nothing"
        yield Line(
            failed.answer.code != 0 and failed.is_unharmed and failed.seconds <= 3 + 1,
            f"reload with {what}: the old generation serves on, exit ≠ 0 with the reason in time",
            f"exit {failed.answer.code} after {failed.seconds:.1f} s: {said}",
        )


async def _break(folder: Path):
    with NodeUnderTest(folder, "--reload-timeout", "3s") as node:
        return {what: await reload_broken(node, app) for what, app in BROKEN.items()}


def frozen_and_stuck_processes_end_in_time() -> Iterator[Line]:
    """SIGSTOP of the agent alone; workers that will not stop."""
    with tempfile.TemporaryDirectory(prefix="rota-frozen-") as folder:
        frozen, stuck = asyncio.run(_freeze(Path(folder) / "n"))
    acted, gone = max(each[0] for each in frozen), max(each[1] for each in frozen)
    yield Line(
        gone < 3,
        "SIGSTOP of the agent alone (lease 3 s): its exclusive work stops by the deadline, worst of 5",
        f"last act {acted:.2f} s, process gone {gone:.2f} s after the freeze",
    )
    for how, took in stuck.items():
        yield Line(took <= 2, f"a worker {how} is gone within grace (1 s) + 1 s", f"{took:.2f} s")


async def _freeze(folder: Path) -> tuple[list[tuple[float, float]], dict[str, float]]:
    with NodeUnderTest(folder, "--lease-ttl", "3s", "--grace", "1s") as node:
        frozen = [await freeze_the_agent(node, 3.0) for _ in range(5)]
        stuck = {
            "stuck in C code": await take_from_a_stuck_worker(node, "regex"),
            "that ignores being asked": await take_from_a_stuck_worker(node, "sleep"),
        }
    return frozen, stuck


if __name__ == "__main__":
    os.chdir(ROOT)
    show(
        [
            rota_up_is_quick_to_come_and_to_go,
            forking_beats_spawning,
            broken_code_changes_nothing,
            frozen_and_stuck_processes_end_in_time,
            kill_9_of_any_role_leaves_no_orphan,
            reloads_lose_nothing,
        ]
    )
