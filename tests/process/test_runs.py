"""Attempts as real processes: how they end, what is left of them, and what is kept of what they said."""

import asyncio
import base64
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from rota.jobs.core.records import RunState
from tests.kit.node import is_gone, title
from tests.kit.runs import LOG_BYTES, RunsProcess, runs_process
from tests.kit.waiting import eventually

APP = """
import asyncio, ctypes, os, subprocess, sys, time
import rota

app = rota.App("runs")
HERE = os.path.dirname(__file__)


def note(*words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


@app.job()
def noop(run): pass

@app.job()
def noted(run): note("did", run.id)

@app.job()
def say(run):
    print("printed")
    run.log.info("logged")
    subprocess.run(["echo", "said by a program"])
    print("to stderr", file=sys.stderr)

@app.job()
def echo(run): print(run.id)

@app.job()
def short(run):
    note("begin", run.id)
    time.sleep(0.001)
    note("end", run.id)

@app.job()
def sometimes_long(run):
    note("begin", run.id)
    while run.id.startswith("long") and not os.path.exists(os.path.join(HERE, "gate")):
        time.sleep(0.01)
    note("end", run.id)

@app.job()
def deadly(run):
    note("begin", run.id)
    if run.id == "victim":
        note("pid", os.getpid())
        time.sleep(60)
    note("end", run.id)

@app.job()
def waits(run):
    note("pid", os.getpid())
    print("waiting", flush=True)
    run.stopping.wait()
    print("put in order")

@app.job()
async def async_waits(run):
    note("pid", os.getpid())
    try:
        await asyncio.sleep(600)
    finally:
        print("cancelled in order")

@app.job()
def stubborn(run):
    note("pid", os.getpid())
    time.sleep(600)

@app.job()
def exits(run): sys.exit(3)

@app.job()
def says_why(run): sys.exit("no database")

@app.job()
def hard_exit(run):
    print("last words", flush=True)
    os._exit(4)

@app.job()
def crashes(run):
    print("last words", flush=True)
    ctypes.string_at(0)

@app.job()
def raises(run): raise ValueError("wrong " + "x" * 100_000)

@app.job()
def spends(run):
    held = bytearray(60_000_000)
    until = time.process_time() + 0.3
    while time.process_time() < until: pass

@app.job()
def floods(run):
    for number in range(100):
        os.write(1, b"%06d\\n" % number + bytes(999_993))

@app.job()
def binary(run): sys.stdout.buffer.write(bytes(range(256)) * 10)

@app.job()
def unblocks(run):
    os.set_blocking(1, False)
    try:
        while True: os.write(1, bytes(65536))
    except BlockingIOError:
        pass

@app.job()
def told(run): print(run.payload, run.token, run.due, run.attempt)
"""

TREE = """
trap 'echo parent asked' TERM
setsid sh -c 'trap "" TERM; echo $$ >> pids; echo away; while :; do sleep 0.1; done' &
sh -c 'trap "" TERM
    echo $$ >> pids
    sh -c "trap : TERM; echo \\$\\$ >> pids; while :; do sleep 0.1; done" &
    while :; do sleep 0.1; done' &
echo $$ >> pids
while :; do sleep 0.1; done
"""

BOTH = pytest.mark.parametrize("mode", ["warm", "process"])


def notes(folder: Path) -> list[list[str]]:
    file = folder / "notes"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def noted_pid(folder: Path) -> int:
    found = await eventually(lambda: [words for words in notes(folder) if words[0] == "pid"])
    return int(found[-1][1])


async def accepted(runs: RunsProcess, names: list[str], job: str) -> list[str]:
    """Start runs, and those of them that were not refused; how many depends on how long the job takes here."""
    answers = await runs.start_many(names, job)
    return [name for name, why in zip(names, answers, strict=True) if not why]


async def several(runs: RunsProcess, job: str, least: int) -> list[str]:
    """Runs that one start gave to the executors, at least so many.

    Executors hold several when the job has been short; where the machine was busy with something else it was not, so
    this tries again.
    """
    for turn in range(50):
        for number in range(20):
            assert await runs.start(f"warm-{turn}-{number}", job) == ""
            await runs.outcome(f"warm-{turn}-{number}")
        found = await accepted(runs, [f"run-{turn}-{number}" for number in range(8)], job)
        if len(found) >= least:
            return found
        for name in found:
            await runs.outcome(name)
    raise AssertionError(f"no executor ever held {least} of {job}")


@BOTH
async def test_what_an_attempt_says_is_kept_with_it(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP) as runs:
        assert await runs.start("r", "say", mode=mode) == ""
        outcome = await runs.outcome("r")
        log = await runs.log("r")
        assert (outcome.state, outcome.error, outcome.log_bytes) == (RunState.SUCCEEDED, "", len(log))
        for words in (b"printed", b"logged", b"said by a program", b"to stderr"):
            assert words in log
        assert await runs.logs.is_whole("r", 1)


async def test_many_attempts_of_one_executor_keep_their_output_apart(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, executors=1) as runs:
        for name in await several(runs, "echo", least=2):
            await runs.outcome(name)
            assert await runs.log(name) == name.encode() + b"\n"


@BOTH
async def test_a_run_finds_what_it_was_given(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP) as runs:
        payload = base64.b64encode(b'{"a":[1]}').decode()
        await runs.start("r", "told", mode=mode, payload=payload, epoch=77, due="2026-01-01T00:00:00Z")
        await runs.outcome("r")
        assert await runs.log("r") == b"{'a': [1]} 77 2026-01-01 00:00:00+00:00 1\n"


@BOTH
@pytest.mark.parametrize(
    ("job", "state", "code", "error"),
    [
        pytest.param("exits", RunState.FAILED, 3, "exit code 3", id="sys.exit"),
        pytest.param("says_why", RunState.FAILED, 1, "no database", id="sys.exit with words"),
        pytest.param("hard_exit", RunState.FAILED, 4, "exit code 4", id="os._exit"),
        pytest.param("crashes", RunState.FAILED, -signal.SIGSEGV, "killed by SIGSEGV", id="segfault"),
    ],
)
async def test_how_a_function_ends_is_told(
    tmp_path: Path, mode: str, job: str, state: RunState, code: int, error: str
) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("r", job, mode=mode)
        outcome = await runs.outcome("r")
        assert (outcome.state, outcome.exit_code, outcome.error) == (state, code, error)
        if job in ("hard_exit", "crashes"):
            assert await runs.log("r") == b"last words\n"
        assert await runs.start("next", "noop") == ""
        assert (await runs.outcome("next")).state == RunState.SUCCEEDED, "nothing else is affected"


async def test_an_error_of_any_length_is_told_and_its_traceback_is_in_the_log(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("r", "raises")
        outcome = await runs.outcome("r")
        assert outcome.state == RunState.FAILED
        assert outcome.error.startswith("ValueError: wrong xxx")
        assert b"in raises" in await runs.log("r")


async def test_starting_twice_is_once_and_an_older_epoch_is_refused(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP) as runs:
        assert await runs.start("r", "noted", epoch=5) == ""
        assert await runs.start("r", "noted", epoch=5) == ""
        await runs.outcome("r")
        assert await runs.start("r", "noted", epoch=5) == "", "also when it is over"
        assert "epoch 4 of it is over, the present one is 5" in await runs.start("r", "noted", epoch=4)
        await runs.start("last", "noop")
        await runs.outcome("last")
        assert notes(tmp_path) == [["did", "r"]]


async def test_what_cannot_be_run_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, executors=1) as runs:
        assert await runs.start("a", "nothing") == 'this node\'s app has no job "nothing"'
        missing = await runs.start("b", "x", argv=["no-such-program"])
        assert (
            missing == 'this node has no program "no-such-program"; install it there, or label the nodes that have it'
        )
        assert "has no folder /no/such" in await runs.start("c", "x", argv=["true"], cwd="/no/such")
        assert await runs.start("d", "waits") == ""
        assert await runs.start("e", "noop") == "all 1 executors are taken"
        assert await runs.ask("figures") == {"free": 0, "running": ["d"], "size": 1}
        assert await runs.ask("interrupt", "d", 1, "enough")
        await runs.outcome("d")
        await runs.ask("end session")
        assert "not in the fleet" in await runs.start("f", "noop")


async def test_a_command_is_run_without_a_shell_and_knows_which_attempt_it_is(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP) as runs:
        script = 'echo "$RUN_TOKEN $ROTA_RUN $ROTA_JOB $ROTA_ATTEMPT $ROTA_DUE $OWN $1"; pwd; echo err >&2; exit 7'
        argv = ["sh", "-c", script, "sh", "; $(not run)"]
        due = "2026-01-01T00:00:00Z"
        more = {"env": {"OWN": "mine"}, "cwd": str(tmp_path), "due": due, "epoch": 9}
        assert await runs.start("cmd/1", "cmd", argv=argv, **more) == ""
        outcome = await runs.outcome("cmd/1")
        assert (outcome.state, outcome.exit_code, outcome.error) == (RunState.FAILED, 7, "exit code 7")
        line = "9 cmd/1 cmd 1 2026-01-01T00:00:00+00:00 mine ; $(not run)"
        assert (await runs.log("cmd/1")).decode() == f"{line}\n{tmp_path}\nerr\n"
        assert await runs.start("cmd/2", "cmd", argv=["true"]) == ""
        assert (await runs.outcome("cmd/2")).state == RunState.SUCCEEDED


@BOTH
@pytest.mark.parametrize("job", ["waits", "async_waits"])
async def test_an_interrupted_function_puts_things_in_order(tmp_path: Path, mode: str, job: str) -> None:
    async with runs_process(tmp_path, APP, grace="30") as runs:
        await runs.start("r", job, mode=mode)
        pid = await noted_pid(tmp_path)
        assert await runs.ask("interrupt", "r", 1, "somebody asked")
        outcome = await runs.outcome("r")
        assert (outcome.state, outcome.error) == (RunState.INTERRUPTED, "somebody asked")
        assert is_gone(pid)
        assert b"in order" in await runs.log("r")
        assert not await runs.ask("interrupt", "r", 1, "again"), "it is over"


@BOTH
async def test_a_function_that_does_not_stop_is_killed_after_the_grace(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("r", "stubborn", mode=mode)
        pid = await noted_pid(tmp_path)
        began = time.monotonic()
        assert await runs.ask("interrupt", "r", 1, "somebody asked")
        outcome = await runs.outcome("r")
        assert outcome.state == RunState.INTERRUPTED
        assert time.monotonic() - began >= 1.0
        assert is_gone(pid)


async def test_a_whole_tree_that_traps_term_is_gone_when_its_run_is_shown_as_interrupted(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, grace="2") as runs:  # in which its shell must have its turn
        assert await runs.start("r", "tree", argv=["sh", "-c", TREE], cwd=str(tmp_path)) == ""
        pids = await _pids(tmp_path, 4)
        assert await runs.ask("interrupt", "r", 1, "enough")
        outcome = await runs.outcome("r")
        assert all(map(is_gone, pids))
        assert outcome.state == RunState.INTERRUPTED
        log = await runs.log("r")
        assert b"away" in log
        assert b"parent asked" in log


@BOTH
async def test_an_attempt_that_takes_too_long_is_timed_out(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP, grace="30") as runs:
        await runs.start("r", "waits", mode=mode, timeout="PT1.5S")  # in which it must have begun
        outcome = await runs.outcome("r")
        assert (outcome.state, outcome.error) == (RunState.TIMED_OUT, "it took longer than 1s500ms")
        assert outcome.seconds >= 1.5
        assert b"put in order" in await runs.log("r")


async def test_only_the_attempt_of_a_killed_executor_is_lost_and_none_is_done_twice(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, executors=1) as runs:
        for number in range(20):
            await runs.start(f"before-{number}", "deadly")
            await runs.outcome(f"before-{number}")
        names = await accepted(runs, ["victim", "one", "two", "three", "four", "five"], "deadly")
        os.kill(await noted_pid(tmp_path), signal.SIGKILL)
        outcomes = {name: (await runs.outcome(name)).state for name in names}
        assert outcomes.pop("victim") == RunState.LOST
        assert set(outcomes.values()) == {RunState.SUCCEEDED}
        begun = [words[1] for words in notes(tmp_path) if words[0] == "begin" and words[1] in names]
        assert sorted(begun) == sorted(names), "each began once"


async def test_none_waits_behind_one_that_turns_out_to_be_long(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, executors=2) as runs:
        for number in range(20):
            await runs.start(f"before-{number}", "sometimes_long")
            await runs.outcome(f"before-{number}")
        names = await accepted(runs, ["long", *(f"short-{number}" for number in range(12))], "sometimes_long")
        assert len(names) >= 2, "at least one for each executor"
        for name in names[1:]:
            await runs.outcome(name)
        assert not runs.is_over("long")
        (tmp_path / "gate").touch()
        await runs.outcome("long")
        begun = [words[1] for words in notes(tmp_path) if words[0] == "begin"]
        assert len(begun) == len(set(begun))


async def test_interrupting_one_that_waits_leaves_the_others_alone(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, executors=1) as runs:
        *others, last = await several(runs, "short", least=2)
        was_stopped = await runs.ask("interrupt", last, 1, "not needed")
        states = {name: (await runs.outcome(name)).state for name in (*others, last)}
        assert others
        assert states.pop(last) == (RunState.INTERRUPTED if was_stopped else RunState.SUCCEEDED)
        assert set(states.values()) == {RunState.SUCCEEDED}
        begun = [words[1] for words in notes(tmp_path) if words[0] == "begin"]
        assert len(begun) == len(set(begun))


async def test_output_without_end_is_bounded_and_the_middle_is_counted(tmp_path: Path) -> None:
    """100 MB; while they come, others are answered."""
    async with runs_process(tmp_path, APP, executors=2) as runs:
        await runs.start("flood", "floods")
        while not runs.is_over("flood"):
            before = time.monotonic()
            await runs.ask("figures")
            assert time.monotonic() - before < 60, "nobody waits until the flood is over"
        outcome = await runs.outcome("flood")
        assert outcome.state == RunState.SUCCEEDED
        log = await runs.log("flood")
        assert len(log) == outcome.log_bytes < LOG_BYTES * 5 // 4 + 300
        assert log.startswith(b"000000\n")
        assert f"[rota: {100_000_000 - LOG_BYTES} bytes are left out here]".encode() in log


async def test_output_of_any_bytes_comes_back_as_it_was(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("r", "binary")
        await runs.outcome("r")
        assert await runs.log("r") == bytes(range(256)) * 10


@BOTH
async def test_an_answer_waits_for_room_whatever_the_attempt_made_of_its_pipe(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP) as runs:
        for number in range(5):
            await runs.start(f"r{number}", "unblocks", mode=mode)
            assert (await runs.outcome(f"r{number}")).state == RunState.SUCCEEDED


@BOTH
async def test_what_an_attempt_used_is_told(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("r", "spends", mode=mode)
        outcome = await runs.outcome("r")
        assert 0.25 < outcome.cpu_seconds < 10
        assert 60_000_000 < outcome.peak_memory < 500_000_000
        assert outcome.seconds >= 0.25
        assert outcome.started is not None


@BOTH
async def test_a_reload_does_not_end_what_runs(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP, grace="30") as runs:
        await runs.start("r", "waits", mode=mode)
        pid = await noted_pid(tmp_path)
        (tmp_path / "app.py").write_text(APP.replace("def noop(run): pass", "def noop(run): print('new code')"))
        assert await runs.ask("reload") == 2
        assert await runs.ask("reload") == 3, "also when its loader is gone"
        assert not is_gone(pid)
        await runs.start("new", "noop")
        await runs.outcome("new")
        assert await runs.log("new") == b"new code\n"
        assert await runs.ask("interrupt", "r", 1, "enough")
        assert (await runs.outcome("r")).state == RunState.INTERRUPTED
        assert b"put in order" in await runs.log("r")


@BOTH
async def test_attempts_die_with_the_session(tmp_path: Path, mode: str) -> None:
    async with runs_process(tmp_path, APP, grace="30") as runs:
        await runs.start("r", "stubborn", mode=mode)
        pid = await noted_pid(tmp_path)
        await runs.ask("end session")
        outcome = await runs.outcome("r")
        assert (outcome.state, outcome.error) == (RunState.LOST, "its node's session ended")
        assert is_gone(pid)


@pytest.mark.parametrize("more", [{"mode": "warm"}, {"mode": "process"}, {"argv": ["sleep", "600"]}])
async def test_attempts_end_before_the_lease_does_if_the_agent_is_frozen(
    tmp_path: Path, more: dict[str, object]
) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("r", "stubborn", **more)
        worker = await eventually(lambda: _busy_worker(runs, "argv" in more or more.get("mode") == "process"))
        await runs.ask("lease", 1.0)
        os.kill(runs.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: is_gone(worker))
        finally:
            os.kill(runs.pid, signal.SIGCONT)


def _warden(runs: RunsProcess) -> psutil.Process | None:
    return next((each for each in _family(runs) if "warden" in title(each)), None)


def _family(runs: RunsProcess) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(runs.pid).children(recursive=True)
    return found


async def test_attempts_end_before_the_lease_does_though_their_first_warden_was_killed(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("first", "noop", mode="process")
        assert (await runs.outcome("first")).state == RunState.SUCCEEDED
        first = await eventually(lambda: _warden(runs))
        first.kill()
        await eventually(lambda: is_gone(first.pid))
        await runs.start("r", "stubborn", mode="process")
        worker = await noted_pid(tmp_path)
        await runs.ask("lease", 1.0)
        os.kill(runs.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: is_gone(worker))
        finally:
            os.kill(runs.pid, signal.SIGCONT)


async def test_processes_of_attempts_share_one_warden_which_leaves_with_the_node(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, executors=4) as runs:
        for run in "abc":
            await runs.start(run, "waits", mode="process")
        await eventually(lambda: len(notes(tmp_path)) == 3)
        family = [title(each) for each in _family(runs)]
        warden = _warden(runs)
        assert warden is not None
        assert sum("warden" in each for each in family) == 1
        assert not any("guard run" in each for each in family)
        await runs.end()
        await eventually(lambda: is_gone(warden.pid))


async def _pids(folder: Path, count: int) -> list[int]:
    file = folder / "pids"
    found = await eventually(lambda: file.exists() and len(said := file.read_text().split()) == count and said)
    return [int(pid) for pid in found]


@pytest.mark.variants
@pytest.mark.parametrize("portable", ["", "1"])
async def test_a_program_that_closes_what_it_does_not_know_ends_before_the_lease_does(
    tmp_path: Path, portable: str
) -> None:
    script = "import os, time; os.closerange(3, 512); print(os.getpid(), file=open('pids', 'w')); time.sleep(600)"
    async with runs_process(tmp_path, APP, ROTA_PORTABLE=portable) as runs:
        assert await runs.start("r", "closes", argv=[sys.executable, "-c", script], cwd=str(tmp_path)) == ""
        (pid,) = await _pids(tmp_path, 1)
        await runs.ask("lease", 1.0)
        os.kill(runs.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: is_gone(pid))
        finally:
            os.kill(runs.pid, signal.SIGCONT)


async def test_a_program_that_closes_what_it_does_not_know_ends_with_the_agent(tmp_path: Path) -> None:
    script = "import os, time; os.closerange(3, 512); print(os.getpid(), file=open('pids', 'w')); time.sleep(600)"
    async with runs_process(tmp_path, APP) as runs:
        assert await runs.start("r", "closes", argv=[sys.executable, "-c", script], cwd=str(tmp_path)) == ""
        (pid,) = await _pids(tmp_path, 1)
        os.kill(runs.pid, signal.SIGKILL)
        await eventually(lambda: is_gone(pid))


async def test_a_whole_tree_ends_before_the_lease_does_if_the_agent_is_frozen(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP) as runs:
        assert await runs.start("r", "tree", argv=["sh", "-c", TREE], cwd=str(tmp_path)) == ""
        pids = await _pids(tmp_path, 4)
        await runs.ask("lease", 1.0)
        os.kill(runs.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: all(map(is_gone, pids)))
        finally:
            os.kill(runs.pid, signal.SIGCONT)


@BOTH
async def test_attempts_are_stopped_if_the_lease_is_not_renewed_and_idle_executors_live_on(
    tmp_path: Path, mode: str
) -> None:
    async with runs_process(tmp_path, APP) as runs:
        await runs.start("r", "waits", mode=mode)
        pid = await noted_pid(tmp_path)
        await runs.ask("lease", 0.2, 1.5)
        outcome = await runs.outcome("r")
        assert (outcome.state, outcome.error) == (RunState.LOST, "its node's lease could not be renewed")
        assert is_gone(pid)
        assert "not in the fleet now" in await runs.start("s", "noop")
        idle = await eventually(lambda: _busy_worker(runs, is_alone=False))
        await asyncio.sleep(2)  # long past the instant at which guards end what they guard
        assert not is_gone(idle)
        await runs.ask("lease", 3600)
        assert await runs.start("t", "noop") == ""
        assert (await runs.outcome("t")).state == RunState.SUCCEEDED


async def _busy_worker(runs: RunsProcess, is_alone: bool) -> int | None:
    workers = await runs.ask("processes")
    found = [each["pid"] for each in workers if each["pool"] == ("run" if is_alone else "executor")]
    return found[0] if found else None


async def test_a_stopping_node_stops_its_attempts_in_order(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, grace="30") as runs:
        for run, more in {"a": {"mode": "warm"}, "b": {"mode": "process"}}.items():
            await runs.start(run, "waits", **more)
        await eventually(lambda: len(notes(tmp_path)) == 2)
        await runs.end()
        for run in "ab":
            assert (await runs.outcome(run)).state == RunState.INTERRUPTED
            assert b"put in order" in await runs.log_as_it_is(run)


async def test_it_works_without_what_only_linux_can_do(tmp_path: Path) -> None:
    async with runs_process(tmp_path, APP, executors=4, ROTA_PORTABLE="1") as runs:
        await asyncio.gather(
            runs.start("warm", "say"), runs.start("process", "say", mode="process"), runs.start("c", "c", argv=["true"])
        )
        for run in ("warm", "process", "c"):
            assert (await runs.outcome(run)).state == RunState.SUCCEEDED
        await runs.start("r", "stubborn", mode="process")
        pid = await noted_pid(tmp_path)
        assert await runs.ask("interrupt", "r", 1, "enough")
        assert (await runs.outcome("r")).state == RunState.INTERRUPTED
        assert is_gone(pid)
