"""The node runtime with real processes: who dies of what, what a reload does, and what is left behind (nothing).

The rules that depend on the system are tried both ways: with what Linux offers, and with what every system has.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.kit.node import APP, NodeUnderTest, children, is_gone, loader, when_open, workers
from tests.kit.runtime_trials import (
    BROKEN,
    EXECUTORS,
    ROLES,
    dispatch,
    freeze_the_agent,
    has_left,
    kill_one,
    reload_again_and_again,
    reload_broken,
    take_from_a_stuck_worker,
)
from tests.kit.single_node import running, until_its_lease_is_over
from tests.kit.waiting import eventually

WAYS = pytest.mark.parametrize("portable", ["", "1"], ids=["linux", "portable"])


@WAYS
@pytest.mark.parametrize("role", ROLES)
async def test_kill_9_of_one_role_leaves_no_orphan_and_the_rest_recovers(
    tmp_path: Path, role: str, portable: str
) -> None:
    async with running(tmp_path, portable=portable) as node:
        for _ in range(3 if role == "agent" else 2):
            await kill_one(node, role)
            await node.ready()
            await eventually(lambda: _knows_all(node))


async def _knows_all(node: NodeUnderTest) -> bool:
    """Is each process of the node one that it knows?"""
    found = {each.pid for each in node.family()}
    return found <= children(await node.status())


@pytest.mark.variants
@WAYS
async def test_reloads_hand_every_task_over_and_leave_nothing_behind(tmp_path: Path, portable: str) -> None:
    async with running(tmp_path, "--executors", EXECUTORS, portable=portable) as node:
        seen = await reload_again_and_again(node, times=4, tasks=50)
        assert seen.failed == []
        assert seen.gaps == [], "a task stopped before its successor ran"
        assert (seen.lost, seen.doubled) == (0, 0)
        assert seen.after.processes <= seen.before.processes
        assert seen.after.fds <= seen.before.fds + 3, "a connection more or less, not one for each reload"


@pytest.mark.parametrize("what", BROKEN)
async def test_broken_code_changes_nothing_and_says_why(tmp_path: Path, what: str) -> None:
    hangs = what == "an import that hangs"
    async with running(tmp_path, "--reload-timeout", "6s" if hangs else "60s") as node:
        seen = await reload_broken(node, BROKEN[what])
        assert seen.answer.code == 1
        assert seen.is_unharmed
        expected = {
            "a syntax error": "SyntaxError: invalid syntax (app.py, line 1)",
            "an import that hangs": "not done within 6 s (stage: import)",
            "an import that exits": "its import called sys.exit(3)",
            "an import that ends the process": "its import ended the process (exit code 3)",
            "a canary that crashes": "exit code 7",
            "a canary whose hook fails": "on_worker_start fail: ValueError: no database",
        }
        assert expected[what] in seen.answer.err
        good = node.rota("reload")
        assert good.code == 0, good.err


async def test_a_second_reload_is_refused_while_one_is_under_way(tmp_path: Path) -> None:
    async with running(tmp_path, "--reload-timeout", "90s") as node:
        node.app.write_text(when_open(tmp_path / "gate") + APP)
        first = asyncio.create_task(asyncio.to_thread(node.rota, "reload"))
        await node.until(lambda now: now["work"]["reloading"])
        second = await asyncio.to_thread(node.rota, "reload")
        assert (second.code, "a reload is under way" in second.err) == (5, True)
        (tmp_path / "gate").touch()
        assert (await first).code == 0


async def test_rollback_brings_the_code_before_back_without_its_files(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        assert node.rota("rollback").code == 5, "there is nothing to go back to yet"
        node.app.write_text(APP.replace("groups={1: 2}", "groups={1: 3}"))
        assert node.rota("reload").code == 0
        await node.until(lambda now: len(workers(now, "service:")) == 3)
        node.app.unlink()
        back = node.rota("rollback")
        assert (back.code, "back at generation 1" in back.out) == (0, True)
        await node.until(lambda now: len(workers(now, "service:")) == 2)
        forward = node.rota("rollback")
        assert "back at generation 2" in forward.out


async def test_hup_reloads(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        os.kill(node.pid, signal.SIGHUP)
        await node.until(lambda now: now["work"]["generation"] == 2 and now["is_ready"])


@pytest.mark.variants
@WAYS
async def test_exclusive_work_stops_by_its_deadline_when_the_agent_is_frozen(tmp_path: Path, portable: str) -> None:
    async with running(tmp_path, portable=portable, ttl="3s") as node:
        last_act, gone = await freeze_the_agent(node, ttl=3.0)
        assert last_act < 3.0, "it acted past the lease's end"
        assert gone >= last_act


@pytest.mark.parametrize("how", ["regex", "sleep"])
async def test_a_worker_stuck_in_c_code_or_deaf_to_stop_is_killed_after_its_grace(tmp_path: Path, how: str) -> None:
    async with running(tmp_path, "--grace", "1s") as node:
        took = await take_from_a_stuck_worker(node, how)
        assert took >= 0.9, "it gets its grace"


async def test_a_host_whose_loop_stands_still_is_replaced_and_its_stacks_are_saved(tmp_path: Path) -> None:
    async with running(tmp_path, "--stall-after", "1s") as node:
        (before,) = workers(await node.until(lambda now: workers(now, "host")), "host")
        await node.assign("blocking", ["b"])
        await node.until(lambda now: workers(now, "host") not in ([], [before]))
        saved = node.data / "stacks"
        await eventually(lambda: any("in blocking" in file.read_text() for file in saved.glob("*.txt")))
        assert "worker stalled" in node.complaint()


async def test_term_lets_a_run_finish_and_int_does_not(tmp_path: Path) -> None:
    async with running(tmp_path, "--drain", "60s") as node:
        gate = node.app.with_name("gate")
        await dispatch(node, "r1", "held")
        await eventually(lambda: ["run", "r1"] in [words[:2] for words in node.notes()])
        os.kill(node.pid, signal.SIGTERM)
        await eventually(lambda: "stopping" in node.complaint())
        gate.touch()
        await eventually(lambda: not node.is_running)
        assert ["done", "r1"] in [words[:2] for words in node.notes()]
        assert not node.family()
        gate.unlink()
        node.start()
        await node.ready()
        await dispatch(node, "r2", "held")
        await eventually(lambda: ["run", "r2"] in [words[:2] for words in node.notes()])
        os.kill(node.pid, signal.SIGINT)
        await eventually(lambda: not node.is_running)
        assert ["done", "r2"] not in [words[:2] for words in node.notes()]
        assert not node.family()


async def test_rota_stop_stops(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        answer = node.rota("stop")
        assert (answer.code, answer.out) == (0, f"node {node.name}: stopped\n"), answer.err
        await eventually(lambda: has_left(node))
        again = node.rota("stop")
        assert again.code == 7
        assert "no node is running on" in again.err


async def test_an_interrupted_worker_takes_its_own_children_along(tmp_path: Path) -> None:
    """Also those that ignore TERM: they are in its process group."""
    app = APP + (
        "\n@app.job()\ndef parent(run):\n    import subprocess\n"
        "    child = subprocess.Popen(['sh', '-c', 'trap : TERM INT; while :; do sleep 1; done'])\n"
        "    note('child', child.pid)\n    child.wait()\n"
    )
    async with running(tmp_path, app=app) as node:
        await dispatch(node, "r", "parent")
        child = int((await eventually(lambda: [words for words in node.notes() if words[0] == "child"]))[0][1])
        (executor,) = workers(await node.status(), "executor")
        os.kill(executor, signal.SIGKILL)
        await eventually(lambda: is_gone(child))


async def test_a_crash_loop_is_a_visible_state_and_ends_by_itself(tmp_path: Path) -> None:
    flag = tmp_path / "broken"
    app = APP + (
        f"\n@app.on_worker_start\ndef start():\n    if os.path.exists({str(flag)!r}):\n"
        "        raise RuntimeError('no database')\n"
    )
    async with running(tmp_path, app=app) as node:
        flag.touch()
        (victim,) = workers(await node.status(), "host")
        os.kill(victim, signal.SIGKILL)
        status = await node.until(lambda now: now["work"]["pools"][0]["crash_loop"])
        assert "RuntimeError: no database" in status["work"]["pools"][0]["crash_loop"]
        assert not status["is_ready"]
        assert loader(status)
        flag.unlink()
        await node.ready()


async def test_workers_are_recycled_one_after_the_other(tmp_path: Path) -> None:
    async with running(tmp_path, "--recycle-age", "1500ms") as node:
        before = set(workers(await node.status(), "service:"))
        await node.until(lambda now: len(ready := set(workers(now, "service:"))) == 2 and not ready & before)
        assert "worker recycled" in node.complaint()


async def test_an_executor_is_recycled_after_its_count(tmp_path: Path) -> None:
    async with running(tmp_path, "--recycle-count", "3") as node:
        before = workers(await node.status(), "executor")
        for number in range(3):
            assert await dispatch(node, f"r{number}", "short") == ""
        await node.until(lambda now: workers(now, "executor") not in ([], before))


async def test_threads_left_by_the_import_are_named_and_forking_is_refused(tmp_path: Path) -> None:
    app = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='mine', daemon=True).start()\n"
        + APP
    )
    with NodeUnderTest(tmp_path / "node", app=app) as node:
        await eventually(lambda: "the app's import left threads running" in node.complaint())
        assert '"mine"' in node.complaint().replace("\\", "")
        assert "spawn" in node.complaint()
    await eventually(lambda: not node.family())


async def test_such_an_app_can_be_spawned(tmp_path: Path) -> None:
    app = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        + APP.replace('rota.App("trial")', 'rota.App("trial", start="spawn")')
    )
    async with running(tmp_path, app=app) as node:
        await node.assign("room", ["1"])
        await node.until(lambda now: now["work"]["tasks_running"] == 1)
        assert node.rota("reload").code == 0
        node.kill()
        await eventually(lambda: not node.family())


async def test_a_broken_app_keeps_the_node_from_starting_and_shows_the_line(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "node", app="import rota\napp = rota.App('x')\n1/0\n") as node:
        await eventually(lambda: not node.is_running)
        assert "ZeroDivisionError: division by zero" in node.complaint()
        assert "app.py" in node.complaint()
        assert "line 3" in node.complaint()
    assert not node.family()


async def test_a_task_that_fails_is_started_again_and_others_do_not_notice(tmp_path: Path) -> None:
    app = (
        APP
        + "\n@app.resource()\nasync def failing(task):\n    note('start', task.id)\n    raise ValueError('bad day')\n"
    )
    async with running(tmp_path, app=app) as node:
        await node.assign("room", ["1"])
        await node.assign("failing", ["2"])
        await eventually(lambda: len([words for words in node.notes() if words[:2] == ["start", "failing/2#0"]]) >= 3)
        await node.until(lambda now: now["work"]["tasks_running"] == 1)  # the one that fails may just be starting
        assert [words[0] for words in node.notes() if words[1] == "room/1#0"] == ["start"]
        assert "ValueError: bad day" in node.complaint()


async def test_a_resource_that_the_app_does_not_have_is_told(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.assign("nothing", ["1"])
        await eventually(lambda: 'the app has no resource "nothing"' in node.complaint().replace("\\", ""))


async def test_tasks_go_on_while_the_session_is_renewed(tmp_path: Path) -> None:
    """A node frozen past its lease comes back in a new session and keeps what is still assigned to it."""
    async with running(tmp_path, ttl="3s") as node:
        await node.assign("room", ["1"])
        before = await node.until(lambda now: now["work"]["tasks_running"] == 1)
        node.freeze_between_writes(node.store)  # or else nobody could sweep its lease
        await until_its_lease_is_over(node)
        node.thaw()
        await node.until(lambda now: now["session"] not in (None, before["session"]))
        assert [words[0] for words in node.notes() if words[1] == "room/1#0"] == ["start"]


async def test_tasks_with_a_process_of_their_own_are_shown_as_one_pool(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "a") as node:
        await node.ready()
        await node.assign("single", ["1", "2", "3"], exclusive=True)
        status = await node.until(
            lambda now: now["work"]["tasks_running"] == sum(each["ready"] for each in _pools(now, "task")) == 3
        )
        (pool,) = _pools(status, "task")
        assert (pool["name"], pool["want"]) == ("task:single", 3)


def _pools(status: dict[str, Any], role: str) -> list[dict[str, Any]]:
    return [each for each in status["work"]["pools"] if each["role"] == role]
