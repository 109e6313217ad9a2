"""Shells complete names, by asking the fleet that the command line would use."""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kit.cli import ROTA, rota
from tests.kit.door_fleet import DoorFleetUnderTest, door_fleet
from tests.kit.node import APP
from tests.kit.servers import wait_until
from tests.kit.streams import STREAM

PATIENT = """
import sys
from rota.cli.reach import names, remote
from rota.cli.main import main
names.LIMIT, remote.PATIENCE, remote.CONNECT = {limit}, 3600.0, 3600.0
sys.argv[0] = "rota"
main()
"""


def offered(line: str, cwd: Path, environ: dict[str, str], limit: float = 60.0) -> list[str]:
    """What a shell is offered for the last word of a line. A busy machine may need longer than a person would wait."""
    words = line.split(" ")
    asked = {"_ROTA_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", PATIENT.format(limit=limit)], capture_output=True, text=True, cwd=cwd,
        env={**os.environ, **environ, **asked}, timeout=120, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0
    return [each.removeprefix("plain,") for each in done.stdout.split()]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[DoorFleetUnderTest]:
    log, out = f"log://{tmp_path}/clicks", f"parquet://{tmp_path}/out"
    assert rota("log", "create", log, cwd=tmp_path).code == 0
    app = APP + STREAM.format(source=log, sink=out, options="tasks=1")
    async with door_fleet(tmp_path, app) as fleet:
        yield fleet


def test_names_come_from_the_fleet_through_the_doors_and_from_the_store(fleet: DoorFleetUnderTest) -> None:
    for line in ("resources add room/7", "hooks add pager --on node.* -- true"):
        added = fleet.ask(*line.split())
        assert added.code == 0, added.err
    wait_until(lambda: "clicks" in fleet.ask("streams", "ls").out, "the stream")
    run = fleet.ask("jobs", "run", "short").out.split()[0]
    login = fleet.ask("login", fleet.url, "--name", "prod", "--token", "admin")
    assert login.code == 0, login.err
    node = fleet.node.name
    expected = {
        "jobs get sh": ["short"],
        "jobs add x --after lo": ["long"],
        "nodes drain ": [node],
        "events --node ": [node],
        "runs get ": [run],
        "runs ls --job he": ["held"],
        "resources get ": ["room/7"],
        "resources get room/": ["room/7"],
        "resources sync ro": ["room"],
        "why ro": ["room/7"],
        "why job sh": ["short"],
        "streams status ": ["clicks"],
        "hooks rm ": ["pager"],
        "token revoke a-v": ["a-view"],
        "services stat ": ["logic"],
        "status --context ": ["prod"],
        "context use ": ["prod"],
    }
    doors = fleet.environ()
    wrong = {
        line: found
        for line, names in expected.items()
        if (found := offered(f"rota {line}", fleet.folder, doors)) != names
    }
    assert not wrong
    store = {"ROTA_STORE": fleet.node.store, "XDG_CONFIG_HOME": str(fleet.folder)}
    assert offered("rota jobs get sh", fleet.folder, store) == ["short"]
    typed = f"rota jobs get --store {fleet.node.store} sh"
    assert offered(typed, fleet.folder, {"XDG_CONFIG_HOME": str(fleet.folder)}) == ["short"]
    assert offered("rota token revoke a-", fleet.folder, fleet.environ("view")) == [], "that is for admins"


@pytest.mark.parametrize("line", ["jobs get ", "services stat ", "context use ", "why "])
def test_where_there_is_no_fleet_nothing_is_offered(line: str, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert offered(f"rota {line}", tmp_path, home) == []
    gone = {**home, "ROTA_SERVER": "http://127.0.0.1:1", "ROTA_TOKEN": "rota_x"}
    assert offered(f"rota {line}", tmp_path, gone) == []


def test_a_fleet_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    """The limit is all that ends this: the server takes the request and keeps it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {"ROTA_SERVER": f"http://127.0.0.1:{silent.getsockname()[1]}", "ROTA_TOKEN": "rota_x"}
        assert offered("rota jobs get ", tmp_path, environ, limit=0.2) == []


def test_the_program_itself_speaks_the_protocol(tmp_path: Path) -> None:
    asked = {"_ROTA_COMPLETE": "bash_complete", "COMP_WORDS": "rota jobs get ", "COMP_CWORD": "3"}
    done = subprocess.run(
        [ROTA], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), **asked},
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
