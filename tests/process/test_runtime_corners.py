"""Corners of the node runtime, each of which once lost, doubled or left behind something."""

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.resources.core.records import Trouble
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.system.enclosure import own_cgroup, prefix
from rota.store import open_store
from tests.kit.node import APP, NodeUnderTest, is_gone, loader, when_open, workers
from tests.kit.runtime_trials import dispatch
from tests.kit.saved_states import KEEPING, keep_states
from tests.kit.single_node import running, until_its_lease_is_over
from tests.kit.waiting import eventually

SLOW_TO_STOP = (
    APP
    + """

@app.resource(exclusive=True)
async def careful(task: rota.Task) -> None:
    note("start", task.id, os.getpid(), task.epoch)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.5)
        note("stop", task.id, os.getpid(), task.epoch)


@app.resource()
async def stubborn(task: rota.Task) -> None:
    note("start", task.id, os.getpid())
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note("refused", task.id, os.getpid())


@app.resource()
async def odd(task: rota.Task) -> None:
    note("start", task.id, os.getpid(), time.monotonic())
    raise asyncio.CancelledError


@app.resource(exclusive=True)
async def parent(task: rota.Task) -> None:
    import subprocess
    child = subprocess.Popen(["sh", "-c", "trap : TERM; while :; do sleep 0.1; done"])
    note("child", child.pid)
    await asyncio.Event().wait()


@app.resource(exclusive=True)
async def away(task: rota.Task) -> None:
    raise ConnectionError("the camera does not answer")


@app.resource()
def dying(task: rota.Task) -> None:
    os._exit(3)


@app.job()
def daemon(run: rota.Run) -> None:
    import subprocess
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    note("child", child.pid)


@app.job()
def orphan(run: rota.Run) -> None:
    import subprocess
    started = subprocess.run(["sh", "-c", "sleep 600 >/dev/null & echo $!"], start_new_session=True, stdout=-1)
    note("child", int(started.stdout))
"""
)


def acts(node: NodeUnderTest) -> list[list[str]]:
    return [words for words in node.notes() if words[0] == "act"]


async def child_of(node: NodeUnderTest) -> int:
    return await nth_child_of(node, 1)


async def nth_child_of(node: NodeUnderTest, count: int) -> int:
    def children() -> list[int]:
        return [int(words[1]) for words in node.notes() if words[0] == "child"]

    return (await eventually(lambda: len(children()) >= count and children()))[count - 1]


async def test_an_exclusive_task_does_not_meet_its_next_epoch(tmp_path: Path) -> None:
    async with running(tmp_path, app=SLOW_TO_STOP) as node:
        for number in range(1, 4):  # the node may see two orders as one
            await node.assign("careful", ["x"], exclusive=True)
            await node.assign("careful", ["x"], exclusive=True)
            await eventually(lambda number=number: [words[0] for words in node.notes()].count("start") >= number)
        order = [words[0] for words in node.notes()]
        assert order == (["start", "stop"] * len(order))[: len(order)], "two epochs ran at the same time"


async def test_a_dead_loader_does_not_move_exclusive_work_to_a_host(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.assign("single", ["x"], exclusive=True)
        await eventually(lambda: acts(node))
        node.app.write_text("def broken(:\n")
        os.kill(loader(await node.status()), signal.SIGKILL)
        await node.until(lambda now: not loader(now))
        await node.assign("room", ["1"])
        await node.until(lambda now: now["work"]["tasks_running"] == 2)
        await asyncio.sleep(0.3)
        assert len({words[2] for words in acts(node)}) == 1, "it acts in two processes"
        await node.unassign("single", ["x"])
        await node.until(lambda now: not workers(now, "task:"))
        node.app.write_text(APP)
        await node.until(loader)


async def test_exclusive_work_of_an_old_session_does_not_come_back_with_a_new_one(tmp_path: Path) -> None:
    async with running(tmp_path, ttl="3s") as node:
        await node.assign("single", ["x"], exclusive=True)
        before = (await node.status())["session"]
        await eventually(lambda: acts(node))
        node.freeze_between_writes(node.store)
        await eventually(lambda: all(is_gone(int(words[2])) for words in acts(node)))
        await until_its_lease_is_over(node)
        await node.unassign("single", ["x"])  # as a leader does when the lease has ended
        count = len(acts(node))
        node.thaw()
        await node.until(lambda now: now["session"] and (now["session"] != before or not now["work"]["tasks_ordered"]))
        await asyncio.sleep(1)
        assert len(acts(node)) == count, "it acted without an assignment"


async def test_a_task_taken_back_before_its_first_step_can_be_ordered_again(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        for _ in range(15):
            await node.assign("room", ["1", "2", "3"])
            await node.unassign("room", ["1", "2", "3"])
        await node.assign("room", ["1", "2", "3"])
        await node.until(lambda now: now["work"]["tasks_running"] == 3)


async def test_a_reload_does_not_end_a_run_however_long_it_takes(tmp_path: Path) -> None:
    async with running(tmp_path, "--drain", "200ms", "--grace", "200ms") as node:
        await dispatch(node, "r", "long")
        await eventually(lambda: ["run", "r"] in [words[:2] for words in node.notes()])
        assert node.rota("reload").code == 0
        await eventually(lambda: ["done", "r"] in [words[:2] for words in node.notes()])


async def test_without_the_kernels_help_a_stuck_worker_still_ends_with_its_agent(tmp_path: Path) -> None:
    async with running(tmp_path, portable="1") as node:
        await node.assign("stuck", ["x"], how="regex")
        await eventually(lambda: [words for words in node.notes() if words[0] == "start"])
        node.kill()
        await eventually(lambda: not node.leftovers())


async def test_what_exclusive_work_started_ends_by_the_deadline_too(tmp_path: Path) -> None:
    async with running(tmp_path, app=SLOW_TO_STOP, ttl="3s") as node:
        await node.assign("parent", ["x"], exclusive=True)
        child = await child_of(node)
        node.freeze()
        try:
            await eventually(lambda: is_gone(child))
        finally:
            node.thaw()


async def test_a_reload_during_the_first_load_is_refused(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with NodeUnderTest(tmp_path / "node", app=when_open(gate) + APP) as node:
        await node.until(lambda _: True)
        answer = node.rota("reload")
        assert (answer.code, "for the first time" in answer.err) == (5, True)
        os.kill(node.pid, signal.SIGHUP)
        gate.touch()
        status = await node.ready()
        assert status["work"]["generation"] == 1
    await eventually(lambda: not node.leftovers())


async def test_a_stop_during_a_reload_does_not_wait_for_it(tmp_path: Path) -> None:
    async with running(tmp_path, "--drain", "20s") as node:
        node.app.write_text("import time\ntime.sleep(600)\n" + APP)
        reloading = asyncio.create_task(asyncio.to_thread(node.rota, "reload"))
        await node.until(lambda now: now["work"]["reloading"])
        os.kill(node.pid, signal.SIGTERM)
        await eventually(lambda: not node.is_running)
        assert (await reloading).code == 7


async def test_a_task_that_will_not_stop_costs_its_host_and_no_other_task(tmp_path: Path) -> None:
    async with running(tmp_path, "--grace", "500ms", "--drain", "1s", app=SLOW_TO_STOP) as node:
        await node.assign("room", ["1"])
        await node.assign("stubborn", ["2"])
        (host,) = workers(await node.until(lambda now: now["work"]["tasks_running"] == 2), "host")
        await node.unassign("stubborn", ["2"])
        await eventually(lambda: is_gone(host))
        assert len([words for words in node.notes() if words[0] == "refused"]) == 1, "it was cancelled more than once"
        notes = [words for words in node.notes() if words[1] == "room/1#0"]
        assert [words[0] for words in notes] == ["start", "start", "stop"], "handed over, not ended"


async def test_a_task_that_cancels_itself_waits_like_one_that_fails(tmp_path: Path) -> None:
    async with running(tmp_path, app=SLOW_TO_STOP) as node:
        await node.assign("odd", ["1"])
        await eventually(lambda: len(node.notes()) >= 4)
        first, *_, fourth = [float(words[3]) for words in node.notes()[:4]]
        assert fourth - first > 0.5, "it is started again without a pause, or with the same one"


async def test_code_that_changed_before_a_loader_came_back_comes_in_as_a_reload(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.app.write_text(APP.replace("groups={1: 2}", "groups={1: 3}"))
        os.kill(loader(await node.status()), signal.SIGKILL)
        status = await node.until(lambda now: now["work"]["generation"] == 2 and now["is_ready"])
        assert len(workers(status, "service:")) == 3
        assert node.rota("rollback").code == 5, "what was before is gone with its loader"


async def test_a_frozen_loader_is_replaced(tmp_path: Path) -> None:
    async with running(tmp_path, "--start-timeout", "3s") as node:
        status = await node.status()
        frozen = loader(status)
        os.kill(frozen, signal.SIGSTOP)
        (victim,) = workers(status, "host")
        os.kill(victim, signal.SIGKILL)
        await node.until(lambda now: loader(now) not in (0, frozen) and workers(now, "host") not in ([], [victim]))


async def test_exclusive_work_whose_start_outlasts_the_lease_starts_all_the_same(tmp_path: Path) -> None:
    app = APP + "\n@app.on_worker_start\ndef slow():\n    time.sleep(3.5)\n"
    async with running(tmp_path, app=app, ttl="3s") as node:
        await node.assign("single", ["x"], exclusive=True)
        await eventually(lambda: len(acts(node)) > 5, within=60)


async def test_a_child_in_a_session_of_its_own_ends_with_the_node(tmp_path: Path) -> None:
    async with running(tmp_path, app=SLOW_TO_STOP) as node:
        await dispatch(node, "r", "daemon")
        child = await child_of(node)
        os.kill(node.pid, signal.SIGTERM)
        await eventually(lambda: not node.is_running)
        assert is_gone(child)


async def test_a_child_in_a_session_of_its_own_that_outlived_a_killed_agent_ends_when_the_node_starts_again(
    tmp_path: Path,
) -> None:
    """Where the node has no cgroup of its own."""
    async with running(tmp_path, app=SLOW_TO_STOP, portable="1") as node:
        await dispatch(node, "r", "orphan")  # it descends from no worker, or the worker's guard would end it
        child = await child_of(node)
        node.kill()
        assert not is_gone(child), "then there is nothing to try"
        node.start()
        await eventually(lambda: is_gone(child))
        await node.ready()
        assert "ending what an earlier life left behind" in node.complaint()


DAEMONS = (
    APP
    + """

def daemon(environ=None):
    import subprocess
    child = subprocess.Popen(["sleep", "600"], start_new_session=True, env=environ)
    note("child", child.pid)


@app.resource(start_within="1h")
async def nest(task: rota.Task) -> None:
    daemon(task.spec.get("environ"))
    await asyncio.Event().wait()


@app.job()
def leave(run: rota.Run) -> None:
    daemon()


if os.path.exists(os.path.join(HERE, "helper")):
    daemon()
"""
)


def cgroups(node: NodeUnderTest) -> list[Path]:
    """The cgroups of a node, of all its lives."""
    home = f"{(node.data / 'home').read_text().strip()}-{node.data.stat().st_ino}"
    base = own_cgroup(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    return list(base.glob(f"{prefix(home)}*")) if base is not None else []


async def test_daemons_end_with_a_killed_agent_and_with_their_worker_in_a_cgroup(tmp_path: Path) -> None:
    async with running(tmp_path, app=DAEMONS) as node:
        assert (await node.status())["work"]["daemons"] == "cgroup", node.complaint()
        await node.assign("nest", ["x"], environ={"PATH": os.environ["PATH"]})  # without our variables
        first = await child_of(node)
        (host,) = workers(await node.status(), "host")
        os.kill(host, signal.SIGKILL)
        await eventually(lambda: is_gone(first))
        second = await nth_child_of(node, 2)
        await dispatch(node, "r", "leave")
        third = await nth_child_of(node, 3)
        assert not is_gone(second)
        assert not is_gone(third)
        node.kill()
        await eventually(lambda: is_gone(second) and is_gone(third) and not cgroups(node))
        node.start()
        await node.ready()
        assert len(cgroups(node)) == 1
        os.kill(node.pid, signal.SIGTERM)
        await eventually(lambda: not node.is_running and not cgroups(node))


@pytest.mark.parametrize("portable", ["", "1"])
async def test_daemons_of_a_replaced_generation_end_and_those_of_its_import_when_nobody_can_go_back(
    tmp_path: Path, portable: str
) -> None:
    async with running(tmp_path, app=DAEMONS, portable=portable) as node:
        way = "environment" if portable else "cgroup"
        assert (await node.status())["work"]["daemons"] == way, node.complaint()
        (node.app.parent / "helper").touch()
        assert node.rota("reload").code == 0
        helper = await child_of(node)  # of the import of generation 2
        (node.app.parent / "helper").unlink()
        await dispatch(node, "r", "leave")
        left = await nth_child_of(node, 2)
        await node.until(lambda now: now["work"]["tasks_running"] == 0)
        assert not is_gone(left)
        assert node.rota("reload").code == 0
        await eventually(lambda: is_gone(left))
        assert not is_gone(helper), "rollback would miss it"
        assert node.rota("reload").code == 0
        await eventually(lambda: is_gone(helper))


async def test_a_keeper_that_was_killed_costs_no_worker_and_leaves_no_cgroup(tmp_path: Path) -> None:
    async with running(tmp_path, app=DAEMONS) as node:
        await dispatch(node, "r", "leave")
        child = await child_of(node)
        (keeper,) = [each for each in psutil.Process(node.pid).children() if "keeper.py" in " ".join(each.cmdline())]
        keeper.kill()
        await eventually(lambda: is_gone(keeper.pid))
        node.kill()
        node.start()
        await eventually(lambda: is_gone(child))
        await node.ready()
        assert len(cgroups(node)) == 1


async def test_hup_does_not_end_a_node_without_an_app(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "node", "--role", "supervise") as node:
        await node.ready()
        os.kill(node.pid, signal.SIGHUP)
        await asyncio.sleep(0.3)
        assert (await node.status())["is_ready"]


async def test_a_node_whose_lines_nobody_reads_goes_on(tmp_path: Path) -> None:
    """As under `rota up` that somebody stopped with Ctrl-Z."""
    from tests.kit.cli import ROTA

    (tmp_path / "app.py").write_text(APP)
    reading, writing = os.pipe()
    argv = [
        ROTA,
        "node",
        "--store",
        f"sqlite:///{tmp_path}/rota.db",
        "--data",
        tmp_path / "data",
        "--log-level",
        "debug",
    ]
    process = await asyncio.create_subprocess_exec(
        *map(str, argv), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", str(tmp_path / "app.py"), stderr=writing
    )
    os.set_blocking(writing, False)
    try:
        node = NodeUnderTest.__new__(NodeUnderTest)
        node.data = tmp_path / "data"
        await eventually((tmp_path / "data" / "control.sock").exists)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                os.write(writing, b"x" * 4096)  # what fills the pipe to the brim
            except BlockingIOError:
                break
        for _ in range(3):
            await node.status()
            os.kill(process.pid, signal.SIGHUP)
            await asyncio.sleep(0.2)
        await node.status()
    finally:
        process.kill()
        await process.wait()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("limit", [40])
async def test_running_out_of_descriptors_costs_workers_not_the_node(tmp_path: Path, limit: int) -> None:
    import resource

    app = APP.replace("groups={1: 2}", "groups={1: 40}")
    node = NodeUnderTest(tmp_path / "node", app=app)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    node._argv = ["sh", "-c", f'ulimit -n {limit + 30} && exec "$0" "$@"', *node._argv]
    with node:
        await eventually(lambda: "Too many open files" in node.complaint() or not node.is_running, within=30)
        assert node.is_running, node.complaint()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    await eventually(lambda: not node.leftovers())


async def test_more_saved_states_than_a_channel_holds_outlive_reload_rollback_and_kill_9(tmp_path: Path) -> None:
    async with running(tmp_path, app=KEEPING) as node:
        await keep_states(node, count=150, size=240_000)


async def test_a_task_alone_that_dies_starts_again_with_what_it_saved(tmp_path: Path) -> None:
    async with running(tmp_path, app=KEEPING.replace("(start_within", "(exclusive=True, start_within")) as node:
        await node.assign("keeper", ["x"], exclusive=True, size=10)
        for life in range(3):
            wanted = ["start", "x", str(life), "10" if life else "0"]
            await eventually(lambda wanted=wanted: wanted in node.notes())
            status = await node.until(lambda now: now["work"]["tasks_running"] == 1)
            (pid,) = workers(status, "task:")
            os.kill(pid, signal.SIGKILL)
            await node.until(lambda now, pid=pid: pid not in workers(now, "task:"))


async def test_tasks_alone_that_fail_at_once_or_die_are_given_back_with_the_reason(tmp_path: Path) -> None:
    async with running(tmp_path, app=SLOW_TO_STOP) as node:
        await node.assign("away", ["x"], exclusive=True)
        await node.assign("gone", ["x"], exclusive=True)
        await node.assign("dying", ["x"])
        async with open_store(node.store) as store:
            for kind, why in {"away": "the camera", "gone": 'no resource "gone"', "dying": "exit code 3"}.items():
                key = keys.trouble(kind, "x", NodeId(node.name))
                entry = await eventually(lambda key=key: store.get(key))
                assert why in codec.decode(Trouble, entry.value).why
                assert await store.get(f"{keys.assignments(NodeId(node.name))}{kind}/x#0") is None


BOMB = (
    APP
    + """

@app.resource(start_within="1h")
async def bomb(task: rota.Task) -> None:
    await asyncio.sleep(0.1)
    note("bang", os.getpid())
    os.kill(os.getpid(), 11) if task.spec.get("how") == "segfault" else os._exit(7)
"""
)


async def test_a_task_that_ends_its_shared_host_again_and_again_is_set_apart_and_given_back(tmp_path: Path) -> None:
    async with running(tmp_path, app=BOMB) as node:
        rooms = [str(number) for number in range(20)]
        await node.assign("room", rooms)
        await node.until(lambda now: now["work"]["tasks_running"] == 20)
        await node.assign("bomb", ["x"], how="segfault")
        async with open_store(node.store) as store:
            entry = await eventually(lambda: store.get(keys.trouble("bomb", "x", NodeId(node.name))), within=60)
            assert "SIGSEGV" in codec.decode(Trouble, entry.value).why
        assert "set_apart" in node.complaint()
        await node.until(lambda now: now["work"]["tasks_running"] == 20)
        starts = Counter(words[1] for words in node.notes() if words[0] == "start")
        bangs = sum(words[0] == "bang" for words in node.notes())
        # Two deaths of the shared host, and one of a portion; the others were those of the bomb alone.
        assert bangs >= 2 + 1 + RestartPolicy().loop_after
        assert max(starts.values()) <= 1 + 2 + 1
        assert sum(count <= 1 + 2 for count in starts.values()) >= 20 - 2
        assert node.rota("reload").code == 0


async def test_code_that_was_gone_back_to_outlives_kill_9_of_the_node_and_of_its_loader_until_a_reload(
    tmp_path: Path,
) -> None:
    with_helper = APP + "\nimport helper\n\n@app.on_worker_start\ndef say():\n    note('version', helper.VERSION)\n"
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "helper.py").write_text("VERSION = 1\n")

    async def versions_after(node: NodeUnderTest, since: int) -> set[str]:
        return {words[1] for words in node.notes()[since:] if words[0] == "version"}

    async with running(tmp_path, app=with_helper) as node:
        first = (await node.status())["work"]["code"]
        (folder / "helper.py").write_text("VERSION = 2\n")
        assert node.rota("reload").code == 0
        second = (await node.status())["work"]["code"]
        assert second != first
        node.app.write_text("def broken(:\n")
        answer = node.rota("rollback")
        assert (answer.code, "this code is kept" in answer.err) == (0, True)
        status = await node.until(lambda now: now["work"]["is_rolled_back"])
        assert status["work"]["code"] == first

        os.kill(loader(status), signal.SIGKILL)
        await node.until(lambda now: loader(now) not in (0, loader(status)))
        node.kill()
        count = len(node.notes())
        node.start()
        status = await node.ready()
        assert (status["work"]["code"], status["work"]["is_rolled_back"]) == (first, True)
        assert await versions_after(node, count) == {"1"}
        assert "the code that was gone back to is loaded" in node.complaint()

        node.app.write_text("def broken_otherwise(:\n")
        node.kill()
        node.start()
        status = await node.ready()
        assert (status["work"]["code"], status["work"]["is_rolled_back"]) == (first, True), "rather than nothing"
        assert node.rota("reload").code != 0, "the file is broken"
        assert (await node.status())["work"]["is_rolled_back"]
        node.app.write_text(with_helper)
        assert node.rota("reload").code == 0
        status = await node.status()
        assert (status["work"]["code"], status["work"]["is_rolled_back"]) == (second, False)
        (folder / "helper.py").write_text("VERSION = 3\n")
        assert node.rota("rollback").code == 0
        assert (await node.status())["work"]["code"] == first
        (folder / "helper.py").write_text("VERSION = 4\n")  # put right by hand, and the node is started anew
        node.kill()
        count = len(node.notes())
        node.start()
        assert not (await node.ready())["work"]["is_rolled_back"]
        assert await versions_after(node, count) == {"4"}
