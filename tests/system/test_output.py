"""`-o json`: every command has it or a reason not to, and what it prints has the shape that its help declares."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rota.cli import options
from rota.cli.options import OutputOption, Shape
from rota.cli.terminal import tables
from rota.model.errors import Conflict
from tests.kit.cli import rota
from tests.kit.commands import LEAVES
from tests.kit.door_fleet import DoorFleetUnderTest, door_fleet
from tests.kit.node import APP
from tests.kit.process import ROOT
from tests.kit.servers import wait_until
from tests.kit.streams import STREAM

REFERENCE = ROOT / "docs/reference/cli.md"
EXEMPT = re.compile(r"^\| `rota ([a-z ]+)` \| (.+) \|$", re.MULTILINE)
OUTPUTS = {path: each for path, command in LEAVES for each in command.params if isinstance(each, OutputOption)}
SIMULATED = {path for path in OUTPUTS if path[0] == "simulate"} - {("simulate", "election"), ("simulate", "try")}

UNTRIED = {
    ("ticket", "create"): "only for a store that other machines reach",
    ("ticket", "revoke"): "there is no ticket",
    ("store", "load"): "refused while a node is on the store",
    ("tls", "revoke"): "works on the store",
} | dict.fromkeys(SIMULATED, "as simulate election")
"""Commands that are not run here, and why."""


def without_output() -> dict[tuple[str, ...], str]:
    """The commands that have no `-o`, as the reference lists them, with the reasons."""
    section = REFERENCE.read_text().partition("## Output for programs")[2].partition("\n## ")[0]
    return {tuple(words.split()): why for words, why in EXEMPT.findall(section)}


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_has_json_or_the_reference_says_why_not(path: tuple[str, ...], command: click.Command) -> None:
    assert (path in OUTPUTS) != (path in without_output()), "use options.output, or give a reason in the reference"


def test_nobody_is_exempt_who_is_not_there() -> None:
    assert set(without_output()) <= {path for path, _ in LEAVES}


@pytest.mark.parametrize("path", sorted(OUTPUTS), ids=" ".join)
def test_help_and_reference_say_which_shape_it_has(path: tuple[str, ...]) -> None:
    shape = OUTPUTS[path].shape
    assert f"json is {shape}" in (OUTPUTS[path].help or "")
    section = REFERENCE.read_text().partition(f"## rota {' '.join(path)}\n")[2].partition("\n## ")[0]
    assert {
        Shape.OBJECT: "`json`, an object",
        Shape.LIST: "`json`, a list",
        Shape.PAGE: "`json`, an object with `items` and `next`",
        Shape.LINES: "`json`, one object per line",
    }[shape] in section


@dataclass(frozen=True)
class Trial:
    """A fleet, and where files of the test are."""

    fleet: DoorFleetUnderTest
    folder: Path

    def json(self, line: str, *more: object, codes: tuple[int, ...] = (0,)) -> object:
        """What a command printed with `-o json`, through the doors; its shape is the one that is declared."""
        words = [*line.split(), *more]
        done = self.fleet.ask(*words, "-o", "json")
        assert done.code in codes, (words, done.code, done.err)
        output = OUTPUTS[self.path(words)]
        is_lines = output.shape is Shape.LINES or (output.lines_with and output.lines_with in words)
        if is_lines:
            parts = [json.loads(each) for each in done.out.splitlines()]
            assert parts, words
            assert all(isinstance(each, dict) for each in parts), words
            return parts
        found = json.loads(done.out)
        assert isinstance(found, list if output.shape is Shape.LIST else dict), (words, done.out)
        if output.shape is Shape.PAGE:
            assert isinstance(found["items"], list)
            assert isinstance(found["next"], str | None)
        return found

    def path(self, words: list[object]) -> tuple[str, ...]:
        """The command that words call."""
        return next(path for path in OUTPUTS if words[: len(path)] == list(path))


@pytest.fixture
async def trial(tmp_path: Path) -> AsyncIterator[Trial]:
    log, out = f"log://{tmp_path}/clicks", f"parquet://{tmp_path}/out"
    assert rota("log", "create", log, cwd=tmp_path).code == 0
    app = APP + STREAM.format(source=log, sink=out, options="tasks=1")
    async with door_fleet(tmp_path, app) as fleet:
        yield Trial(fleet, tmp_path)


LOOKS = """
audit ls | audit verify | config check --config CONFIG | config view --config CONFIG | context ls | events | hooks ls
jobs get short | jobs ls | jobs preview short | logs service/logic
nodes ls | nodes idlest | plan | relay stat | relay stat --loop 1
resources ls | runs ls | status
streams ls | streams status clicks | streams lag | streams history clicks | services ls | services stat
services stat --loop 1 | services version | token ls | why short | relay drain
"""

CHANGES = """
nodes cordon NODE | nodes uncordon NODE | nodes slots NODE 90 | nodes slots NODE --reset
nodes label NODE zone=b | nodes label NODE --reset
resources add room/1 | resources get room/1 | resources update room/1 --priority 3 | why room/1
nodes drain NODE --no-wait | nodes undrain NODE | resources rm room/1
jobs add says --every 9h -- true | jobs backfill says 2026-01-01T00:00Z 2026-01-02T00:00Z --preview
jobs disable says | jobs enable says | jobs rm says
hooks add pager --on node.* -- true | hooks disable pager | hooks enable pager | hooks test pager | hooks rm pager
streams suspend clicks --no-wait | streams resume --all --no-wait | streams scale clicks 2
streams handoff clicks --no-wait | streams reset clicks --to latest --yes --timeout 1m
streams reset-offsets clicks 0=earliest --yes --no-wait | streams terminate clicks --yes --no-wait
token create more --role view | token rotate more | token revoke more
services resize logic 1 3 --node NODE | services clear --all --node NODE
reload --node NODE | rollback --node NODE | services reload --node NODE | services rollback --node NODE
"""

LOCAL = """
login URL --name prod --token admin | context use prod | context rm prod
log create LOG --partitions 1 | log grow LOG --partitions 2 | log ls LOG | log truncate LOG --retain
tls init | tls issue n1 --host n1.example.com | tls renew n1 | tls ls
store check STORE | store dump STORE dump | store compact STORE --keep 0s
simulate election --seeds 1 | simulate election --seed 1 | simulate try SKETCH | init begun
"""
"""What needs no token, each after those that it needs."""

MAY_FAIL = {
    ("hooks", "test"): (0, 7),
    ("plan",): (0, 1),
    ("relay", "drain"): (0, 1),
    ("simulate", "try"): (0, 1),
    ("streams", "reset"): (0, 6),
    ("streams", "status"): (0, 1),
}
"""Exit codes of commands that say something about the world with them."""


def listed(table: str) -> list[str]:
    return [each.strip() for each in table.replace("\n", "|").split("|") if each.strip()]


def test_what_each_command_prints_has_its_shape(trial: Trial) -> None:
    node = trial.fleet.node
    words = {
        "NODE": node.name, "URL": trial.fleet.url, "LOG": f"log://{trial.folder}/more", "STORE": node.store,
        "CONFIG": trial.folder / "node.toml", "SKETCH": ROOT / "examples/08-try-a-fleet/fleet.toml",
    }  # fmt: skip
    (trial.folder / "node.toml").write_text(f'[node]\nstore = "{node.store}"\n')
    tried = set()

    def ask(line: str) -> object:
        for name, value in words.items():
            line = re.sub(rf"\b{name}\b", str(value), line)
        path = trial.path(list(line.split()))
        tried.add(path)
        before, dashes, after = line.partition(" -- ")
        if dashes:  # the option stands before the words of a program
            done = trial.fleet.ask(*before.split(), "-o", "json", "--", *after.split())
            assert done.code == 0, (line, done.err)
            assert isinstance(json.loads(done.out), dict)
            return json.loads(done.out)
        return trial.json(line, codes=MAY_FAIL.get(path, (0,)))

    def is_being_reset() -> bool:
        stream = trial.json("streams status clicks", codes=(0, 1))
        assert isinstance(stream, dict)
        return stream["stream"]["reset"] is not None

    for line in (*listed(LOOKS.replace("why short", "why job short")), *listed(CHANGES), *listed(LOCAL)):
        if line.startswith("streams reset-offsets"):  # refused while other offsets are being set
            wait_until(lambda: not is_being_reset(), "the reset of all offsets")
        ask(line)

    run = ask("jobs run short")
    assert isinstance(run, dict)
    again = ask(f"runs restart {run['id']}")
    assert isinstance(again, dict)
    assert again["of"] == run["id"]
    ask(f"runs get {run['id']}")
    ask(f"runs rm {run['id']}")
    held = ask("jobs run held --no-wait")
    assert isinstance(held, dict)
    ask(f"runs interrupt {held['id']}")

    appended = rota("log", "append", words["LOG"], "-o", "json", cwd=trial.folder, stdin="one\ntwo\n")
    assert json.loads(appended.out)["appended"] == 2
    assert [each["value"] for each in ask(f"log tail {words['LOG']}")] == ["one", "two"]  # type: ignore[attr-defined]
    for line in (f"ticket ls --store {node.store}", f"streams verify clicks --store {node.store}"):
        own = rota(*line.split(), "-o", "json", cwd=trial.folder)
        assert own.code == 0, own.err
        assert isinstance(json.loads(own.out), list if "ticket" in line else dict)
    synced = rota("resources", "sync", "room", "--no-wait", "-o", "json", "--store", node.store, cwd=trial.folder)
    assert (synced.code, synced.out) == (2, ""), "errors go to stderr"
    assert "has no source" in synced.err
    stopped = rota("stop", "--data", node.data, "-o", "json", cwd=trial.folder)
    assert json.loads(stopped.out) == [{"node": node.name, "stopped": True}]
    tried |= {
        ("log", "append"), ("ticket", "ls"), ("streams", "verify"), ("resources", "sync"), ("stop",),
        ("services", "stop"),
    }  # fmt: skip
    assert set(OUTPUTS) - tried == set(UNTRIED), "run it above, or say why not"


@click.command()
@options.output(Shape.LIST)
@click.option("--refuses", is_flag=True)
def two_nodes(refuses: bool) -> None:
    with tables.answering() as done:
        done.append({"node": "n1"})
        if refuses:
            raise Conflict("n2 refuses")
        done.append({"node": "n2"})
    tables.say("both have done it")


def test_what_was_done_before_an_error_is_printed() -> None:
    """Nodes are asked in turn, and the first that refuses ends it: a program must know which ones have done it."""
    run = CliRunner().invoke
    assert json.loads(run(two_nodes, ["-o", "json"]).stdout) == [{"node": "n1"}, {"node": "n2"}]
    assert json.loads(run(two_nodes, ["-o", "json", "--refuses"]).stdout) == [{"node": "n1"}]
    assert run(two_nodes, []).stdout == "both have done it\n"


def test_a_dump_to_stdout_and_json_exclude_each_other(tmp_path: Path) -> None:
    done = rota("store", "dump", "sqlite:///nosuch.db", "-o", "json", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "name a FILE" in done.err
