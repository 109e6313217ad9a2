"""The command line through the doors of a real node: with each role, by flags, variables and contexts."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from rota.cli.reach.remote import DoorFleet
from rota.cli.reach.targets import ServerTarget
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Invalid
from rota.resources.doors.operations import create_resource
from rota.store import open_store
from rota.views.watching import What, watch_events, watch_resources
from tests.kit.cli import Answer, rota
from tests.kit.door_fleet import DoorFleetUnderTest as Fleet
from tests.kit.door_fleet import door_fleet, here
from tests.kit.fleet import Fleet as Nodes
from tests.kit.node import APP


@dataclass(frozen=True)
class Three:
    """Three nodes, each with a file of its own for the app, and how commands reach them."""

    nodes: Nodes
    environ: dict[str, str]
    folder: Path
    """An empty one."""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with door_fleet(tmp_path) as fleet:
        yield fleet


def test_every_role_may_do_what_it_is_for_and_nothing_else(fleet: Fleet) -> None:
    looks = (
        ["status"], ["nodes"], ["nodes", "idlest"], ["jobs", "ls"], ["runs", "ls"], ["resources", "ls"],
        ["streams", "ls"], ["events"], ["hooks"], ["relay", "stat"], ["why", fleet.node.name], ["jobs", "get", "short"],
        ["services", "ls"], ["services", "stat"], ["services", "version"], ["streams", "lag"],
    )  # fmt: skip
    for words in looks:
        done = fleet.ask(*words, role="view")
        assert done.code == 0, (words, done.err)
    for words in (["jobs", "run", "short"], ["nodes", "cordon", fleet.node.name], ["reload", "--all"]):
        refused = fleet.ask(*words, role="view")
        assert refused.code == 4
        assert refused.err == "rota: this needs a token for operate, and yours is for view; come with another\n"
        assert fleet.ask(*words, role="operate").code == 0
    refused = fleet.ask("token", "create", "more", "--role", "view", role="operate")
    assert (refused.code, refused.err) == (
        4,
        "rota: this needs a token for admin, and yours is for operate; come with another\n",
    )
    assert fleet.ask("token", "create", "more", "--role", "view", role="admin").out.startswith("rota_")


def test_what_is_done_says_which_token_did_it_and_from_where(fleet: Fleet) -> None:
    assert fleet.ask("nodes", "cordon", fleet.node.name, role="operate").code == 0
    assert (
        here("nodes", "uncordon", fleet.node.name, "--store", fleet.node.store, cwd=fleet.folder, environ={}).code == 0
    )
    entries = json.loads(fleet.ask("audit", "-o", "json").out)
    by_door = next(each["entry"] for each in entries if each["entry"]["what"] == "cordon_node")
    assert (by_door["by"], by_door["origin"]) == ("a-operate", "http 127.0.0.1")
    by_store = next(each["entry"] for each in entries if each["entry"]["what"] == "rota nodes uncordon")
    assert by_store["origin"].startswith("store, ")
    assert "@" in by_store["origin"]


def both(fleet: Fleet, *words: object) -> tuple[Answer, Answer]:
    """A command through the store, and through the doors."""
    return here(*words, "--store", fleet.node.store, cwd=fleet.folder, environ={}), fleet.ask(*words)


def test_both_ways_show_the_same(fleet: Fleet) -> None:
    assert fleet.ask("jobs", "run", "short").code == 0
    assert fleet.ask("resources", "add", "room", "1").code == 0
    ways: list[tuple[object, ...]] = [
        ("jobs", "ls", "-o", "json"), ("runs", "ls", "-o", "json"), ("resources", "get", "room", "1", "-o", "json"),
        ("hooks", "-o", "json"), ("token", "ls", "-o", "json"), ("jobs", "get", "short"), ("why", "room/1"),
        ("jobs", "get", "nosuch"), ("runs", "get", "nosuch"), ("runs", "get", "short/nosuch"), ("why", "room/2"),
        ("nodes", "drain", "nosuch"), ("nodes", "slots", "nosuch", "3"), ("resources", "add", "nokind", "1"),
        ("streams", "status", "nosuch"), ("jobs", "preview", "short", "--count", "0"),
        ("hooks", "rm", "nosuch"), ("token", "revoke", "nosuch"), ("resources", "sync", "room"), ("plan",),
    ]  # fmt: skip
    for words in ways:
        store, door = both(fleet, *words)
        assert (door.code, door.out, door.err) == (store.code, store.out, store.err), words


def test_jobs_runs_and_their_output_through_the_doors(fleet: Fleet) -> None:
    added = fleet.ask("jobs", "add", "says", "--timeout", "1m", "--", "echo", "hello from the job")
    assert added.code == 0, added.err
    ran = fleet.ask("jobs", "run", "says", "-o", "json")
    assert ran.code == 0, ran.err
    run = json.loads(ran.out)["id"]
    assert fleet.ask("runs", "logs", run).out == "hello from the job\n"
    assert fleet.ask("runs", "logs", "-f", run).out == "hello from the job\n"
    again = fleet.ask("runs", "restart", run)
    assert again.code == 0, again.err
    assert "succeeded" in again.out
    assert fleet.ask("jobs", "run", "held", "--no-wait").code == 0
    held = next(
        each["id"] for each in json.loads(fleet.ask("runs", "ls", "-o", "json").out)["items"] if "held" in each["id"]
    )
    stopped = fleet.ask("runs", "interrupt", held, "--why", "enough")
    assert stopped.code == 0, stopped.err
    assert "enough" in stopped.out
    assert fleet.ask("runs", "rm", run).out == f"deleted {run}\n"
    assert fleet.ask("runs", "get", run).code == 3
    assert fleet.ask("jobs", "rm", "says").out == "deleted says\n"


def test_resources_and_nodes_through_the_doors(fleet: Fleet) -> None:
    name = fleet.node.name
    added = fleet.ask("resources", "add", "room", "7", "--spec", "lang=en", "--key", "once")
    assert added.code == 0, added.err
    assert f"on {name}" in added.out
    assert fleet.ask("resources", "add", "room", "7", "--spec", "lang=en", "--key", "once").code == 0
    assert fleet.ask("resources", "add", "room", "7").code == 5
    version = json.loads(fleet.ask("resources", "get", "room", "7", "-o", "json").out)["version"]
    assert fleet.ask("resources", "update", "room", "7", "--priority", "5", "--version", version).code == 0
    assert fleet.ask("resources", "update", "room", "7", "--priority", "6", "--version", version).code == 5
    assert fleet.ask("nodes", "slots", name, "5").out == f"node {name} has 5 slots\n"
    assert fleet.ask("nodes", "slots", name, "--reset").code == 0
    drained = fleet.ask("nodes", "drain", name, "--deadline", "1s")
    assert drained.code == 1
    assert "1 tasks were there at the deadline, and are stopped" in drained.err
    assert fleet.ask("nodes", "undrain", name).out == f"node {name} is not drained any more\n"
    assert fleet.ask("nodes", "undrain", name).out == f"node {name} was not drained\n"
    assert fleet.ask("resources", "rm", "room", "7").out == "deleted room/7\n"


def test_services_and_code_through_the_doors(fleet: Fleet) -> None:
    name = fleet.node.name
    unsaid = fleet.ask("reload")
    assert unsaid.code == 2
    assert "--node ID, which may be repeated, or --all-nodes" in unsaid.err
    assert fleet.ask("reload", "--node", "nosuch").code == 3
    assert fleet.ask("reload", "--node", name).out == f"node {name}: generation 2 took over from 1\n"
    assert fleet.ask("rollback", "--all").out == f"node {name}: back at generation 1, from 2\n"
    assert fleet.ask("services", "resize", "logic", "1", "3", "--all-nodes").code == 0
    assert fleet.ask("services", "clear", "--all", "--node", name).code == 0
    assert "logic" in fleet.ask("services", "ls").out
    fleet.node.app.write_text("import nosuch_module\n")
    broken = fleet.ask("reload", "--all")
    assert broken.code == 5
    assert "nosuch_module" in broken.err
    assert broken.err.count("\n") >= 1


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Three]:
    url = f"sqlite:///{tmp_path}/rota.db"
    token = {"ROTA_TOKEN": "env:THREE_TOKEN", "THREE_TOKEN": "rota_a-token-of-three-nodes"}
    async with open_store(url) as store:
        with Nodes(tmp_path, url, store, "abc", app=APP, environ=token) as nodes:
            await nodes.ready()
            folder = tmp_path / "elsewhere"
            folder.mkdir()
            door = (await nodes.nodes["a"].status())["doors"]["http"]
            yield Three(nodes, {"ROTA_SERVER": f"http://{door}", "ROTA_TOKEN": token["THREE_TOKEN"]}, folder)


@pytest.mark.parametrize("way", ["doors", "folders"])
async def test_the_first_node_that_fails_ends_it_and_the_message_says_which_were_done_and_which_were_not(
    three: Three, way: str
) -> None:
    """The app of the second of three nodes is broken; later that node has nothing to go back to."""
    a, b, c = (three.nodes.nodes[short] for short in "abc")
    meant = ["--all"] if way == "doors" else [word for node in (a, b, c) for word in ("--data", str(node.data))]

    async def ask(verb: str) -> Answer:
        return await asyncio.to_thread(
            here, verb, *meant, cwd=three.folder, environ=three.environ if way == "doors" else {}
        )

    async def generations() -> list[int]:
        return [(await node.status())["work"]["generation"] for node in (a, b, c)]

    good = b.app.read_text()
    b.app.write_text("import nosuch_module\n")
    stopped = f"rota: failed at node {b.name} (done: {a.name}; not asked: {c.name}): "
    broken = await ask("reload")
    assert broken.code == (5 if way == "doors" else 1)
    assert broken.out == f"node {a.name}: generation 2 took over from 1\n"
    assert f"{stopped}generation 1 keeps running: " in broken.err
    assert "nosuch_module" in broken.err
    assert await generations() == [2, 1, 1]
    back = await ask("rollback")
    assert back.code == 5
    assert back.out.startswith(f"node {a.name}: back at generation 1, from 2\n")
    assert f"{stopped}there is no previous generation to go back to" in back.err
    assert await generations() == [1, 1, 1]
    b.app.write_text(good)
    assert (await ask("reload")).code == 0
    assert await generations() == [3, 3, 2]


@pytest.mark.parametrize("verb", ["reload", "rollback"])
def test_all_nodes_of_a_store_that_machines_share_are_not_taken_for_those_of_this_machine(
    tmp_path: Path, verb: str
) -> None:
    environ = {"ROTA_STORE": "etcd://somewhere:2379", "XDG_CONFIG_HOME": str(tmp_path)}
    answer = here(verb, "--all", cwd=tmp_path, environ=environ)
    assert (answer.code, answer.out) == (2, "")
    assert "all nodes of the fleet on etcd://somewhere:2379 (env ROTA_STORE)" in answer.err
    assert "use --server URL" in answer.err
    one = here(verb, "--all", cwd=tmp_path, environ={**environ, "ROTA_STORE": "sqlite:///rota.db"})
    assert (one.code, "no node is running below .rota" in one.err) == (7, True)


def test_a_context_is_used_where_nothing_else_names_a_fleet(fleet: Fleet) -> None:
    home = {"XDG_CONFIG_HOME": str(fleet.folder / "config"), "ROTA_SERVER": "", "ROTA_TOKEN": ""}
    nothing = fleet.ask("status", **home)
    assert (nothing.code, "rota login URL" in nothing.err) == (2, True)
    wrong = rota("login", fleet.url, cwd=fleet.folder, environ=home, stdin="rota_wrong-token-of-somebody\n")
    assert (wrong.code, wrong.out) == (4, "")
    logged = fleet.ask("login", fleet.url, "--name", "prod", "--token", "operate", **home)
    assert logged.out == f"context prod: {fleet.url}, as a-operate for operate; it is used from now on\n", logged.err
    kept = fleet.folder / "config/rota/contexts.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    shown = fleet.ask("status", **home)
    assert shown.out.startswith(f"fleet: {fleet.url} (context prod)\n"), shown.err
    assert (fleet.folder / "operate").read_text() not in fleet.ask("context", **home).out
    assert fleet.ask("jobs", "run", "short", "--context", "prod", **home).code == 0
    other = fleet.ask("status", "--context", "nosuch", **home)
    assert (other.code, "there are prod" in other.err) == (3, True)
    assert fleet.ask("reload", "--all", **home).code == 0
    assert "works on the store itself" in fleet.ask("streams", "read", "x", **home).err
    os.chmod(kept, 0o644)
    assert "may be read by others" in fleet.ask("status", **home).err
    os.chmod(kept, 0o600)
    assert fleet.ask("context", "rm", "prod", **home).code == 0
    assert fleet.ask("status", **home).code == 2


async def test_what_goes_on_is_told_through_the_doors(fleet: Fleet) -> None:
    server = ServerTarget(fleet.url, (fleet.folder / "operate").read_text())
    async with DoorFleet(server) as door:
        asked = {"kind": "room", "id": "1"}
        async with aclosing(door.each(watch_resources, kind="room")) as batches:
            async for (change,) in batches:
                if change.what is What.SYNCED:
                    await door.do(create_resource, SYSTEM, asked)
                elif change.what is What.PUT:
                    assert change.resource is not None
                    assert change.resource.name == "room/1"
                    break
        async with aclosing(door.each(watch_events, kinds=["node.*"], limit=5)) as told:
            async for (one,) in told:
                if one.event is not None:
                    assert one.event.kind.startswith("node.")
                    break
        refused = door.each(watch_events, limit=5000)
        with pytest.raises(Invalid, match="limit"):
            await anext(refused)
