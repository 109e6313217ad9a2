"""A crowd at the doors: every operation, with the worst arguments a caller may give, by many callers at once.

Operations are those that the doors themselves list, over HTTP and gRPC. What the worst value of an argument is says
`WORST`; an argument that is not in it raises, so that a new one cannot be forgotten. Operations that change something
are asked for what is not there, with a large body.

`crowd` runs a fleet with much in its store and lets the crowd come. `Report` says how close each lease came to its end
(as the node measured it at each renewal), whether any session ended, and how long the slowest probe took.

`python -m tests.kit.crowd --seconds 150` does that with every role and 50 callers, and prints the report.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import grpc
import msgspec
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import MethodDescriptor

from rota.doors.grpc import door as grpc_door
from rota.doors.grpc.methods import StreamingMethod
from rota.doors.http import routes as resources
from rota.doors.http.calls import Endpoint
from rota.doors.verbs import OPERATIONS
from rota.fleet.core.access.gate import Access
from rota.jobs.core.due import new_run
from rota.jobs.core.records import Cause, JobSpec, Origin, RunState
from rota.jobs.fleet import verbs
from rota.kit.record import replace
from rota.model import codec, keys
from rota.store import Put, Store, open_store
from tests.kit.doors import Door
from tests.kit.fleet import Fleet, resource
from tests.kit.waiting import eventually

NOBODY = "nobody"
LEAP = JobSpec(name="leap", cron="0 0 29 2 *", tz="Europe/Berlin", argv=["/bin/true"])
ONCE = datetime(2026, 1, 1, tzinfo=UTC)
RUN = new_run(LEAP, ONCE, Cause.SCHEDULE, ONCE)
LARGE = '{"nothing":[' + "[]," * 300_000 + "[]]}"
"""A body that is just small enough, and costs much to decode."""

HOLD = 0.3
"""Seconds for which a stream is read."""

PATIENCE = 60.0
"""Seconds for which a caller waits."""

NOT_GIVEN = object()

WORST: dict[str, Any] = {
    "kind": "room", "id": "r0", "name": LEAP.name, "job": LEAP.name, "moment": RUN.id.partition("/")[2], "run": RUN.id,
    "service": "logic", "prefix": "z", "pending": True, "all": True, "limit": 1000, "token": NOT_GIVEN, "after": 1,
    "rebalance": True, "without": NOT_GIVEN, "add": 1000, "like": NOT_GIVEN, "kinds": ["no.such"], "count": 1000,
    "since": "2000-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z", "first": "2000-01-01T00:00:00Z",
    "last": "2026-01-01T00:00:00Z", "force": True, "state": "lost", "states": ["lost"], "attempt": NOT_GIVEN,
    "offset": 0, "wait": "1s", "by": NOBODY, "refused": True, "noted": "0" * 64, "tail": 1000,
}  # fmt: skip
"""What costs most, by the name of the argument. `node` is the node that is asked."""

OTHERWISE: dict[tuple[str, str], Any] = {
    ("list_resources", "kind"): NOT_GIVEN,  # a prefix without a kind reads all of them
    ("list_resources", "pending"): False,
    ("watch_resources", "after"): NOT_GIVEN,  # from the beginning
    ("watch_resources", "prefix"): "",
    ("watch_events", "after"): NOT_GIVEN,
    ("read_events", "kind"): "no.such",
    ("watch_events", "kind"): "no.such",
    ("preview_job", "after"): "1900-01-01T00:00:00Z",
    ("list_jobs", "prefix"): "",
    ("list_runs", "job"): NOT_GIVEN,
    ("read_printed", "after"): NOT_GIVEN,  # from the first line that is kept, on every node
    ("read_printed", "node"): NOT_GIVEN,
    ("follow_printed", "after"): NOT_GIVEN,
    ("follow_printed", "node"): NOT_GIVEN,
    ("node_printed", "after"): NOT_GIVEN,
}
"""Where another value costs more."""


@dataclass(frozen=True)
class Asked:
    """One operation at one door, with its arguments."""

    name: str
    operation: str
    goes_on: bool
    http: bytes = b""
    """The request without its token; empty for gRPC."""

    content: bytes = b""

    @property
    def needs(self) -> Access:
        return OPERATIONS[self.operation]


class Unsaid(LookupError):
    """Nobody said what the worst value of an argument is."""


def worst(operation: str, name: str, node: str) -> Any:
    """The worst value of an argument; Unsaid if there is none in `WORST`."""
    if OPERATIONS[operation] is not Access.VIEW and name in ("id", "name", "node", "run", "moment", "job", "service"):
        return NOBODY
    if (operation, name) in OTHERWISE:
        return OTHERWISE[operation, name]
    if name == "node":
        return node
    try:
        return WORST[name]
    except KeyError:
        raise Unsaid(f"{operation} takes {name}: say in tests/kit/crowd.py which value costs most") from None


def over_http(node: str, address: str) -> Iterator[Asked]:
    """Every endpoint."""
    for endpoint in resources.table():
        yield _request(endpoint, node, address)
    for path in ("/metrics", "/v1/node", "/openapi.json", "/v1/session"):
        yield Asked(f"GET {path}", "list_kinds", False, _head("GET", path, address))


def _request(endpoint: Endpoint, node: str, address: str) -> Asked:
    path, goes_on = endpoint.path, endpoint.path.endswith(("/watch", "/follow"))
    for part in (each[1:-1] for each in path.split("/") if each.startswith("{")):
        path = path.replace(f"{{{part}}}", quote(str(worst(endpoint.operation, part, node)), safe=""))
    given = {name: worst(endpoint.operation, name, node) for name in endpoint.parameters}
    shown = {name: json.dumps(value) if isinstance(value, bool) else value for name, value in given.items()}
    if query := urlencode({name: value for name, value in shown.items() if value is not NOT_GIVEN}):
        path = f"{path}?{query}"
    body = LARGE if endpoint.method in ("POST", "PUT", "PATCH") else ""
    head = _head(endpoint.method, path, address, body)
    return Asked(f"{endpoint.method} {endpoint.path}", endpoint.operation, goes_on, head)


def _head(method: str, path: str, address: str, body: str = "") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: {address}", "connection: close", "content-type: application/json"]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "authorization: Bearer TOKEN", "", body]).encode()


def over_grpc(node: str) -> Iterator[Asked]:
    """Every method of every service."""
    for service in grpc_door.SERVICES:
        for method in service.methods:
            found = grpc_door.METHODS[method.full_name]
            content = _message(method, found.operation, node)
            name = f"/{service.full_name}/{method.name}"
            yield Asked(name, found.operation, isinstance(found, StreamingMethod), content=content)


def _message(method: MethodDescriptor, operation: str, node: str) -> bytes:
    fields = method.input_type.fields_by_name
    if OPERATIONS[operation] is Access.VIEW:
        given = {name: worst(operation, name, node) for name in fields}
    else:
        given = {name: NOBODY for name in ("kind", "id", "name", "node", "run", "service") if name in fields}
        given |= {name: LARGE for name in ("spec_json", "payload_json") if name in fields}
    wanted = {name: value for name, value in given.items() if value is not NOT_GIVEN}
    made = message_factory.GetMessageClass(method.input_type)()
    return json_format.ParseDict(wanted, made).SerializeToString()


# The crowd


@dataclass
class Report:
    """What came of it."""

    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    """Answers that must not come: errors of ours."""

    operations: int = 0
    """Operations of both doors, for each role."""

    not_asked: int = 0
    """Those that there was no time for."""

    volleys: list[tuple[float, float, str]] = field(default_factory=list)
    """Of each operation that was asked: from when to when its callers waited for their answers, and its name."""

    least_left: dict[str, float] = field(default_factory=dict)
    """By node: the part of the ttl that was left of its lease at the latest of its renewals."""

    sessions_kept: bool = False
    """Does every node have the session that it had before?"""

    leader_kept: bool = False
    exclusive_kept: bool = False
    """Did every exclusive task go on in the process that it had?"""

    probes: int = 0
    slowest_probe: float = 0.0
    meanwhile: list[str] = field(default_factory=list)
    """What was asked while the slowest probe waited."""

    failed_probes: int = 0


class Crowd:
    """Callers of one node."""

    def __init__(self, door: Door, report: Report) -> None:
        self._door, self._report = door, report
        self._stack = AsyncExitStack()
        self._channels: list[grpc.aio.Channel] = []

    async def __aenter__(self) -> "Crowd":
        for number in range(5):
            apart = (("grpc.use_local_subchannel_pool", 1), ("rota.number", number))
            channel = grpc.aio.insecure_channel(self._door.grpc, options=apart)
            self._channels.append(await self._stack.enter_async_context(channel))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def ask_at_once(self, asked: Asked, token: str, callers: int) -> None:
        """One operation, by so many callers."""
        ask, began = self._ask_http if asked.http else self._ask_grpc, time.time()
        outcomes = await asyncio.gather(*(ask(asked, token, number) for number in range(callers)))
        self._report.calls += callers
        self._report.outcomes.update(outcomes)
        self._report.volleys.append((began, time.time(), asked.name))
        for outcome in set(outcomes) & {"500", "INTERNAL", "UNKNOWN"}:
            self._report.broken.append(f"{asked.name}: {outcome}")

    async def _ask_http(self, asked: Asked, token: str, _: int) -> str:
        host, _, port = self._door.address.rpartition(":")
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(asked.http.replace(b"TOKEN", token.encode(), 1))
                status = (await reader.readline()).split()
                if asked.goes_on:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(), HOLD)
                else:
                    await reader.read()
                return status[1].decode() if len(status) > 1 else "closed"
        except TimeoutError:
            return "no answer"
        except OSError:
            return "closed"
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _ask_grpc(self, asked: Asked, token: str, number: int) -> str:
        shown = (("authorization", f"Bearer {token}"),)
        channel = self._channels[number % len(self._channels)]
        try:
            if not asked.goes_on:
                await channel.unary_unary(asked.name)(asked.content, timeout=PATIENCE, metadata=shown)
                return "OK"
            stream = channel.unary_stream(asked.name)(asked.content, timeout=HOLD, metadata=shown)
            async for _ in stream:
                pass
            return "OK"
        except grpc.aio.AioRpcError as error:
            is_end = asked.goes_on and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            return "OK" if is_end else error.code().name


async def fill(store: Store, count: int) -> None:
    """Much of everything: resources that find no place, jobs, and runs that are over."""
    rooms = [Put(keys.resource("room", f"r{n}"), codec.encode(resource("room", f"r{n}"))) for n in range(count)]
    over = [
        msgspec.structs.replace(
            new_run(LEAP, ONCE - timedelta(minutes=n), Cause.SCHEDULE, ONCE), state=RunState.SUCCEEDED, ended=ONCE
        )
        for n in range(count)
    ]
    runs = [Put(keys.run(run.id), codec.encode(run)) for run in over]
    for number in range(min(count // 10, 300)):
        name = LEAP.name if not number else f"leap{number}"
        await verbs.put_job(store, replace(LEAP, name=name), Origin.API, "crowd")
    puts = [*rooms, *runs]
    for begin in range(0, len(puts), 100):
        await store.commit(*puts[begin : begin + 100])


def tokens(door: Door, roles: Iterable[Access]) -> dict[Access, str]:
    """A token of each role."""
    found = {}
    for role in roles:
        status, said = door.http("POST", "/v1/tokens", {"name": f"crowd-{role}", "role": str(role)})
        assert status == 201, said
        found[role] = json.loads(said)["token"]
    return found


async def crowd(
    folder: Path,
    *,
    nodes: int = 1,
    callers: int = 50,
    seconds: float = 0.0,
    roles: Sequence[Access] = (Access.VIEW,),
    resources: int = 2000,
    seed: int = 0,
) -> Report:
    """Every operation for each role, by so many callers: once, and then again and again while there is time."""
    report, url = Report(), f"sqlite:///{folder}/crowd.db"
    names = [f"n{number}" for number in range(nodes)]
    async with open_store(url) as store:
        with Fleet(folder, url, store, names) as fleet:
            await fleet.ready()
            await fleet.add(["s0", "s1"], kind="single")
            await fleet.until_running(2)
            await fill(store, resources)
            doors = {name: await Door.of(node) for name, node in fleet.nodes.items()}
            before = {name: await node.status() for name, node in fleet.nodes.items()}
            shown = tokens(next(iter(doors.values())), roles)
            await _until_known(doors.values(), shown.values())
            acting = _acting(fleet)
            probing = await _start_probing([door.address for door in doors.values()])
            try:
                await _come(fleet, doors, shown, callers, seconds, seed, report)
            finally:
                await _stop_probing(probing, report)
            after = {name: await node.status() for name, node in fleet.nodes.items()}
            report.sessions_kept = all(after[name]["session"] == before[name]["session"] for name in names)
            report.leader_kept = [after[name]["term"] for name in names] == [before[name]["term"] for name in names]
            report.exclusive_kept = _acting(fleet) == acting
            for name, door in doors.items():
                report.least_left[name] = _least_left(door) / 10.0
    return report


async def _come(
    fleet: Fleet,
    doors: dict[str, Door],
    shown: dict[Access, str],
    callers: int,
    seconds: float,
    seed: int,
    report: Report,
) -> None:
    end, chance = time.monotonic() + seconds, random.Random(seed)
    async with AsyncExitStack() as stack:
        crowds = [await stack.enter_async_context(Crowd(door, report)) for door in doors.values()]
        names = [node.name for node in fleet.nodes.values()]
        addresses = [door.address for door in doors.values()]
        asked = [[*over_http(names[n], addresses[n]), *over_grpc(names[n])] for n in range(len(crowds))]
        once = [(number, role) for role in shown for number in range(len(asked[0]))]
        report.operations, report.not_asked = len(once), len(once)
        waiting = iter(once if not seconds else _again_and_again(once, chance))

        async def come(place: int) -> None:
            for number, role in waiting:
                await crowds[place].ask_at_once(asked[place][number], shown[role], callers)
                report.not_asked = max(0, report.not_asked - 1)
                if seconds and not report.not_asked and time.monotonic() > end:
                    return

        await asyncio.gather(*(come(place) for place in range(len(crowds))))


def _again_and_again(once: list[tuple[int, Access]], chance: random.Random) -> Iterator[tuple[int, Access]]:
    while True:
        yield from once
        chance.shuffle(once)


async def _until_known(doors: Iterable[Door], shown: Iterable[str]) -> None:
    """Wait until every node knows every token."""
    for door in doors:
        for token in shown:
            viewer = door.showing(token)
            await eventually(lambda viewer=viewer: viewer.http("GET", "/v1/kinds")[0] != 401)


def _acting(fleet: Fleet) -> dict[str, str]:
    """The epoch in which each exclusive task acted last."""
    notes = [line for node in fleet.nodes.values() for line in node.notes() if line[0] == "act"]
    return {line[1]: line[2] for line in sorted(notes, key=lambda line: float(line[3]))}


def _least_left(door: Door) -> float:
    for _ in range(30):
        status, said = door.http("GET", "/metrics")
        if status == 200:
            lines = [line.split() for line in said.splitlines()]
            return next(float(line[1]) for line in lines if line[0] == "rota_lease_least_left_seconds")
        time.sleep(1)
    raise AssertionError(f"{door.address} does not show its metrics: {said}")


# Probes, from a process of their own: this one is busy being the crowd


async def _start_probing(addresses: Sequence[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.kit.crowd", "--probe", *addresses,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def _stop_probing(probing: asyncio.subprocess.Process, report: Report) -> None:
    said, _ = await probing.communicate(b"\n")
    report.probes, report.failed_probes, report.slowest_probe, at = json.loads(said)
    until = at + report.slowest_probe
    report.meanwhile = [name for began, ended, name in report.volleys if began < until and ended > at]


async def _probe(addresses: Sequence[str]) -> tuple[int, int, float, float]:
    """Ask for health until there is something in stdin: how often, in vain, how long the slowest took, and when."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    count, failed, slowest, at = 0, 0, 0.0, 0.0
    while not stop.is_set():
        for address in addresses:
            for path in ("/livez", "/readyz"):
                began = time.time()
                failed += not await _is_well(address, path)
                count += 1
                if (took := time.time() - began) > slowest:
                    slowest, at = took, began
        await asyncio.sleep(0.05)
    return count, failed, slowest, at


async def _is_well(address: str, path: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n".encode())
            status = (await reader.readline()).split()
            writer.close()
            return status[1:2] == [b"200"]
    except (OSError, TimeoutError):
        return False


def render(report: Report, callers: int) -> str:
    """The report, for people."""
    margin = min(report.least_left.values())
    answered = ", ".join(f"{outcome} × {count:,}" for outcome, count in report.outcomes.most_common())
    took = sorted(((ended - began, name) for began, ended, name in report.volleys), reverse=True)
    slowest = ", ".join(f"{name} {seconds:.1f} s" for seconds, name in took[:5])
    return "\n".join(
        [
            f"operations × roles          {report.operations}, not asked {report.not_asked}; {callers} callers at once",
            f"calls                       {report.calls:,}",
            f"answers                     {answered}",
            f"errors of ours              {len(report.broken)} {' '.join(report.broken[:5])}",
            f"smallest lease margin       {margin:.2f} of a ttl (promised: 0.50)",
            f"sessions kept               {'all' if report.sessions_kept else 'NOT ALL'}",
            f"leader kept                 {'yes' if report.leader_kept else 'NO'}",
            f"exclusive tasks kept        {'all' if report.exclusive_kept else 'NOT ALL'}",
            f"probes                      {report.probes:,}, {report.failed_probes} failed",
            f"slowest probe               {report.slowest_probe:.2f} s (promised on a quiet machine: 1.00)",
            f"asked meanwhile             {', '.join(report.meanwhile)}",
            f"slowest answers             {slowest}",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Every operation, by a crowd, while a fleet works.")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--callers", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--resources", type=int, default=2000)
    parser.add_argument("--probe", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.probe:
        sys.stdout.write(json.dumps(asyncio.run(_probe(given.probe))))
        return 0
    logging.basicConfig(level=logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="rota-crowd-") as folder:
        report = asyncio.run(
            crowd(
                Path(folder),
                nodes=given.nodes,
                callers=given.callers,
                seconds=given.seconds,
                roles=[Access.VIEW, Access.OPERATE, Access.ADMIN],
                resources=given.resources,
            )
        )
    sys.stdout.write(f"{render(report, given.callers)}\n")
    is_kept = report.sessions_kept and report.leader_kept and report.exclusive_kept and not report.broken
    return 0 if is_kept and min(report.least_left.values()) >= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
