"""`rota resources`, `rota nodes` and `rota why` as a user calls them, beside a leader that the tests play."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rota.fleet.doors.nodes import operations as node_operations
from rota.model.errors import NotFound
from rota.resources.doors import operations as resource_operations
from rota.resources.doors.answers import ResourceView
from rota.store import Store, open_store
from tests.kit.cli import ROTA, rota
from tests.kit.fleet_records import CLOCK, assign, declare, join, lead, settle
from tests.kit.process import Process
from tests.kit.store_cli import call
from tests.kit.waiting import eventually


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """A store with a node and a kind, in which nobody places anything."""
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    async with open_store(url) as store:
        await declare(store, "room")
        await join(store, "n1", kinds=("room",))
        await lead(store, "n1")
    return url


def told(url: str, *arguments: object) -> Any:
    """The JSON of a command that goes well."""
    answer = call(url, *arguments, "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    return json.loads(answer.out)


def refused(url: str, *arguments: object) -> tuple[int, str]:
    """The exit code and the one line."""
    answer = call(url, *arguments)
    assert answer.out == ""
    assert answer.err.startswith("rota: ")
    assert answer.err.count("\n") == 1
    return answer.code, answer.err


async def made(store: Store, id: str, **fields: Any) -> ResourceView:
    return await resource_operations.create_resource(store, CLOCK, {"kind": "room", "id": id, **fields})


@pytest.mark.parametrize(
    ("nodes", "status", "said"),
    [(("n1",), {}, "; on n1\n"), ((), {"pending": "no node has room"}, "; pending: no node has room\n")],
)
async def test_adding_waits_for_the_leader(url: str, nodes: tuple[str, ...], status: dict[str, Any], said: str) -> None:
    adding = asyncio.create_task(asyncio.to_thread(call, url, "resources", "add", "room", "1", "--timeout", "30s"))
    async with open_store(url) as store:
        view = await eventually(
            lambda: resource_operations.get_resource(store, "room", "1"), within=30, despite=(NotFound,)
        )
        await settle(store, view, *nodes, **status)
        answer = await adding
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"added room/1, version {view.version}{said}"


def test_adding_says_when_nobody_answers(url: str) -> None:
    answer = call(url, "resources", "add", "room", "1", "--timeout", "100ms")
    assert answer.code == 6
    assert answer.out.startswith("added room/1, version ")
    assert "room/1 is added, but was not placed within 100ms; ask again with: rota why room/1" in answer.err


def test_a_resource_from_its_making_to_its_end(url: str, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"depth": 1, "tags": ["a"]}')
    options = "--json", "spec.json", "--spec", "depth:=3", "--spec", "lang=en", "--label", "zone=a", "--pin", "n1"
    first = told(url, "resources", "add", "room", "1", "--no-wait", "--cost", 2, "--priority", -1, *options)
    assert (first["spec"], first["labels"], first["pin"], first["cost"], first["priority"]) == (
        {"depth": 3, "tags": ["a"], "lang": "en"}, {"zone": "a"}, "n1", 2, -1,
    )  # fmt: skip
    assert told(url, "resources", "get", "room", "1") == first
    second = told(
        url, "resources", "update", "room", "1", "--replicas", 2, "--unset", "pin", "--version", first["version"]
    )
    assert (second["replicas"], second["pin"], second["spec"]) == (2, None, first["spec"])
    assert told(url, "resources", "ls", "--kind", "room", "--pending") == [second]
    assert refused(url, "resources", "rm", "room", "1", "--version", first["version"])[0] == 5
    assert call(url, "resources", "rm", "room", "1").out == "deleted room/1\n"
    assert told(url, "resources", "ls") == []


@pytest.mark.parametrize(
    ("code", "arguments", "said"),
    [
        (2, ("resources", "add", "rom", "x"), 'has a kind "rom"; did you mean "room"?'),
        (2, ("resources", "add", "room", "x", "--cost", "0"), "cost is 0; it must be from 1"),
        (2, ("resources", "add", "room", "a/b"), 'no "/"; choose another'),
        (2, ("resources", "update", "room", "1"), "nothing is to change"),
        (2, ("resources", "add", "room", "x", "--timeout", "2h"), "wait is 2h; it must be from 0s to 1m"),
        (5, ("resources", "add", "room", "1"), "room/1 exists already, at version"),
        (3, ("resources", "get", "room", "9"), "there is no resource room/9"),
        (3, ("resources", "update", "room", "9", "--cost", "1"), "there is no resource room/9"),
        (3, ("resources", "rm", "room", "9"), "there is no resource room/9"),
        (3, ("nodes", "cordon", "n9"), 'there is no node "n9"; there are n1'),
        (3, ("nodes", "uncordon", "n9"), 'there is no node "n9"; there are n1'),
        (3, ("why", "room/9"), "there is no resource room/9"),
        (3, ("why", "n9"), 'there is no node "n9"'),
    ],
)
async def test_what_is_wrong_has_a_line_and_a_code(url: str, code: int, arguments: tuple[str, ...], said: str) -> None:
    async with open_store(url) as store:
        await made(store, "1")
    refusal = refused(url, *arguments)
    assert refusal[0] == code
    assert said in refusal[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("resources", "add", "room", "x", "--spec", "lang"), "is not a pair; write NAME=VALUE"),
        (("resources", "add", "room", "x", "--spec", "n:=x"), "the value is not JSON"),
        (("resources", "add", "room", "x", "--label", "=x"), "is not a pair; write NAME=VALUE"),
        (("resources", "update", "room", "x", "--pin", "a", "--unset", "pin"), "pin is set and unset"),
        (("resources", "update", "room", "x", "--unset", "id"), "Invalid value for '--unset'"),
        (("resources", "add", "room"), "write the kind and the id, like room/"),
        (("nodes", "cordo", "n1"), "No such command 'cordo'"),
    ],
)
def test_what_is_written_wrong_is_a_usage_error(url: str, arguments: tuple[str, ...], said: str) -> None:
    answer = call(url, *arguments)
    assert answer.code == 2
    assert said in answer.err


async def test_tables_for_people(url: str) -> None:
    async with open_store(url) as store:
        await settle(store, await made(store, "房间"), "n1", "n2", replicas=2)
        await settle(store, await made(store, "2", priority=5), replicas=3, pending="no node has room")
        await made(store, "3")
        await assign(store, "n1", "2", cost=4)
        await join(store, "n2")
        await node_operations.cordon_node(store, CLOCK, "n2", "disk")
    lines = call(url, "resources", "ls").out.splitlines()
    assert [line.split() for line in lines] == [
        ["RESOURCE", "STATE", "TASKS", "RUNNING", "PRIORITY", "NODES", "WHY"],
        ["room/2", "pending", "0/3", "0", "5", "no", "node", "has", "room"],
        ["room/3", "unseen", "?", "?", "0", "not", "looked", "at", "yet"],
        ["room/房间", "covered", "2/2", "2", "0", "n1,", "n2"],
    ]
    for nodes in (call(url, "nodes"), call(url, "nodes", "ls")):
        first, second = nodes.out.splitlines()[1:]
        assert first.split()[:3] == ["n1", "*", "both"]
        assert first.split()[4:] == ["online", "4/10", "1", "room", "zone=a"]
        assert second.split()[3:] == ["online", "0/10", "0", "cordoned:", "disk", "zone=a"]
    (node, _) = told(url, "nodes")
    assert (node["id"], node["leads"], node["used"], node["cordon"]) == ("n1", True, 4, None)
    shown = call(url, "resources", "get", "room", "2").out.splitlines()
    assert "tasks     0 of 3" in shown
    assert "pending   no node has room" in shown


async def test_cordon_and_why(url: str) -> None:
    async with open_store(url) as store:
        view = await made(store, "1")
        await settle(
            store, view, "n1", replicas=2, pending="n2 is full", chosen={"n1": "most free"}, refusals={"n2": "full"}
        )
        for number in range(25):
            await assign(store, "n1", f"{number:02}")
    assert call(url, "why", "room/1").out.splitlines() == [
        "room/1: 1 of 2 tasks are placed, on n1; n2 is full",
        "  on n1: most free",
        "  not on n2: full",
        "  not on n1: all its slots are taken (25 of 10)",
        "  would go on n1, if you give it 16 more slots (rota nodes slots n1 26)",
    ]
    assert call(url, "nodes", "cordon", "n1", "--why", "disk").out.startswith("node n1 is cordoned since ")
    first, *held = call(url, "why", "n1").out.splitlines()
    assert first.startswith("n1: it has 25 tasks in 25 of 10 slots; it is cordoned since ")
    assert held == [*(f"  has room/{number:02}#0" for number in range(20)), "  and 5 more"]
    assert len(told(url, "why", "n1")["holds"]) == 25
    assert call(url, "nodes", "uncordon", "n1").out == "node n1 is not cordoned any more\n"
    assert call(url, "nodes", "uncordon", "n1").out == "node n1 was not cordoned\n"


async def test_two_commands_at_once_with_one_key_are_one_request(url: str) -> None:
    add = "resources", "add", "room", "1", "--no-wait", "--key", "k1"
    answers = await asyncio.gather(*(asyncio.to_thread(told, url, *add) for _ in range(2)))
    assert answers[0] == answers[1]


def test_a_store_that_nobody_used_stays_so(tmp_path: Path) -> None:
    for arguments in (("resources", "ls"), ("nodes",), ("why", "x"), ("resources", "add", "room", "1")):
        answer = rota(*arguments, "--store", "sqlite:///typo.db", cwd=tmp_path)
        assert answer.code == 2
        assert "no fleet has used it yet" in answer.err
    assert list(tmp_path.iterdir()) == []


async def test_watching_prints_a_line_for_each_change(url: str, tmp_path: Path) -> None:
    argv = [ROTA, "resources", "ls", "--watch", "--store", url]
    with Process(argv, tmp_path / "out") as watching:
        await eventually(watching.lines, within=30)
        async with open_store(url) as store:
            view = await made(store, "1")
            await settle(store, view, "n1")
            await resource_operations.delete_resource(store, "room", "1")
        await eventually(lambda: len(watching.lines()) == 4, within=30)
        os.kill(watching.pid, signal.SIGINT)
        await eventually(lambda: not watching.is_running, within=30)
    assert [line.split(" at revision")[0] for line in watching.lines()] == [
        "synced ",
        "put     room/1: not looked at yet",
        "put     room/1: covered, 1/1 tasks; on n1",
        "delete  room/1: covered, 1/1 tasks; on n1",
    ]
    assert "Traceback" not in watching.errors.read_text()


async def test_watching_prints_objects_for_programs(url: str, tmp_path: Path) -> None:
    async with open_store(url) as store:
        await made(store, "1")
    argv = [ROTA, "resources", "ls", "-w", "--kind", "room", "-o", "json", "--store", url]
    with Process(argv, tmp_path / "out") as watching:
        await eventually(lambda: len(watching.lines()) == 2, within=30)
    first, synced = map(json.loads, watching.lines())
    assert (first["what"], first["resource"]["id"], synced["what"]) == ("put", "1", "synced")
    answer = call(url, "resources", "ls", "-w", "--pending")
    assert answer.code == 2
    assert "--pending" in answer.err


def test_slots_are_set_shown_and_given_back(url: str) -> None:
    assert call(url, "nodes", "slots", "n1", 5).out == "node n1 has 5 slots\n"
    assert "0/5 set" in call(url, "nodes").out
    assert refused(url, "nodes", "slots", "n1", -5) == (
        2,
        'rota: node "n1": slots is -5; it must be from 0 to 1000000\n',
    )
    assert "settings say" in call(url, "nodes", "slots", "n1", "--reset").out
    assert call(url, "nodes", "slots", "n1").code == 2


def test_why_of_a_source(url: str) -> None:
    assert call(url, "why", "source", "room").out == "source of room: it has no source; others add its resources\n"
    assert call(url, "why", "room", "1").code == 2
