"""What process lists show of the processes that the agent starts."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.runtime.loader.processes import LoadTarget, start_process
from rota.runtime.pipes.brief import Attempt, Brief, Emitting
from rota.runtime.system import children, kernel

SECRET = "a-secret-of-somebody"


class Started:
    """Takes down what would have been started."""

    def __init__(self) -> None:
        self.argv: list[str] = []
        self.environ: dict[str, str] = {}
        self.brief = b""

    def popen(self, argv: list[str], **options: Any) -> "Started":
        self.argv, self.environ = argv, options["env"]
        for word in argv:
            if word.startswith("--brief="):
                self.brief = os.read(int(word.partition("=")[2]), 1 << 20)
        return self

    pid = os.getpid()
    returncode = 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started()
    monkeypatch.setattr(subprocess, "Popen", found.popen)
    monkeypatch.setenv("ROTA_STORE_PASSWORD", SECRET)
    monkeypatch.setenv("KEPT", "yes")
    return found


WITHOUT_OUR_CODE = "#!/bin/sh\nexec sleep 1000\n"
"""A process that never comes to watch its lifeline, as one does not while Python starts and imports."""


@pytest.fixture
def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "python"
    script.write_text(WITHOUT_OUR_CODE)
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.delenv("ROTA_PORTABLE", raising=False)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel watches no lifelines")
@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("what", ["loader", "spawned worker", "proxy or relay"])
def test_a_process_that_has_not_come_to_our_code_ends_with_its_agent(what: str) -> None:
    one, other = socket.socketpair()
    attempt = Brief(1, "run", "runs", 0, 1, "a", attempt=Attempt("r", 1, "j"))
    with one, other:
        match what:
            case "loader":
                handle, lifeline = start_process(LoadTarget("app.py", "a"), 1, one.fileno())
            case "spawned worker":
                handle, lifeline = start_process(LoadTarget("app.py", "a"), 1, one.fileno(), 0, attempt)
            case _:
                handle, lifeline = children.start("rota.relay.process.main", one.fileno(), [])
    os.close(lifeline)  # as the kernel does when the agent ends
    _, status = os.waitpid(handle.pid, 0)
    handle.close()
    assert os.WTERMSIG(status) == signal.SIGKILL


def ended(start: Callable[[], tuple[kernel.ProcessHandle, int]]) -> None:
    handle, lifeline = start()
    handle.close()
    os.close(lifeline)


def test_a_spawned_worker_is_told_what_to_do_where_nobody_else_reads_it(started: Started) -> None:
    emitting = Emitting(sink=f"amqp://ann:{SECRET}@host")
    attempt = Attempt("r", 1, "j", env={"TOKEN": SECRET}, payload=SECRET.encode())
    brief = Brief(1, "run", "runs", 0, 1, "a", emitting=emitting, attempt=attempt)
    ended(lambda: start_process(LoadTarget("app.py", "a"), 1, 0, 0, brief))
    assert SECRET not in " ".join(started.argv)
    assert SECRET not in started.environ.values()
    assert started.environ["KEPT"] == "yes"
    assert json.loads(started.brief)["emitting"]["sink"] == emitting.sink


def test_proxies_and_the_relay_get_no_settings_of_rotas(started: Started) -> None:
    one, other = socket.socketpair()
    with one, other:
        ended(lambda: children.start("rota.relay.process.main", one.fileno(), []))
    assert SECRET not in started.environ.values()
    assert started.environ["KEPT"] == "yes"
