"""What process lists show of the processes that the agent starts."""

import json
import os
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from rota.node import children, kernel
from rota.node.loaders import Target, start_process
from rota.node.pipes import Attempt, Brief, Emitting

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


def ended(start: Callable[[], tuple[kernel.Handle, int]]) -> None:
    handle, lifeline = start()
    handle.close()
    os.close(lifeline)


def test_a_spawned_worker_is_told_what_to_do_where_nobody_else_reads_it(started: Started) -> None:
    emitting = Emitting(sink=f"amqp://ann:{SECRET}@host")
    attempt = Attempt("r", 1, "j", env={"TOKEN": SECRET}, payload=SECRET.encode())
    brief = Brief(1, "run", "runs", 0, 1, "a", emitting=emitting, attempt=attempt)
    ended(lambda: start_process(Target("app.py", "a"), 1, 0, 0, brief))
    assert SECRET not in " ".join(started.argv)
    assert SECRET not in started.environ.values()
    assert started.environ["KEPT"] == "yes"
    assert json.loads(started.brief)["emitting"]["sink"] == emitting.sink


def test_proxies_and_the_relay_get_no_settings_of_rotas(started: Started) -> None:
    one, other = socket.socketpair()
    with one, other:
        ended(lambda: children.start("rota.node.relay.main", one, []))
    assert SECRET not in started.environ.values()
    assert started.environ["KEPT"] == "yes"
