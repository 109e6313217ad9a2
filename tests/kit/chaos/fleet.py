"""A fleet under chaos: four nodes with all four kinds, the servers behind them, and what keeps them busy.

Each node reaches the store through a fault proxy of its own. Where we may, it also has a loopback address and a small
disk of its own (`grounds.py`). Rooms talk, jobs are due, clients ask and records are produced from the first moment to
the last.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rota.model.errors import RotaError
from rota.store import Store, open_store
from tests.kit.chaos import grounds
from tests.kit.chaos.app import ACTS, SERVED, chaos_app
from tests.kit.chaos.clients import Client, Death, Requests
from tests.kit.chaos.coverage import Coverage
from tests.kit.chaos.processors import Processors
from tests.kit.chaos.records import Producing
from tests.kit.chaos.vitals import Vitals
from tests.kit.faultproxy import FaultProxy
from tests.kit.fleet import Fleet
from tests.kit.harness import StoreHarness
from tests.kit.job_storm import has_jobs, one_token
from tests.kit.live_rooms import LiveRooms, Talk, make_queue, platform_of, where
from tests.kit.servers import Kafka, RabbitMQ, Server, free_port
from tests.kit.stream_places import ParquetFolder, TrialTopic
from tests.kit.streams import StreamTrial
from tests.kit.waiting import eventually

TTL = 5.0
"""Seconds of the nodes' leases."""

NAMES = "abcd"
ROOMS = 20
RATE = 4.0
"""Messages a second in each room."""

SINGLES = [f"s{number}" for number in range(3)]
"""Exclusive resources."""

JOBS = 16
"""Jobs that are due every other second."""

CLIENTS = 2
"""Of each node."""

PARTITIONS = 4
RECORDS = 10
"""At most so many records at a time for each partition."""

WINDOW = 100
"""Messages that a relay may have under way, and so how many may come twice when something breaks."""

DISK = 64
"""Megabytes of each node's disk, where we may make one."""

Fill = Callable[[], Path]


@dataclass
class Arena:
    """The fleet, its servers and its traffic."""

    fleet: Fleet
    store: Store
    servers: dict[str, Server]
    links: dict[str, FaultProxy]
    """By node: its way to the store."""

    disks: dict[str, Fill]
    """By node: what fills its disk; empty where we may not make any."""

    rooms: LiveRooms
    trial: StreamTrial
    clients: list[Client]
    requests: Requests
    vitals: Vitals
    processors: Processors
    deaths: list[Death] = field(default_factory=list)
    """Of proxies, as far as they were killed on purpose."""

    def __post_init__(self) -> None:
        self.coverage = Coverage(self.rooms.log)
        self.producing = Producing(self.trial, RECORDS)

    async def until_whole(self, within: float) -> None:
        """Every node is ready, somebody leads, and every room is heard by two."""
        self.coverage.forget()

        async def is_whole() -> bool:
            await asyncio.sleep(0.2)  # rooms say a few things a second
            if self.coverage.heard(2) < ROOMS:
                return False
            ready = [(await node.status())["is_ready"] for node in self.fleet.nodes.values()]
            return all(ready) and bool(await self.fleet.leader())

        await eventually(is_whole, within=within, despite=(RotaError, OSError, AssertionError))

    def noted(self, file: str) -> list[str]:
        """The lines that apps of all nodes wrote into their file of this name."""
        paths = [node.folder / file for node in self.fleet.nodes.values()]
        return [line for path in paths if path.exists() for line in path.read_text().splitlines()]

    def served(self) -> Counter[str]:
        """How often each request ran."""
        return Counter(self.noted(SERVED))

    def acts(self) -> list[str]:
        """What exclusive tasks noted."""
        return self.noted(ACTS)


@asynccontextmanager
async def arena(base: Path, kind: type[StoreHarness]) -> AsyncIterator[Arena]:
    """All of it, whole and busy, inside."""
    async with AsyncExitStack() as stack:
        servers = {
            "store": _server(stack, kind.server, base / "store"),
            "rabbitmq": _server(stack, RabbitMQ, base / "rabbitmq"),
            "kafka": _server(stack, Kafka, base / "kafka"),
        }
        harness = kind(base, servers["store"])
        rabbit, source, output = servers["rabbitmq"], TrialTopic(base, servers["kafka"]), ParquetFolder(base)
        assert isinstance(rabbit, RabbitMQ)
        source.grow(PARTITIONS)
        await make_queue(rabbit)
        talk, port = Talk(rooms=ROOMS, rate=RATE), free_port()
        platform = stack.enter_context(platform_of(base, port, talk))
        await eventually(platform.lines)
        store = await stack.enter_async_context(open_store(harness.url()))
        fleet = Fleet(
            base,
            harness.url(),
            store,
            (),
            *_flags(base),
            environ={**where(port, rabbit, WINDOW), **_settings(base)},
            app=chaos_app(source.url(), output.url(), JOBS),
        )
        links, disks, ports = await _doors(stack, base, servers["store"])
        stack.enter_context(fleet)
        for number, name in enumerate(NAMES):
            host = grounds.address(number)
            fleet.add_node(
                name,
                *("--grpc", f"{host}:0", "--http", f"{host}:0"),
                url=harness.url(port=links[name].port),
                environ={"CHAOS_PORT": str(ports[name])},
            )
        requests = Requests()
        found = Arena(
            fleet=fleet,
            store=store,
            servers=servers,
            links=links,
            disks=disks,
            rooms=LiveRooms(talk, platform, list(fleet.nodes.values()), rabbit, base, harness.url()),
            trial=StreamTrial(source, output, fleet, store, PARTITIONS),
            clients=[
                Client(f"{name}{number}", name, ports[name], requests) for name in NAMES for number in range(CLIENTS)
            ],
            requests=requests,
            vitals=Vitals(fleet, base / "vitals"),
            processors=Processors(base / "processors"),
        )
        await _begin(found)
        yield found


async def _begin(found: Arena) -> None:
    for node in found.fleet.nodes.values():
        await node.ready(within=120)
    await eventually(lambda: has_jobs(found.store, JOBS), within=120)
    await found.fleet.add(SINGLES, kind="single")
    await found.until_whole(within=120)


def _server(stack: AsyncExitStack, kind: type[Server] | None, folder: Path) -> Server:
    assert kind is not None, "chaos wants a store with a server"
    folder.mkdir()
    return stack.enter_context(kind(folder))  # type: ignore[call-arg, arg-type]  # each kind is made from its folder alone


def _flags(base: Path) -> tuple[object, ...]:
    lease = ("--lease-ttl", f"{TTL:g}s", "--drain", "5s", "--grace", "2s")
    return (*lease, "--token", one_token(base), "--slots", 2 * ROOMS, "--executors", 2)


def _settings(base: Path) -> dict[str, str]:
    """So that all runs can be counted in the end, and peers notice each other soon."""
    return {
        "ROTA_RELAY_WINDOW": str(WINDOW),
        "ROTA_RUNS_PER_JOB": "1000000",
        "ROTA_RUNS_LOGS": f"folder://{base}/logs",
        "ROTA_PEERS_CHECK_EVERY": "2s",
    }


async def _doors(
    stack: AsyncExitStack, base: Path, store: Server
) -> tuple[dict[str, FaultProxy], dict[str, Fill], dict[str, int]]:
    """By node: its way to the store, its disk, and the port of its service."""
    links = {name: await stack.enter_async_context(FaultProxy(store.port)) for name in NAMES}
    disks = {}
    if grounds.is_own():
        disks = {name: stack.enter_context(grounds.small_disk(base / name / "data", DISK)) for name in NAMES}
    return links, disks, {name: free_port() for name in NAMES}


@asynccontextmanager
async def running(*works: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Inside, these run; one that fails is heard of in the end."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
