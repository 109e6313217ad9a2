"""A real node whose app is confined: canaries are found nowhere, limits hold, and the app is somebody else."""

import json
import os
import pwd
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from rota.model import keys
from rota.store import open_store
from tests.kit.cli import rota
from tests.kit.node import NodeUnderTest, title
from tests.kit.node import loader as loader_of
from tests.kit.waiting import eventually

CANARY = "canary-in-a-secret-4711"

APP = """
import json, os, resource
import rota

app = rota.App("confined")


def told():
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return {
        "environ": dict(os.environ), "uid": os.getuid(), "groups": os.getgroups(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE), "data": resource.getrlimit(resource.RLIMIT_DATA),
        "cpu": resource.getrlimit(resource.RLIMIT_CPU), "no_new_privileges": lines["NoNewPrivs"].strip(),
    }


AT_IMPORT = told()


@app.job()
def look(run: rota.Run) -> None:
    print(json.dumps([AT_IMPORT, told()]))


@app.job(process=True)
def alone(run: rota.Run) -> None:
    print(json.dumps([AT_IMPORT, told()]))


@app.job(process=True)
def spin(run: rota.Run) -> None:
    while True:
        pass


@app.job(process=True)
def swell(run: rota.Run) -> None:
    kept = bytearray(2 ** 30)


@app.job()
def peek(run: rota.Run) -> None:
    os.listdir(os.path.join(os.path.dirname(__file__), "data"))


app.command("shell", ["sh", "-c", "env; ulimit -n"])
"""


async def are_declared(node: NodeUnderTest) -> None:
    """The leader has written down the jobs of the app; the last it declares is there."""
    async with open_store(node.store) as store:
        await eventually(lambda: store.get(keys.job("shell")))


def ran(node: NodeUnderTest, job: str) -> tuple[dict[str, Any], str]:
    """A run that is over, and what it printed."""
    answer = rota("jobs", "run", job, "--store", node.store, "-o", "json", cwd=node.folder)
    assert answer.out, answer.err
    view: dict[str, Any] = json.loads(answer.out)
    return view, rota("runs", "logs", view["id"], "--store", node.store, cwd=node.folder).out


async def test_the_app_gets_no_secret_and_no_more_than_its_limits(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(CANARY)
    environ = {
        "ROTA_STORE_PASSWORD": CANARY,
        "FLEET_TOKEN": f"rota_{CANARY}",
        "ROTA_RELAY_SINK": f"memory://{CANARY}",
    }
    limits = ("--max-files", 200, "--max-memory", "900MiB", "--max-cpu", "1s")
    flags = ("--role", "both", "--token", "env:FLEET_TOKEN", *limits)
    with NodeUnderTest(tmp_path / "n", *flags, app=APP, environ=environ) as node:
        await node.ready()
        await are_declared(node)
        for job in ("look", "alone"):
            view, printed = ran(node, job)
            assert view["state"] == "succeeded", (view, printed)
            for told in json.loads(printed):
                assert CANARY not in json.dumps(told["environ"])
                assert (told["files"], told["data"]) == ([200, 200], [900 * 2**20] * 2)
                assert told["no_new_privileges"] == "1"
        assert json.loads(printed)[1]["cpu"] == [1, 2]
        view, printed = ran(node, "shell")
        assert CANARY not in printed
        assert printed.splitlines()[-1] == "200"
        spun, _ = ran(node, "spin")
        assert spun["state"] != "succeeded"
        assert "SIGXCPU" in spun["error"]
        swollen, printed = ran(node, "swell")
        assert swollen["state"] == "failed"
        assert "MemoryError" in swollen["error"] + printed
        for each in node.family():
            assert CANARY not in title(each)
        said = [node.errors.read_text(), node.output.read_text(), json.dumps(await node.status())]
        for words in (("status",), ("nodes",), ("events",), ("audit", "--changes"), ("runs",)):
            said.append(rota(*words, "--store", node.store, cwd=tmp_path).out)
        assert not [each for each in said if CANARY in each]


async def test_the_app_runs_as_another_user_and_cannot_look_into_the_data_folder(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        usual = ("--store", f"sqlite:///{tmp_path}/rota.db", "--data", tmp_path / "data", "app.py")
        refused = rota("node", "--user", "nobody", *usual, cwd=tmp_path)
        assert (refused.code, "start the node as root" in refused.err) == (4, True)
        return
    nobody = pwd.getpwnam("nobody")
    with ExitStack() as up:
        place = Path(up.enter_context(TemporaryDirectory(prefix="rota-confined-")))  # others may not enter pytest's own
        place.chmod(0o755)
        node = up.enter_context(NodeUnderTest(place / "n", "--role", "both", "--user", "nobody", app=APP))
        await node.ready()
        await are_declared(node)
        view, printed = ran(node, "look")
        assert view["state"] == "succeeded", (view, printed)
        for told in json.loads(printed):
            assert told["uid"] == nobody.pw_uid
            assert 0 not in told["groups"]
            assert told["environ"]["USER"] == "nobody"
        view, printed = ran(node, "peek")
        assert view["state"] == "failed"
        assert "PermissionError" in view["error"]
        letters = node.data / "dead-letters"
        assert letters.stat().st_uid == nobody.pw_uid
        loader = psutil.Process(loader_of(await node.status()))
        assert loader.uids().real == nobody.pw_uid
