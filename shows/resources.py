"""`make show-resources`: what the resources must show, as far as they are built. Takes about eight minutes."""

import asyncio
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import grpc
import psutil

from rota.doors.grpc.pb import crawler_pb2
from rota.model import keys
from rota.store import open_store
from shows.report import Line, show
from tests.kit.cli import rota
from tests.kit.doors import Door
from tests.kit.fleet import Fleet, moves
from tests.kit.harness import EtcdHarness, MysqlHarness, PostgresHarness, SqliteHarness, StoreHarness
from tests.kit.node import NodeUnderTest, workers
from tests.kit.process import ROOT
from tests.kit.waiting import eventually

TTL = 3.0
FIVE = [f"task-test-{number}" for number in range(5)]


@asynccontextmanager
async def fleet(folder: Path, url: str, names: str, *flags: object) -> AsyncIterator[Fleet]:
    """Nodes that work and two that only supervise, so that a leader can be lost without its tasks."""
    async with open_store(url) as store:
        with Fleet(folder, url, store, (), "--lease-ttl", f"{TTL:g}s", "--drain", "3s", *flags) as found:
            for name in ("s1", "s2"):
                found.add_node(name, "--role", "supervise")
            await eventually(lambda: store.get(keys.LEADER), within=20)
            for name in names:
                found.add_node(name, "--role", "work")
            await found.ready()
            yield found


def the_walk_through_of_seed_001() -> Iterator[Line]:
    """Two workers, five resources; a worker stops; the leader is switched; add and delete by HTTP."""
    for kind in (EtcdHarness, PostgresHarness, MysqlHarness, SqliteHarness):
        with ExitStack() as stack:
            base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-walk-")))
            base.chmod(0o755)  # PostgreSQL runs as a user of its own
            (base / "server").mkdir()
            server = stack.enter_context(kind.server(base / "server")) if kind.server else None
            harness: StoreHarness = kind(base, server)
            yield from asyncio.run(_walk(kind.name, base, harness.url()))


async def _walk(store: str, base: Path, url: str) -> list[Line]:
    lines = []
    async with fleet(base, url, "ab") as found:
        await found.add(FIVE, replicas=1)
        await found.until_placed(5, 1)
        spread = sorted((await found.spread()).values())
        lines.append(Line(spread == [2, 3], f"{store}: two workers and five resources", f"balanced {spread}"))
        before = {name: await found.status(name) for name in FIVE}
        os.kill(found.nodes["a"].pid, signal.SIGTERM)
        await found.until_placed(5, 1, without=["a"])
        after = {name: await found.status(name) for name in FIVE}
        same = all(
            (one.ID, one.Name, one.CreationTime) == (two.ID, two.Name, two.CreationTime)  # type: ignore[union-attr]
            for one, two in zip(before.values(), after.values(), strict=True)
        )
        moved = all(status.AssignedNode.startswith(found.nodes["b"].name) for status in after.values())  # type: ignore[union-attr]
        lines.append(
            Line(moved and same, f"{store}: one worker stopped", f"all on the other: {moved}, ids unchanged: {same}")
        )
        placed = await found.placed()
        leader = await found.leader()
        os.kill(found.nodes[leader].pid, signal.SIGTERM)
        other = "s2" if leader == "s1" else "s1"
        await eventually(lambda: _leads(found, other), within=15)
        await asyncio.sleep(2)
        lines.append(Line(await found.placed() == placed, f"{store}: leader switched", "nothing changed"))
        door = await Door.of(found.nodes[other])
        added = door.http("POST", "/v1/resources", {"kind": "room", "id": "by-curl", "replicas": 1})
        seen = await eventually(lambda: found.status("by-curl"))
        gone = door.http("DELETE", "/v1/resources/room/by-curl")
        await eventually(lambda: _no_status(found, "by-curl"))
        lines.append(
            Line(
                added[0] == 201 and gone[0] in (200, 204),
                f"{store}: add and delete by HTTP",
                f"{added[0]}, {gone[0]}; was {seen.AssignedNode}",
            )
        )
        lines.append(await _by_grpc(store, door))
        if store == "etcd":
            lines.append(_etcdctl(url))
    return lines


async def _by_grpc(store: str, door: Door) -> Line:
    """AddResource and DeleteResource of seed 001's service."""
    shown = {"timeout": 15, "metadata": (("authorization", f"Bearer {door.token}"),)}
    async with grpc.aio.insecure_channel(door.grpc) as channel:
        add = channel.unary_unary(
            "/CrawlerMaster/AddResource",
            request_serializer=crawler_pb2.ResourceSpec.SerializeToString,
            response_deserializer=crawler_pb2.NodeSpec.FromString,
        )
        delete = channel.unary_unary(
            "/CrawlerMaster/DeleteResource",
            request_serializer=crawler_pb2.ResourceSpec.SerializeToString,
            response_deserializer=lambda data: data,
        )
        node = await add(crawler_pb2.ResourceSpec(id="zjx", name="by-grpc"), **shown)
        await delete(crawler_pb2.ResourceSpec(name="by-grpc"), **shown)
        try:
            await delete(crawler_pb2.ResourceSpec(name="by-grpc"), **shown)
            refused = "nothing"
        except grpc.aio.AioRpcError as error:
            refused = f"{error.code().name}: {error.details()}"
    is_ok = bool(node.id and node.Address) and "no such task" in refused
    return Line(
        is_ok, f"{store}: add and delete by gRPC (CrawlerMaster)", f"on {node.id} at {node.Address}; again: {refused}"
    )


async def _leads(found: Fleet, name: str) -> bool:
    return await found.leader() == name


async def _no_status(found: Fleet, id: str) -> bool:
    return await found.status(id) is None


def _etcdctl(url: str) -> Line:
    host, _, namespace = url.removeprefix("etcd://").partition("/")
    namespace = namespace.partition("?")[0]
    done = subprocess.run(
        [
            "etcdctl",
            "--endpoints",
            host.partition("?")[0],
            "get",
            "--prefix",
            f"/{namespace}/resource-status/" if namespace else "/resource-status/",
        ],
        env={**os.environ, "ETCDCTL_API": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    shown = [line for line in done.stdout.splitlines() if '"AssignedNode"' in line]
    fields = {"ID", "Name", "AssignedNode", "CreationTime"}
    is_ok = len(shown) == 5 and all(fields <= json.loads(line).keys() for line in shown)
    return Line(
        is_ok,
        "etcdctl get --prefix shows id, name, AssignedNode, creation time",
        shown[0][:160] if shown else done.stderr[:160],
    )


def sources_are_not_trusted_blindly() -> Iterator[Line]:
    """The tests of sources with real processes, each a line."""
    argv = [".venv/bin/python", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "tests/process/test_sources.py"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith(("PASSED", "FAILED", "ERROR")):
            word, _, name = line.partition(" ")
            yield Line(word == "PASSED", f"sources: {name.rpartition('::')[2].replace('_', ' ')}", word.lower())


def a_thousand_resources_survive() -> Iterator[Line]:
    """1,000 × 2 on 5 nodes on SQLite: a node, a worker process, a frozen node, a leader."""
    with tempfile.TemporaryDirectory(prefix="rota-thousand-") as folder:
        base = Path(folder)
        yield from asyncio.run(_thousand(base, f"sqlite:///{base}/rota.db"))


async def _thousand(base: Path, url: str) -> list[Line]:
    lines = []
    async with fleet(base, url, "abcde", "--slots", "1000") as found:
        await found.add([f"{number:04}" for number in range(1000)])
        await found.until_placed(1000, 2, within=60)
        await found.until_running(2000, within=60)
        before = await found.placed()
        began = time.monotonic()
        found.nodes["a"].kill()
        await found.until_placed(1000, 2, without=["a"], within=30)
        took = time.monotonic() - began
        mine = sum(found.nodes["a"].name in nodes for nodes in before.values())
        moved = moves(before, await found.placed()).moved
        lines.append(
            Line(
                took <= TTL + 1 and moved == mine,
                "1,000 × 2 on 5 nodes, kill −9 of a node: covered within lease_ttl + 1 s",
                f"{took:.2f} s with a ttl of {TTL:g} s; {moved} tasks moved, {mine} were its",
            )
        )
        await found.until_running(2000, within=30)
        lines.append(await _kill_a_worker(found.nodes["b"]))
        lines += await _freeze(found)
        before = await found.placed()
        leader = await found.leader()
        found.nodes[leader].kill()
        other = "s2" if leader == "s1" else "s1"
        await eventually(lambda: _leads(found, other), within=15)
        await asyncio.sleep(2)
        moved = moves(before, await found.placed()).moved
        lines.append(Line(moved == 0, "leader killed −9: nothing moves", f"{moved} tasks moved"))
    return lines


async def _kill_a_worker(node: NodeUnderTest) -> Line:
    status = await node.status()
    wanted = status["work"]["tasks_running"]
    (host,) = workers(status, "host")
    began = time.monotonic()
    os.kill(host, signal.SIGKILL)
    await node.until(lambda now: workers(now, "host") not in ([], [host]) and now["work"]["tasks_running"] == wanted)
    took = time.monotonic() - began
    return Line(took <= 1, f"kill −9 of a worker process with {wanted} tasks: covered within 1 s", f"{took:.2f} s")


async def _freeze(found: Fleet) -> list[Line]:
    """An exclusive task on a node that is stopped for a minute."""
    await found.add(["x"], kind="single")
    await eventually(lambda: _has(found, "single/x"))
    (first,) = (await found.placed())["single/x"]
    frozen = next(node for node in found.nodes.values() if node.name == first)
    await eventually(lambda: [words for words in frozen.notes() if words[0] == "act"])
    frozen.freeze_between_writes(frozen.store)
    try:
        await eventually(lambda: _moved(found, "single/x", first), within=20)
        await asyncio.sleep(60 - TTL)
    finally:
        frozen.thaw()
    await asyncio.sleep(5)
    everything = [
        (float(words[3]), int(words[2]))
        for node in found.nodes.values()
        for words in node.notes()
        if words[0] == "act" and words[1] == "single/x#0"
    ]
    everything.sort()
    epochs = [epoch for _, epoch in everything]
    is_fenced = epochs == sorted(epochs)
    await found.remove(["x"], kind="single")
    with suppress(AssertionError):
        await eventually(lambda: _covered_exactly(found), within=30)
    is_exact = await _covered_exactly(found)
    return [
        Line(
            is_fenced,
            "SIGSTOP of a node for 60 s and on: no effect under two epochs",
            f"{len(epochs)} effects under {len(set(epochs))} epochs, in order: {is_fenced}",
        ),
        Line(is_exact, "and coverage is exact after it", f"1,000 × 2 on distinct nodes: {is_exact}"),
    ]


async def _has(found: Fleet, name: str) -> bool:
    return name in await found.placed()


async def _moved(found: Fleet, name: str, first: str) -> bool:
    return (await found.placed()).get(name, [first]) != [first]


async def _covered_exactly(found: Fleet) -> bool:
    placed = await found.placed()
    return len(placed) == 1000 and all(len(nodes) == len(set(nodes)) == 2 for nodes in placed.values())


def ten_thousand_resources_come_up() -> Iterator[Line]:
    """10,000 × 2 on one machine, from the writes to all running."""
    with tempfile.TemporaryDirectory(prefix="rota-many-") as folder:
        base = Path(folder)
        yield asyncio.run(_many(base, f"sqlite:///{base}/rota.db"))


async def _many(base: Path, url: str) -> Line:
    async with fleet(base, url, "ab", "--slots", "20000") as found:
        hosts = [workers(await found.nodes[name].status(), "host")[0] for name in "ab"]
        before = sum(psutil.Process(pid).memory_full_info().uss for pid in hosts)
        began = time.monotonic()
        await found.add([f"{number:05}" for number in range(10_000)])
        written = time.monotonic() - began
        await found.until_placed(10_000, 2, within=180)
        placed = time.monotonic() - began
        await found.until_running(20_000, within=180)
        took = time.monotonic() - began
        after = sum(psutil.Process(pid).memory_full_info().uss for pid in hosts)
        each = (after - before) / 20_000 / 1024
    return Line(
        True,
        "10,000 × 2 on one machine from the request to all running",
        f"{20_000 / took:.0f} tasks/s: written {written:.1f} s, placed {placed:.1f} s, all running {took:.1f} s; "
        f"{each:.1f} KiB per idle task",
    )


def resources_are_watched_checked_declared_and_moved() -> Iterator[Line]:
    """A watch, a spec's schema, `rota.toml` and slots, on one fleet."""
    with tempfile.TemporaryDirectory(prefix="rota-watch-") as folder:
        base = Path(folder)
        yield from asyncio.run(_operated(base, f"sqlite:///{base}/rota.db"))


async def _operated(base: Path, url: str) -> list[Line]:
    declared = base / "declared.toml"
    declared.write_text('[[resources]]\nkind = "room"\nid = "declared"\nreplicas = 1\n')
    async with fleet(base, url, "ab", "--config", str(declared)) as found:
        door = await Door.of(found.nodes["a"])
        status = await eventually(lambda: found.status("declared"))
        lines = [Line(status.assigned == 1, "a resource of rota.toml is covered", f"on {status.AssignedNode}")]
        lines.append(await asyncio.to_thread(_watched, door))
        bad = {"kind": "strict", "id": "1", "spec": {"depth": "deep"}}
        got, said = await asyncio.to_thread(door.http, "POST", "/v1/resources", bad)
        lines.append(
            Line(got == 422 and "whole number" in said, "a spec of the wrong type is refused", f"{got} {said}")
        )
        await found.add([f"{number:02}" for number in range(20)], replicas=1)
        await found.until_placed(21, 1)
        name = found.nodes["a"].name
        got, said = await asyncio.to_thread(door.http, "PATCH", f"/v1/nodes/{name}", {"slots": 2})
        await eventually(lambda: _holds(found, name, 2), within=20)
        await found.until_placed(21, 1)
        lines.append(Line(got == 200, "fewer slots at run time: what is too much moves away", f"2 left on {name}"))
        got, said = await asyncio.to_thread(door.http, "PATCH", f"/v1/nodes/{name}", {"slots": -1})
        lines.append(Line(got == 422, "negative slots", f"{got} {said}"))
    return lines


def _watched(door: Door) -> Line:
    """The events of a watch, up to a resource that is made and deleted meanwhile."""
    seen: list[str] = []
    request = urllib.request.Request(
        f"http://{door.address}/v1/resources/watch?prefix=seen", headers={"authorization": f"Bearer {door.token}"}
    )
    with urllib.request.urlopen(request, timeout=15) as stream:
        for line in stream:
            if line.startswith(b"event: "):
                seen.append(line.decode().split()[1])
                if seen[-1] == "synced":
                    door.http("POST", "/v1/resources?wait=10s", {"kind": "room", "id": "seen", "replicas": 1})
                    door.http("DELETE", "/v1/resources/room/seen")
                if seen[-1] == "delete":
                    break
    is_ok = seen[0] == "synced" and "put" in seen and seen[-1] == "delete"
    return Line(is_ok, "a watch tells what there is, and then each change", ", ".join(seen))


async def _holds(found: Fleet, name: str, count: int) -> bool:
    return (await found.spread())[name] == count


BAD = (
    ("POST", "/v1/resources", {"kind": "room", "id": "a", "colour": "red"}, 422, "colour"),
    ("POST", "/v1/resources", {"kind": "room", "id": "a", "replicas": "two"}, 422, "replicas"),
    ("POST", "/v1/resources", {"kind": "nothing", "id": "a"}, 422, "nothing"),
    ("POST", "/v1/resources", {"kind": "room", "id": "there"}, 409, "there"),
    ("POST", "/v1/resources", {"kind": "room", "id": "a", "cost": -1}, 422, "cost"),
    ("GET", "/v1/resources/room/missing", None, 404, "missing"),
    ("DELETE", "/v1/resources/room/missing", None, 404, "missing"),
    ("DELETE", "/crawler/resource", {"name": "missing"}, 404, "no such task"),
)


def bad_requests_get_a_sentence() -> Iterator[Line]:
    """Each with its status and a word that names what is wrong."""
    with tempfile.TemporaryDirectory(prefix="rota-bad-") as folder:
        base = Path(folder)
        yield from asyncio.run(_bad(base, f"sqlite:///{base}/rota.db"))


async def _bad(base: Path, url: str) -> list[Line]:
    lines = []
    async with fleet(base, url, "a") as found:
        door = await Door.of(found.nodes["a"])
        await asyncio.to_thread(door.http, "POST", "/v1/resources", {"kind": "room", "id": "there", "replicas": 1})
        for method, path, body, status, word in BAD:
            got, said = await asyncio.to_thread(door.http, method, path, body)
            lines.append(
                Line(
                    got == status and word in said,
                    f"{method} {path} {json.dumps(body) if body else ''}",
                    f"{got} {said[:140]}",
                )
            )
        got, said = await asyncio.to_thread(
            door.http, "PATCH", "/v1/resources/room/there", {"priority": 3}, {"If-Match": '"1"'}
        )
        lines.append(Line(got == 409, "PATCH with a stale version", f"{got} {said[:140]}"))
        await asyncio.to_thread(
            door.http, "POST", "/v1/resources", {"kind": "room", "id": "picky", "labels": {"gpu": "yes"}}
        )
        status_ = await eventually(lambda: found.status("picky"))
        lines.append(
            Line(
                "gpu" in status_.pending,
                "a selector that matches nothing is accepted, pending, explained",
                status_.pending,
            )
        )
        why = await asyncio.to_thread(rota, "why", "room/picky", "--store", url, cwd=ROOT)
        lines.append(
            Line(why.code == 0 and "gpu" in why.out, "rota why says so", " / ".join(why.out.strip().splitlines()[:3]))
        )
    return lines


if __name__ == "__main__":
    os.chdir(ROOT)
    show(
        [
            the_walk_through_of_seed_001,
            bad_requests_get_a_sentence,
            resources_are_watched_checked_declared_and_moved,
            sources_are_not_trusted_blindly,
            a_thousand_resources_survive,
            ten_thousand_resources_come_up,
        ]
    )
