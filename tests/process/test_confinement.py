"""A real node whose app is confined: canaries are found nowhere, limits hold, and the app is somebody else."""

import json
import os
import pwd
import stat
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from rota.model import keys
from rota.model.config import CommandsConfig
from rota.runtime.system.confine import Commands, Confinement, find_commands
from rota.sources import NewRecord
from rota.store import open_store
from tests.kit.cli import rota
from tests.kit.node import NodeUnderTest, is_gone, title
from tests.kit.node import loader as loader_of
from tests.kit.process import ROOT
from tests.kit.stream_places import TrialLog
from tests.kit.streams import APP as STREAM_APP
from tests.kit.waiting import eventually

UNIT = ROOT / "deploy/systemd/user.conf"
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
        "core": resource.getrlimit(resource.RLIMIT_CORE), "processes": resource.getrlimit(resource.RLIMIT_NPROC),
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
def pry(run: rota.Run) -> None:
    here = os.path.dirname(__file__)
    places = [here, *(os.path.join(here, "data", name) for name in ("", "relay", "stacks", "logs", "spool"))]
    names = "rota.db rota.db-wal rota.db-shm home node lock token control.sock logs dead-letters".split()
    found = {}
    for place in places:
        try:
            listed = os.listdir(place)
        except OSError:
            listed = []
        for name in {*names, *listed}:
            path = os.path.join(place, name)
            try:
                with open(path, "rb") as file:
                    found[path] = file.read().decode(errors="replace").count("canary-in-a-secret")
            except IsADirectoryError:
                pass
            except OSError as error:
                if error.errno not in (2, 13, 6):
                    found[path] = str(error)
    print(json.dumps(found))


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


def is_refused(tmp_path: Path) -> bool:
    """Whoever is not root cannot run the app as another user, and is told so; True if that is us."""
    if os.geteuid() == 0:
        return False
    usual = ("--store", f"sqlite:///{tmp_path}/rota.db", "--data", tmp_path / "data", "app.py")
    refused = rota("node", "--user", "nobody", *usual, cwd=tmp_path)
    assert (refused.code, "start the node as root" in refused.err) == (4, True)
    return True


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
    if is_refused(tmp_path):
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
        assert stat.S_IMODE(node.data.stat().st_mode) == 0o700
        letters = node.data / "dead-letters"
        assert letters.stat().st_uid == nobody.pw_uid
        loader = psutil.Process(loader_of(await node.status()))
        assert loader.uids().real == nobody.pw_uid


@pytest.mark.parametrize("place", ["n/data/rota.db", "n/rota.db"])
async def test_another_user_can_read_nothing_of_the_nodes_however_well_it_guesses(tmp_path: Path, place: str) -> None:
    if is_refused(tmp_path):
        return
    with ExitStack() as up:
        folder = Path(up.enter_context(TemporaryDirectory(prefix="rota-confined-")))
        folder.chmod(0o755)
        up.callback(os.umask, os.umask(0))  # nothing hangs on what the node was started with
        store = f"sqlite:///{folder / place}"
        node = up.enter_context(NodeUnderTest(folder / "n", "--role", "both", "--user", "nobody", app=APP, store=store))
        await node.ready()
        await are_declared(node)
        hook = ("hooks", "add", "pager", "--on", "node.*", "--url", f"https://example.com/{CANARY}", "--store", store)
        assert rota(*hook, cwd=node.folder).code == 0
        view, printed = ran(node, "pry")
        assert view["state"] == "succeeded", (view, printed)
        found = json.loads(printed)
        own = {str(node.app), str(node.output), str(node.errors)}
        assert {path: seen for path, seen in found.items() if path not in own and "__pycache__" not in path} == {}
        kept = [node.data, *node.data.rglob("*"), *node.folder.glob("rota.db*")]
        assert [str(each) for each in kept if each.stat().st_mode & 0o077] == []


async def test_the_app_of_another_user_gets_no_variable_that_holds_a_secret_of_the_nodes(tmp_path: Path) -> None:
    if is_refused(tmp_path):
        return
    with ExitStack() as up:
        place = Path(up.enter_context(TemporaryDirectory(prefix="rota-confined-")))
        place.chmod(0o755)
        environ = {
            "MQ_PASSWORD": CANARY,
            "STRIPE_KEY": CANARY,
            "SHARED": "wanted",
            "ROTA_RELAY_SINK": f"file://{place}/messages?password_env=MQ_PASSWORD",
            "ROTA_ENV_DENY": "STRIPE_*",
            "ROTA_MAX_PROCESSES": "5000",
        }
        flags = ("--role", "both", "--user", "nobody")
        node = up.enter_context(NodeUnderTest(place / "n", *flags, app=APP, environ=environ))
        await node.ready()
        await are_declared(node)
        for job in ("look", "shell"):
            view, printed = ran(node, job)
            assert view["state"] == "succeeded", (view, printed)
            assert CANARY not in printed
            assert "wanted" in printed
        _, printed = ran(node, "look")
        for told in json.loads(printed):
            assert (told["core"], told["processes"]) == ([0, 0], [5000, 5000])


WHO = "id -u; id -G; grep -E 'NoNewPrivs|CapEff' /proc/self/status; pwd; env"


async def test_commands_of_the_api_do_not_run_as_root(tmp_path: Path) -> None:
    """Whoever had a token for admin had root on every node that ran as root."""
    if os.geteuid() != 0:
        assert find_commands(CommandsConfig(), Confinement()) == Commands(), "they run as the node's own user"
        return
    nobody = str(pwd.getpwnam("nobody").pw_uid)
    with ExitStack() as up:
        place = Path(up.enter_context(TemporaryDirectory(prefix="rota-confined-")))
        place.chmod(0o755)
        said = place / "said"
        said.touch()
        said.chmod(0o666)
        environ = {"DB_PASSWORD": CANARY, "LC_CTYPE": "C.UTF-8"}
        node = up.enter_context(NodeUnderTest(place / "n", "--role", "both", app=APP, environ=environ))
        await node.ready()
        await are_declared(node)
        on_store = ("--store", node.store)
        hook = (
            "hooks",
            "add",
            "pager",
            "--on",
            "node.*",
            *on_store,
            "--",
            "sh",
            "-c",
            f"({WHO}) > {said}; cat >> {said}",
        )
        assert rota(*hook, cwd=place).code == 0
        tried = rota("hooks", "test", "pager", *on_store, cwd=place)
        assert tried.code == 0, tried.err
        assert '"hook.test"' in said.read_text(), "it finds the event on its stdin"
        added = rota("jobs", "add", "whoami", *on_store, "--", "sh", "-c", WHO, cwd=place)
        assert added.code == 0, added.err
        view, printed = ran(node, "whoami")
        assert view["state"] == "succeeded", (view, printed)
        for words in (said.read_text(), printed):
            uid, groups, *rest = words.splitlines()
            assert (uid, "0" in groups.split()) == (nobody, False)
            facts = dict(line.split(":\t") for line in rest[:2])
            assert (facts["NoNewPrivs"], int(facts["CapEff"], 16)) == ("1", 0)
            assert rest[2] == "/"
            assert CANARY not in words
            assert "LC_CTYPE=C.UTF-8" in rest
        _, printed = ran(node, "shell")
        assert CANARY in printed, "a command that the app declares is the app's"


CAPABILITIES = {"CHOWN": 0, "DAC_READ_SEARCH": 2, "KILL": 5, "SETGID": 6, "SETUID": 7, "SYS_PTRACE": 19}
LOSE_THE_REST = """
import ctypes, os, sys
kept = {int(number) for number in sys.argv[1].split(",")}
last = int(open("/proc/sys/kernel/cap_last_cap").read())
for number in set(range(last + 1)) - kept:
    ctypes.CDLL(None).prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[2], sys.argv[2:])
"""


async def test_a_node_with_no_more_of_root_than_its_unit_leaves_it_runs_the_app_as_another(tmp_path: Path) -> None:
    if is_refused(tmp_path):
        return
    (line,) = (line for line in UNIT.read_text().splitlines() if line.startswith("CapabilityBoundingSet="))
    kept = [CAPABILITIES[name.removeprefix("CAP_")] for name in line.partition("=")[2].split()]
    with ExitStack() as up:
        place = Path(up.enter_context(TemporaryDirectory(prefix="rota-confined-")))
        place.chmod(0o755)
        node = NodeUnderTest(place / "n", "--role", "both", "--user", "nobody", app=APP)
        node._argv = [sys.executable, "-c", LOSE_THE_REST, ",".join(map(str, kept)), *node._argv]
        up.enter_context(node)
        await node.ready()
        await are_declared(node)
        facts = dict(line.split(":\t", 1) for line in Path(f"/proc/{node.pid}/status").read_text().splitlines())
        assert int(facts["CapEff"], 16) == sum(1 << number for number in kept)
        view, printed = ran(node, "look")
        assert view["state"] == "succeeded", (view, printed)
        assert json.loads(printed)[1]["uid"] == pwd.getpwnam("nobody").pw_uid
        family = node.family()
        assert rota("stop", "--data", node.data, cwd=place).code == 0
        await eventually(lambda: all(is_gone(each.pid) for each in family))


async def test_dead_letters_of_another_user_have_a_place(tmp_path: Path) -> None:
    if is_refused(tmp_path):
        return
    with ExitStack() as up:
        folder = Path(up.enter_context(TemporaryDirectory(prefix="rota-confined-")))
        folder.chmod(0o755)
        log = TrialLog(folder, None)
        log.append(0, [NewRecord(value=b"poison"), NewRecord(value=b"1")])
        app = STREAM_APP.format(source=log.url(), sink="memory://clicks", options='duration="1s"')
        node = up.enter_context(NodeUnderTest(folder / "n", "--role", "both", "--user", "nobody", app=app))
        await node.ready()
        letters = node.data / "dead-letters" / "clicks.jsonl"
        await eventually(lambda: letters.exists() and letters.read_text().endswith("\n"), within=60)
        assert json.loads(letters.read_text().splitlines()[0])["error"] == "ValueError: this one cannot be read"
        found = letters.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (pwd.getpwnam("nobody").pw_uid, 0o600)
