"""The page about several machines does what it says: each machine is a network namespace."""

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.cli import ROTA
from tests.kit.machines import machines
from tests.kit.pages import Block, blocks
from tests.kit.process import ROOT, Process
from tests.kit.reader import Reader
from tests.kit.waiting import eventually

PAGE = ROOT / "docs/howto/run-on-several-machines.md"
ADDRESSES = {"db": "10.0.0.5", "a": "10.0.0.11", "b": "10.0.0.12", "c": "10.0.0.13"}

SCP = """#!/bin/sh
# scp -pr or -p FILE… ADDRESS: to the folder of that machine
shift
while [ $# -gt 1 ]; do files="$files $1"; shift; done
case "$1" in @CASES@ *) exit 1;; esac
cp -pr $files "$to"
"""


def etcd(folder: Path, before: tuple[str, ...], address: str) -> Process:
    """A store on one of the machines."""
    url, peer = f"http://{address}:2379", "http://127.0.0.1:2380"
    argv = [
        *(*before, "etcd", "--data-dir", folder / "etcd", "--log-level", "warn"),
        *("--listen-client-urls", url, "--advertise-client-urls", url),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
    ]
    return Process(argv, folder / "etcd.out")


def readers(tmp_path: Path, before: Mapping[str, tuple[str, ...]], up: ExitStack) -> dict[str, Reader]:
    """Somebody at each machine, in a folder there, with a scp that knows where the folders are."""
    tools = tmp_path / "tools"
    tools.mkdir()
    folders = {name: tmp_path / name for name in ADDRESSES if name != "db"}
    cases = " ".join(f"{ADDRESSES[name]}:) to={folder};;" for name, folder in folders.items())
    (tools / "scp").write_text(SCP.replace("@CASES@", cases))
    (tools / "scp").chmod(0o755)
    found = {}
    for name, folder in folders.items():
        folder.mkdir()
        path = f"{tools}:{ROTA.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        exchanged = {"/var/lib/rooms": str(tmp_path)}
        reader = Reader(folder, exchanged, {"PATH": path}, before=before[name])
        found[name] = up.enter_context(reader)
    return found


@pytest.mark.needs("etcd")
@pytest.mark.needs("namespaces")
async def test_the_page_does_what_it_says_on_three_machines(tmp_path: Path) -> None:
    with ExitStack() as up:
        before = up.enter_context(machines(ADDRESSES))
        store = up.enter_context(etcd(tmp_path, before["db"], ADDRESSES["db"]))
        there = readers(tmp_path, before, up)
        assert store.is_running
        count = 0
        for block in blocks(PAGE):
            if block.file:
                there["a"].follow(block)
            elif len(block.words) == 3 and block.words[0] == "console":
                there[block.words[2]].follow(Block(block.words[:2], block.text))
                count += 1
        assert count >= 10
        await eventually(lambda: store.is_running)


def node(before: tuple[str, ...], folder: Path, name: str, *flags: object) -> list[object]:
    """The command for a node on a machine, on a SQLite file that the machines share."""
    there = [*before, "sh", "-c", f'cd "{folder}" && exec "$0" "$@"']
    return [*there, ROTA, "node", "--store", "sqlite:///rota.db", "--id", name, *flags]


@pytest.mark.needs("namespaces")
async def test_a_node_that_the_others_cannot_call_does_not_join_and_status_says_which_is_wrong(tmp_path: Path) -> None:
    def run(*argv: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=120, check=False)

    def status() -> str:
        return run(ROTA, "status", "--store", f"sqlite:///{tmp_path}/rota.db").stdout

    with ExitStack() as up:
        before = up.enter_context(machines({"a": "10.0.0.11", "b": "10.0.0.12"}))
        first = up.enter_context(Process(node(before["a"], tmp_path, "a"), tmp_path / "a.out"))
        await eventually(lambda: "joined node=a" in first.complaint(), within=60)
        second = run(*node(before["b"], tmp_path, "b"))
        assert second.returncode == 2, second.stderr
        assert "node b would advertise 127.0.0.1:7701, and node a on a cannot reach it there" in second.stderr
        assert "--insecure" in second.stderr
        assert "b" not in [line.split()[0] for line in status().splitlines()[2:]]

        doors = ("--insecure", "--http", "10.0.0.12:7700", "--grpc", "10.0.0.12:7701")
        third = run(*node(before["b"], tmp_path, "c", *doors))
        assert third.returncode == 2, third.stderr
        assert "node c has a token of its own, and node a on a shows another" in third.stderr

        token = ("--token", f"file:{tmp_path}/.rota/nodes/a/token")
        right = up.enter_context(Process(node(before["b"], tmp_path, "d", *doors, *token), tmp_path / "d.out"))
        await eventually(lambda: "joined node=d" in right.complaint(), within=60)
        fault = "node a: it advertises 127.0.0.1:7701, and nodes on other machines (d) cannot reach it there"
        assert fault in status()
