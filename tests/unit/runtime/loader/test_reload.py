"""Reloads: what a new generation has to show before it takes over, and what says nothing about it."""

import asyncio
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import rota
from rota.kit.record import replace
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.loader.reload import NOT_KEPT, Reloaded, ReloadFailed
from rota.runtime.system.kernel import EndedProcess
from rota.sdk.app import App
from tests.kit.fake_loaders import CANNOT_START, FAILS, LIVES, QUICK, FakeNode
from tests.kit.waiting import eventually

POLICY = replace(QUICK, settled_after=timedelta(milliseconds=10))
CAMERAS = ("c0", "c1", "c2", "c3", "c4", "c5")


def app_with_cameras() -> App:
    """Tasks that each have a process of their own, beside tasks that share a host."""
    app = App("trial")

    @app.resource()
    def camera(task: rota.Task) -> None: ...

    @app.resource()
    async def room(task: rota.Task) -> None: ...

    return app


def node(folder: Path, patch: pytest.MonkeyPatch, fate: Callable[[str, int], str]) -> FakeNode:
    return FakeNode(folder, patch, app_with_cameras(), fate)


def cameras_fail(pool: str, _: int) -> str:
    return FAILS if pool.startswith("task:") else LIVES


async def test_tasks_that_fail_for_reasons_of_their_own_do_not_make_a_reload_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, cameras_fail) as found:
        found.order("camera", CAMERAS)
        for number in (2, 3, 4):
            assert await found.reloads.reload() == Reloaded(number, number - 1)


async def test_tasks_that_fail_for_reasons_of_their_own_do_not_make_a_rollback_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, cameras_fail) as found:
        found.order("camera", CAMERAS)
        await found.reloads.reload()
        assert await found.reloads.rollback() == Reloaded(1, 2, NOT_KEPT)


async def test_code_that_cannot_start_a_task_alone_makes_a_reload_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_is_broken(pool: str, generation: int) -> str:
        return CANNOT_START if pool.startswith("task:") and generation == 2 else LIVES

    async with node(tmp_path, monkeypatch, second_is_broken) as found:
        found.order("camera", CAMERAS)
        with pytest.raises(ReloadFailed, match=r"generation 1 keeps running: task:camera/c[0-5]#0/0: exit code 0"):
            await found.reloads.reload()
        assert found.generations.current == 1


async def test_a_reload_waits_until_the_tasks_alone_have_started_in_the_new_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lambda pool, generation: LIVES) as found:
        found.order("camera", CAMERAS)
        await found.reloads.reload()
        ready = [each for each in found.crew.workers.values() if each.phase == WorkerPhase.READY]
        assert {each.brief.pool for each in ready if each.brief.generation == 2} >= {
            f"task:camera/{c}#0" for c in CAMERAS
        }
        assert {each.brief.generation for each in ready} == {2}


async def test_a_task_taken_back_during_a_reload_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_back(pool: str, generation: int) -> str:
        if pool == "task:camera/c5#0" and generation == 2:
            found.orders = [order for order in found.orders if order.resource != "c5"]
            found.post()
            return CANNOT_START
        return LIVES

    async with node(tmp_path, monkeypatch, taken_back) as found:
        found.order("camera", CAMERAS)
        assert await found.reloads.reload() == Reloaded(2, 1)


async def test_a_task_that_fails_does_not_make_its_node_unready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, cameras_fail) as found:
        await found.crew.until(found.crew.is_settled)
        found.order("camera", CAMERAS)
        await found.crew.until(lambda: len(found.crew.falls) == len(CAMERAS))
        assert found.crew.is_settled()


async def test_a_worker_that_has_stood_long_enough_is_in_no_crash_loop_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_at_first(pool: str, _: int) -> str:
        return LIVES if len(found.told) >= POLICY.loop_after else CANNOT_START

    found = FakeNode(tmp_path, monkeypatch, app_with_cameras(), fails_at_first, POLICY)
    async with found:
        await until(found, lambda: any(falls.is_crash_loop(POLICY) for falls in found.crew.falls.values()))
        await until(found, lambda: not found.crew.falls)
        assert found.crew.is_settled()


async def test_the_falls_of_a_successor_are_not_forgotten_because_the_worker_before_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FakeNode(tmp_path, monkeypatch, app_with_cameras(), lambda *_: LIVES if not worn else CANNOT_START, POLICY)
    worn: list[int] = []
    async with found:
        await until(found, found.crew.is_settled)
        worn += found.crew.workers
        found.crew.replace(worn[0], "old age", now=False)
        await until(found, lambda: any(falls.is_crash_loop(POLICY) for falls in found.crew.falls.values()))
        assert worn[0] in found.crew.workers


def lives(pool: str, generation: int) -> str:
    return LIVES


async def until(found: FakeNode, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        await found.crew.until(condition)


async def test_a_reload_asked_for_by_a_signal_during_another_one_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lives) as found:
        found.imports.gate.clear()
        found.reloads.reload_soon()
        await until(found, lambda: found.imports.count == 2)  # it has read the files
        for _ in range(5):
            found.reloads.reload_soon()
        found.imports.gate.set()
        await until(found, lambda: found.generations.current == 3 and not found.reloads.stage)
        assert found.imports.count == 3, "five signals are one wish"


async def test_a_reload_asked_for_by_a_signal_comes_after_the_one_that_a_caller_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lives) as found:
        found.imports.gate.clear()
        waits = asyncio.create_task(found.reloads.reload())
        await until(found, lambda: found.imports.count == 2)
        found.reloads.reload_soon()
        found.imports.gate.set()
        assert await waits == Reloaded(2, 1)
        await until(found, lambda: found.generations.current == 3)


async def test_a_reload_asked_for_by_a_signal_during_a_failing_one_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lives) as found:
        found.imports.gate.clear()
        found.imports.error = "SyntaxError: the first version of the file"
        found.reloads.reload_soon()
        await until(found, lambda: found.imports.count == 2)
        found.imports.error = ""
        found.reloads.reload_soon()
        found.imports.gate.set()
        await until(found, lambda: found.generations.current == 3)
        assert found.reloads.outcomes["failed"] == 1


async def test_a_reload_asked_for_by_a_signal_during_the_first_import_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = node(tmp_path, monkeypatch, lives)
    found.imports.gate.clear()
    starting = asyncio.create_task(found.__aenter__())
    await eventually(lambda: found.imports.count == 1)
    found.reloads.reload_soon()
    found.imports.gate.set()
    await starting
    await until(found, lambda: found.generations.current == 2)
    await found.__aexit__()


async def test_a_reload_that_waits_for_its_turn_gives_way_to_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lives) as found:
        found.imports.gate.clear()
        found.reloads.reload_soon()
        await until(found, lambda: found.imports.count == 2)
        found.reloads.reload_soon()
        await found.reloads.close()
        await until(found, lambda: not found.reloads.stage)
        assert found.generations.current == 1
        assert found.imports.count == 2


async def test_a_lost_loader_that_comes_back_after_a_reload_asks_for_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lives) as found:
        found.imports.code = "2"
        slow = found.imports.gate = asyncio.Event()
        found.kill_loader()
        await until(found, lambda: found.imports.count == 2)
        found.imports.gate = asyncio.Event()
        found.imports.gate.set()
        assert await found.reloads.reload() == Reloaded(2, 1)
        slow.set()
        await until(found, lambda: found.generations.previous is None)
        assert ("code", "changed") not in found.told


async def test_the_end_of_an_earlier_process_is_not_taken_for_that_of_a_worker_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lives) as found:
        await until(found, found.crew.is_settled)
        process = subprocess.Popen(["sleep", "1000"], process_group=0)  # noqa: ASYNC220  # nobody waits for it
        found.watch.reaped(EndedProcess(process.pid, 0, 0.0, 0))  # a guard of that number, say
        found.order("camera", ["c0"])
        await until(found, lambda: bool(found.crew.of_pool("task:camera/c0#0")))
        (worker,) = found.crew.of_pool("task:camera/c0#0")
        found.watch.forked(worker.id, process.pid)
        assert worker.id in found.crew.workers
        worker.kill("the test is over")
        process.wait()


async def test_a_failed_reload_does_not_say_that_a_generation_serves_on_that_has_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path, monkeypatch, lambda pool, generation: CANNOT_START) as found:
        with pytest.raises(ReloadFailed, match="generation 1 stays, and none of its workers is ready: "):
            await found.reloads.reload()
