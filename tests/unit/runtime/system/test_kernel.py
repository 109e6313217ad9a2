"""What only some systems can do, and the ways that work everywhere; both are tried here with real processes."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rota.runtime.system import kernel
from tests.kit.waiting import eventually

WAYS = pytest.mark.parametrize("portable", ["", "1"], ids=["linux", "portable"])

HOLDER = """
import os, subprocess, sys, time
from rota.runtime.system import kernel
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
kernel.die_with(int(sys.argv[1]))
print(child.pid, flush=True)
if sys.argv[2] == "stuck":
    import re
    re.match(r"(a+)+$", "a" * 60 + "b")
time.sleep(600)
"""


def held(lifeline: int, how: str, portable: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lifeline), how],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[lifeline],
        process_group=0,
        env={**os.environ, "ROTA_PORTABLE": portable},
    )


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


@WAYS
async def test_a_process_and_its_group_end_with_their_lifeline(portable: str) -> None:
    lifeline, ours = os.pipe()
    process = held(lifeline, "idle", portable)
    os.close(lifeline)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert process.poll() is None
    os.close(ours)
    assert process.wait(60) == -signal.SIGKILL
    await eventually(lambda: not is_there(child))
    process.stdout.close()


async def test_no_c_code_keeps_a_process_from_ending_with_its_lifeline() -> None:
    lifeline, ours = os.pipe()
    process = held(lifeline, "stuck", "")
    os.close(lifeline)
    assert process.stdout is not None
    process.stdout.readline()
    os.close(ours)
    assert process.wait(60) == -signal.SIGKILL
    process.stdout.close()


@WAYS
def test_a_lifeline_that_was_cut_before_it_was_held_ends_the_process_too(portable: str) -> None:
    lifeline, ours = os.pipe()
    os.close(ours)
    process = held(lifeline, "idle", portable)
    os.close(lifeline)
    assert process.wait(60) == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()


def test_a_handle_does_not_mean_another_process_once_it_is_closed() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    handle = kernel.ProcessHandle(process.pid)
    handle.close()
    handle.send(signal.SIGKILL)
    handle.kill()
    time.sleep(0.05)
    assert process.poll() is None
    process.kill()
    process.wait()


@WAYS
def test_a_handle_kills_a_process_with_its_group(portable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_PORTABLE", portable)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    handle = kernel.ProcessHandle(process.pid)
    assert (handle.fileno() is None) == bool(portable)
    handle.kill()
    assert process.wait(60) == -signal.SIGKILL
    handle.kill()
    handle.close()


@WAYS
def test_a_scratch_file_has_no_place_and_keeps_what_is_written(portable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_PORTABLE", portable)
    fd = kernel.scratch_file("stacks")
    os.write(fd, b"here")
    assert os.pread(fd, 10, 0) == b"here"
    assert os.fstat(fd).st_nlink == 0
    os.close(fd)


def leading(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)


async def test_kin_are_found_in_other_groups_and_sessions_and_never_mistaken() -> None:
    leader = leading("setsid sleep 600 & sh -c 'sleep 600' & echo ready; wait")
    try:
        assert leader.stdout is not None
        leader.stdout.readline()
        await eventually(lambda: len(kernel.kin_of(leader.pid)) >= 3)
        kin = kernel.kin_of(leader.pid)
        assert leader.pid in [each.pid for each in kin]
        assert not kernel.still_there([kernel.Kin(each.pid, each.born - 1) for each in kin])
    finally:
        kernel.signal_kin(leader.pid, kernel.kin_of(leader.pid), signal.SIGKILL)
        leader.wait(60)
        leader.stdout.close()  # type: ignore[union-attr]
    await eventually(lambda: not kernel.still_there(kin))


def test_what_a_child_used_is_told() -> None:
    code = "import sys; held = bytearray(50_000_000); sum(range(2_000_000)); sys.exit(3)"
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
    # Until it executes its program a child shares its parent's memory, and the kernel counts that as the child's peak.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 200_000_000
    ended = kernel._ended(*os.wait4(pid, 0))
    assert (ended.pid, os.waitstatus_to_exitcode(ended.status)) == (pid, 3)
    assert 0 < ended.cpu_seconds < 30
    assert 50_000_000 < ended.peak_memory < most
