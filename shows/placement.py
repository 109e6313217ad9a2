"""`make show-placement`: what placement must show. Takes about five minutes."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks import placement_bench
from rota.model import keys
from rota.sim.run import run_seed
from rota.store import Store, open_store
from shows.report import Line, show
from tests.kit import rabbit
from tests.kit.cli import Answer, rota
from tests.kit.fleet import Fleet, moves
from tests.kit.lives import gaps
from tests.kit.process import ROOT
from tests.kit.servers import RabbitMQ
from tests.kit.waiting import eventually

TTL = "5s"
BUDGET = 1500
"""Moves a minute."""

BEAT = 1.0
"""Seconds between the messages of a resource that the drain must not interrupt."""

BEATS = """
import asyncio, os, time

import rota

app = rota.App("beats")
HERE = os.path.dirname(__file__)


def note(*words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


@app.resource(replicas=1, sink=os.environ["BEATS_SINK"])
async def room(task: rota.Task) -> None:
    note("start", task.id, task.epoch, time.monotonic())
    beat = int(time.time())  # the clock's number, so that whoever has a resource says the same
    try:
        while True:
            while beat <= time.time():
                await task.emit(str(beat), key=str(beat))
                beat += 1
            await asyncio.sleep(beat - time.time())
    finally:
        note("stop", task.id, task.epoch, time.monotonic())
"""


def placement_is_fast() -> Iterator[Line]:
    """The figures of `make bench`, one core, reasons included."""
    for row in placement_bench.rows(3):
        if row.goal:
            beside = f", {row.ratio:.0f} times {row.against}" if row.ratio else ""
            figure = f"{row.ours:,.2f} {row.unit}{beside}, goal {row.goal}: {row.verdict}"
            yield Line(row.verdict != "short", row.name, figure)


def a_fourth_node_joins() -> Iterator[Line]:
    """Three nodes are full of 3,000 tasks, and a fourth comes."""
    with tempfile.TemporaryDirectory(prefix="rota-join-") as folder:
        yield from asyncio.run(_join(Path(folder)))


async def _join(base: Path) -> list[Line]:
    url = f"sqlite:///{base}/rota.db"
    environ = {"ROTA_SUPERVISOR_REBALANCE": str(BUDGET), "ROTA_SUPERVISOR_TOLERANCE": "5"}
    async with open_store(url) as store:
        with Fleet(base, url, store, "abc", "--lease-ttl", TTL, "--slots", "1000", environ=environ) as found:
            await found.ready()
            await found.add([f"{number:04}" for number in range(1500)])
            await found.until_placed(1500, 2, within=90)
            await found.until_running(3000, within=90)
            before = await found.placed()
            planned = _ask(base, url, "plan", "--rebalance", "--add", "1")
            began = time.monotonic()
            found.add_node("d")
            await found.nodes["d"].ready()
            new = found.nodes["d"].name
            await eventually(lambda: _has_at_least(found, new, 705), within=180)
            await eventually(lambda: _has_exactly(found, 3000), within=60)
            took = time.monotonic() - began
            after, spread = await found.placed(), await found.spread()
            await found.until_running(3000, within=60)
            moved, torn = moves(before, after).moved, gaps(found)
            again = _ask(base, url, "plan", "--rebalance")
    return [
        Line(
            planned.code == 1,
            "rota plan --rebalance --add 1 tells before: exit code 1",
            planned.out.strip().splitlines()[-1],
        ),
        Line(
            max(spread.values()) <= 788,
            "a fourth node joins three full of 3,000 tasks: balanced within the tolerance of 5 %",
            f"{sorted(spread.values())} after {took:.0f} s",
        ),
        Line(
            took >= moved * 60 / BUDGET * 0.9,
            f"and within the budget of {BUDGET} moves a minute",
            f"{moved / took * 60:.0f} a minute",
        ),
        Line(moved <= 750 * 1.05, "moves are at most the minimum of 750 and 5 %", f"{moved}"),
        Line(
            not torn and all(len(nodes) == len(set(nodes)) == 2 for nodes in after.values()),
            "coverage is never below target on the way",
            f"{len(torn)} of 3,000 tasks ever without a runner",
        ),
        Line(again.code == 0, "rota plan --rebalance afterwards: exit code 0", again.out.strip().splitlines()[-1]),
    ]


def a_node_is_drained() -> Iterator[Line]:
    """500 tasks leave a node while each of 1,500 resources emits the clock's number once a second into RabbitMQ."""
    with tempfile.TemporaryDirectory(prefix="rota-drain-") as folder:
        (Path(folder) / "server").mkdir()
        with RabbitMQ(Path(folder) / "server") as server:
            yield from asyncio.run(_drain(Path(folder), server))


async def _drain(base: Path, server: RabbitMQ) -> list[Line]:
    url, queue = f"sqlite:///{base}/rota.db", rabbit.make_queue(server.port, "beats")
    environ = {"BEATS_SINK": f"amqp://guest:guest@127.0.0.1:{server.port}?exchange=beats"}
    token = base / "token"
    token.touch(mode=0o600)
    token.write_text("rota_shared_by_the_nodes_of_this_show\n")
    flags = ("--lease-ttl", TTL, "--slots", "1000", "--token", f"file:{token}")
    async with open_store(url) as store:
        with Fleet(base, url, store, "abc", *flags, app=BEATS, environ=environ) as found:
            await found.ready()
            await found.add([f"{number:04}" for number in range(1500)])
            await found.until_placed(1500, 1, within=90)
            await found.until_running(1500, within=90)
            victim = found.nodes["b"].name
            began = time.monotonic()
            done = await asyncio.to_thread(_ask, base, url, "nodes", "drain", victim)
            took = time.monotonic() - began
            left = await _left(store, victim)
            await asyncio.sleep(2 * BEAT)
            torn, (missing, arrived) = gaps(found), _missing(server, queue)
            stuck = await asyncio.to_thread(
                _ask, base, url, "nodes", "drain", found.nodes["a"].name, "--deadline", "2s"
            )
    shown = done.out.strip().splitlines()
    return [
        Line(
            done.code == 0 and left == 0,
            "drain of a node with 500 tasks at work: exit code 0 when none is left",
            f"{took:.1f} s; {shown[-1] if shown else done.err}",
        ),
        Line(len(shown) > 2, "progress is shown", " / ".join(shown[:3])),
        Line(not torn, "no resource is without a runner at any moment", f"{len(torn)} of 1,500"),
        Line(
            not missing,
            "no gap in any resource's messages",
            f"{len(missing)} numbers missing of {arrived:,} messages in RabbitMQ",
        ),
        Line(
            stuck.code == 1,
            "a drain that its deadline cuts short: exit code 1",
            stuck.err.strip() or stuck.out.strip().splitlines()[-1],
        ),
    ]


def _missing(server: RabbitMQ, queue: str) -> tuple[list[tuple[str, int]], int]:
    """The numbers of the clock that each resource left out between its first and its last, and how many arrived."""
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    taken = rabbit.take(server.port, queue)
    for message, _ in taken:
        numbers[message.resource].add(int(message.payload))
    return [(each, n) for each, own in numbers.items() for n in range(min(own), max(own)) if n not in own], len(taken)


def a_rule_of_another_package() -> Iterator[Line]:
    """The tests of examples/06-own-rule, each a line."""
    argv = [".venv/bin/python", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "tests/process/test_own_rule.py"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith(("PASSED", "FAILED", "ERROR")):
            word, _, name = line.partition(" ")
            yield Line(word == "PASSED", f"rules: {name.rpartition('::')[2].replace('_', ' ')}", word.lower())


def a_thousand_nodes_in_virtual_time() -> Iterator[Line]:
    """The simulator's large seed: joins, deaths, drains, other slots."""
    verdict = run_seed(24, "placement")
    counts = ", ".join(f"{count} {what}" for what, count in verdict.counts.items())
    yield Line(not verdict.violations, "1,000 nodes in virtual time", "; ".join([counts, *verdict.violations[:1]]))


def _ask(folder: Path, url: str, *arguments: object) -> Answer:
    return rota(*arguments, "--store", url, cwd=folder, within=180)


async def _has_at_least(found: Fleet, node: str, tasks: int) -> bool:
    return (await found.spread())[node] >= tasks


async def _has_exactly(found: Fleet, tasks: int) -> bool:
    return sum((await found.spread()).values()) == tasks


async def _left(store: Store, node: str) -> int:
    return len((await store.scan(f"{keys.ASSIGNMENTS}{node}/")).entries)


if __name__ == "__main__":
    os.chdir(ROOT)
    show(
        [
            placement_is_fast,
            a_fourth_node_joins,
            a_node_is_drained,
            a_rule_of_another_package,
            a_thousand_nodes_in_virtual_time,
        ]
    )
