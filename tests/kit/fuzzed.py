"""A node with every door there is, to be fuzzed; and files that are damaged at random."""

import asyncio
import json
import random
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from rota.doors.grpc import door as grpc_door
from rota.model.errors import RotaError
from rota.relay.process.spool import Spool
from rota.relay.process.wire import OpeningFrame, encode
from rota.runtime.control_socket import NAME
from rota.sources.open import log_place, open_log, open_source
from rota.sources.port import NewRecord
from tests.kit.boxes import box
from tests.kit.described import fuzz_described
from tests.kit.doors import Door
from tests.kit.fuzz import FEWEST, Tally, fuzz_grpc, fuzz_http, fuzz_socket, mutated
from tests.kit.node import NodeUnderTest
from tests.kit.servers import free_port
from tests.kit.sinks import messages

APP = """
import asyncio

import rota

app = rota.App("fuzzed")


@app.resource(sink="file:///dev/null")
async def room(task: rota.Task) -> None:
    await asyncio.Event().wait()


logic = app.service("logic", port=PORT, groups={1: 2}, admin=("127.0.0.1", ADMIN), admin_username="ann",
                    admin_password="env:ADMIN_PASSWORD")


@logic.on(101, group=1)
def echo(request):
    return request.body
"""

GROWTH = 64 * 2**20
"""Bytes that the node and its children may have more after a fuzzer than before it: caches fill, allocators keep."""


@dataclass(frozen=True)
class Fuzzed:
    """A node, and where its doors are."""

    node: NodeUnderTest
    door: Door
    service: int
    admin: int
    relay: int

    @property
    def fuzzers(self) -> dict[str, Callable[[float, int], Awaitable[Tally]]]:
        """What can be done to it, by name: for so many seconds, from a seed."""
        described = json.loads(self.door.http("GET", "/openapi.json")[1])
        methods = [f"/{'/'.join(name.rsplit('.', 1))}" for name in grpc_door.METHODS]
        asked = json.dumps({"auth": {"username": "ann", "password": "x"}, "payload": None}).encode()
        control = str(self.node.data / NAME)
        return {
            "HTTP": lambda seconds, seed: fuzz_http(self.door.address, self.door.token, described, seconds, seed),
            "HTTP as described": lambda seconds, seed: asyncio.to_thread(
                fuzz_described, self.door.address, self.door.token, described, seconds, seed
            ),
            "gRPC": lambda seconds, seed: fuzz_grpc(self.door.grpc, self.door.token, methods, seconds, seed),
            "Box frames": lambda seconds, seed: fuzz_socket(
                ("127.0.0.1", self.service), [box(101, b"hello"), box(7)], seconds, seed
            ),
            "admin frames": lambda seconds, seed: fuzz_socket(
                ("127.0.0.1", self.admin), [box(20000, asked), box(21004, asked)], seconds, seed
            ),
            "relay lines": lambda seconds, seed: fuzz_socket(
                ("127.0.0.1", self.relay), [encode(OpeningFrame(None, node="x", version=1, token="x"))], seconds, seed
            ),
            "control socket": lambda seconds, seed: fuzz_socket(control, [b'{"do": "status"}\n'], seconds, seed),
        }

    def memory(self) -> int:
        """Bytes that the node and its children have now."""
        return sum(_resident(each) for each in [psutil.Process(self.node.pid), *self.node.family()])

    def is_well(self) -> bool:
        """Does it answer, and does it run as it did?"""
        try:
            return self.node.is_running and self.door.http("GET", "/healthz")[0] == 200
        except OSError:
            return False


@asynccontextmanager
async def fuzzed_node(folder: Path) -> AsyncIterator[Fuzzed]:
    """A node that leads, serves, relays and can be controlled."""
    service, admin, relay = free_port(), free_port(), free_port()
    app = APP.replace("PORT", str(service), 1).replace("ADMIN)", f"{admin})", 1)
    environ = {"ADMIN_PASSWORD": "a-password-that-is-not-guessed", "ROTA_RELAY_PORT": str(relay)}
    with NodeUnderTest(folder / "n", "--role", "both", app=app, environ=environ) as node:
        await node.ready()
        yield Fuzzed(node, await Door.of(node), service, admin, relay)


def fuzz_spools(folder: Path, seconds: float, seed: int) -> Tally:
    """Damage a spool's files at random, and open it again: it may have lost messages, and must not fall over them."""
    chance, tally, end = random.Random(seed), Tally(), time.monotonic() + seconds
    good = folder / "good"
    spool = Spool(good, lambda _: None, segment=4096)
    spool.append(messages(200))
    spool.sync()
    spool.close()
    while time.monotonic() < end or tally.sent < FEWEST:
        bad = folder / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        _damage(chance, bad)
        try:
            opened = Spool(bad, lambda _: None, segment=4096)
            while opened.read(50).messages:
                pass
            opened.close()
            tally.note("opened")
        except RotaError as error:
            tally.note(type(error).__name__)
        except Exception as error:  # which of them is what we want to know
            tally.note(type(error).__name__, is_broken=True, sent=error)
    return tally


async def fuzz_logs(folder: Path, seconds: float, seed: int) -> Tally:
    """Damage a log's files at random, and read it: it may have lost records, and must say so in our words."""
    chance, tally, end = random.Random(seed), Tally(), time.monotonic() + seconds
    good, bad = folder / "good-log", folder / "bad-log"
    log_place(f"log://{good}").create(2)
    with open_log(f"log://{good}") as log:
        log.append([NewRecord(value=bytes(number), key=str(number).encode()) for number in range(200)])
    while time.monotonic() < end or tally.sent < FEWEST:
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        _damage(chance, bad)
        try:
            await _read_all(f"log://{bad}")
            tally.note("read")
        except TimeoutError:
            tally.note("waits")  # for records that the damage took away
        except RotaError as error:
            tally.note(type(error).__name__)
        except Exception as error:  # which of them is what we want to know
            tally.note(type(error).__name__, is_broken=True, sent=error)
    return tally


async def _read_all(url: str) -> None:
    async with open_source(url) as source:
        bounds = await source.bounds(await source.partitions())
        reader = await source.reader({partition: each.start for partition, each in bounds.items()})
        try:
            async with asyncio.timeout(0.2):
                while any(reader.positions[partition] < each.end for partition, each in bounds.items()):
                    await reader.read()
        finally:
            await reader.close()


def _damage(chance: random.Random, folder: Path) -> None:
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    for file in chance.sample(files, 1 + len(files) // 3):
        file.write_bytes(mutated(chance, file.read_bytes()))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
