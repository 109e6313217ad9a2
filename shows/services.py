"""`make show-services`: what services must show. Takes about ten minutes."""

import asyncio
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from netkit.box import Box
from netkit.contrib.tcp_client import TcpClient

import benchmarks
from benchmarks.load import Ledger, Load, Running
from rota.kit.record import replace
from shows.ground import figure
from shows.report import Line, show
from tests.kit.boxes import HEADER, MAGIC, Asker, box
from tests.kit.process import ROOT
from tests.kit.service_app import ECHO, EXIT, KILL, LATE, NONSENSE, RAISE, SPIN
from tests.kit.service_trials import Served, serving
from tests.kit.waiting import eventually

RELOADS = 200
FLOOD = 30.0
IDLE = 5000
STOPPING = -10006
QUEUE_FULL = -10003
PASSWORD = "hush"
BURSTCTL = Path(sys.executable).with_name("burstctl")


def the_original_client_and_tool_work_unchanged() -> Iterator[Line]:
    """netkit and burstctl, as they come from PyPI."""
    yield from asyncio.run(_originals())


async def _originals() -> list[Line]:
    lines = []
    with tempfile.TemporaryDirectory(prefix="rota-original-") as folder:
        secret = Path(folder) / "secret"
        secret.write_text(PASSWORD)
        admin = f'admin="admin.sock", admin_username="ann", admin_password="file:{secret}"'
        options = f"groups={{1: 2}}, udp=True, {admin}"
        async with serving(Path(folder), options=options) as node:
            await eventually((node.data / "admin.sock").exists)
            tcp, udp = _netkit(node.port)
            lines.append(Line(tcp == udp == b"hello", "netkit's client, TCP and UDP", f"TCP {tcp!r}, UDP {udp!r}"))
            told = json.loads(_burstctl(node, "stat", "--loop", "1"))
            lines.append(Line(told["client_req"] == 2, "burstctl stat", f"{len(told)} fields, 2 requests counted"))
            for what, arguments, password, expected in (
                ("clear", ["clear", "--all"], PASSWORD, "succ."),
                ("reload", ["reload"], PASSWORD, "succ."),
                ("with a wrong password", ["stat", "--loop", "1"], "guess", "fail. rsp_box.ret=-20000"),
                ("stop", ["stop"], PASSWORD, "succ."),
            ):
                said = _burstctl(node, *arguments, password=password)
                lines.append(Line(said == expected, f"burstctl {what}", said))
            await eventually(lambda: not node.is_running)
    return lines


def _netkit(port: int) -> tuple[bytes, bytes]:
    """What netkit's own client, and its own Box in a datagram, are answered."""
    client = TcpClient(Box, "127.0.0.1", port, timeout=10)
    client.connect()
    client.write(Box({"cmd": ECHO, "sn": 1, "body": b"hello"}))
    over_tcp = client.read()
    client.close()
    answer = Box()
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.sendto(Box({"cmd": ECHO, "sn": 2, "body": b"hello"}).pack(), ("127.0.0.1", port))
        answer.unpack(sock.recv(65536))
    return over_tcp.body, answer.body


def _burstctl(node: Served, *arguments: str, password: str = PASSWORD) -> str:
    argv = [str(BURSTCTL), *arguments, "-a", "admin.sock", "-u", "ann", "-p", password]
    done = subprocess.run(argv, cwd=node.data, capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout + done.stderr).strip()


def it_is_many_times_as_fast_as_the_original() -> Iterator[Line]:
    """`make bench`'s part about services, by its own verdicts."""
    for row in benchmarks.run(only="services"):
        yield Line(row.verdict != "short", row.name, figure(row))


def reloads_and_a_stop_lose_nothing() -> Iterator[Line]:
    """200 reloads, then a TERM, with clients that ask without pause."""
    with tempfile.TemporaryDirectory(prefix="rota-reload-") as folder:
        tcp, udp, took, kernel_drops = asyncio.run(_reload_rounds(Path(folder)))
    what = f"{RELOADS} reloads and one TERM under full load"
    yield _lost_nothing(f"{what}, TCP: 0 lost, 0 answered twice", tcp, 0)
    yield _lost_nothing(f"{what}, UDP: 0 lost, 0 answered twice", udp, kernel_drops)
    yield Line(True, "a reload under that load takes", f"{statistics.median(took):.2f} s, {max(took):.2f} s at worst")


async def _reload_rounds(folder: Path) -> tuple[Ledger, Ledger, list[float], int]:
    load = Load(port=0, connections=8, seconds=3600, echo=True, heed=STOPPING, linger=3)
    took = []
    async with serving(folder, "--canary", "0s", options="groups={1: 2}, udp=True") as node:
        await node.at_full_strength()
        with (
            Running(replace(load, port=node.port)) as tcp,
            Running(replace(load, port=node.port, udp=True, timeout=5)) as udp,
        ):
            for _ in range(RELOADS):
                began = time.monotonic()
                await asyncio.to_thread(node.reload)
                took.append(time.monotonic() - began)
            kernel_drops = _udp_drops(node.port)
            os.kill(node.pid, signal.SIGTERM)
            ledgers = await asyncio.to_thread(tcp.ledger), await asyncio.to_thread(udp.ledger)
            await eventually(lambda: not node.is_running)
    return *ledgers, took, kernel_drops


def _udp_drops(port: int) -> int:
    """Datagrams that the system dropped before the proxy could take them."""
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[1].split(":")[1], 16) == port:
            return int(words[-1])
    return 0


def _lost_nothing(item: str, ledger: Ledger, kernel_drops: int) -> Line:
    lost = ledger.lost + ledger.timed_out + ledger.unanswered - kernel_drops
    doubled = ledger.twice + ledger.strange + ledger.late
    is_ok = lost <= 0 and doubled == 0 and set(ledger.rets) <= {0, STOPPING} and not ledger.garbled
    rets = ", ".join(f"{count:,} × {ret}" for ret, count in sorted(ledger.rets.items(), reverse=True))
    dropped = f", {kernel_drops} dropped by the system" if kernel_drops else ""
    return Line(is_ok, item, f"{lost} lost, {doubled} twice{dropped}; {rets}; {ledger.per_second:,.0f}/s")


FAILURES = {
    "raises": (RAISE, -10001, 2.0),
    "returns an int": (NONSENSE, -10001, 2.0),
    "calls sys.exit": (EXIT, -10001, 2.0),
    "is killed −9": (KILL, -10002, 2.0),
    "sleeps past its deadline": (LATE, -10005, 0.3),
    "spins in C": (SPIN, -10005, 0.3),
}


def a_handler_that_fails_costs_one_answer() -> Iterator[Line]:
    """Each way, and when two workers answer again."""
    with tempfile.TemporaryDirectory(prefix="rota-fail-") as folder:
        seen = asyncio.run(_fail_each(Path(folder)))
    for what, (_, expected, deadline) in FAILURES.items():
        ret, answered, back = seen[what]
        yield Line(
            ret == expected and answered <= deadline + 0.25 and back <= 1,
            f"a handler that {what}: one error answer within its deadline, capacity back within 1 s",
            f"{ret} after {answered * 1000:.0f} ms, capacity back after {back * 1000:.0f} ms",
        )


async def _fail_each(folder: Path) -> dict[str, tuple[int, float, float]]:
    seen = {}
    async with serving(folder) as node:
        await node.at_full_strength()
        with node.client() as client:
            for what, (cmd, _, _) in FAILURES.items():
                began = time.monotonic()
                ret = client.ask(cmd).ret
                answered = time.monotonic()
                await node.at_full_strength()
                seen[what] = ret, answered - began, time.monotonic() - answered
                assert client.ask(ECHO).ret == 0  # and nothing came in between
    return seen


@dataclass(frozen=True)
class Flooded:
    """What a flood did."""

    capacity: float
    ledger: Ledger
    pending: int
    """The longest queue seen."""

    memory: tuple[int, int]
    """Bytes of the proxy in the flood's first seconds, and the most after them."""

    back: float
    """Seconds until a request was answered as usual."""


def a_flood_is_refused_quickly() -> Iterator[Line]:
    """Ten times what the workers can do, for half a minute."""
    with tempfile.TemporaryDirectory(prefix="rota-flood-") as folder:
        seen = asyncio.run(_flood(Path(folder)))
    ledger = seen.ledger
    refused, answered = ledger.rets.get(QUEUE_FULL, 0), ledger.rets.get(0, 0)
    what = f"flood at 10× capacity ({seen.capacity:.0f}/s), {FLOOD:g} s"
    yield Line(
        seen.pending <= 100 and refused > answered and not ledger.faults,
        f"{what}: the queue is bounded",
        f"at most {seen.pending} of 100 wait; {answered:,} answered, {refused:,} refused, {len(ledger.faults)} faults",
    )
    yield Line(
        ledger.failed_p99_us < 50_000, f"{what}: refusals p99 under 50 ms", f"{ledger.failed_p99_us / 1000:.1f} ms"
    )
    grown = (seen.memory[1] - seen.memory[0]) / 2**20
    yield Line(
        grown < 8, f"{what}: memory flat (short above 8 MiB)", f"{seen.memory[0] / 2**20:.1f} MiB and {grown:+.1f}"
    )
    yield Line(seen.back <= 2, f"{what}: normal within 2 s of its end", f"{seen.back:.2f} s")


WORK = """

@logic.on(40, group=1)
def work(request):
    time.sleep(0.005)
    return request.body
"""


async def _flood(folder: Path) -> Flooded:
    async with serving(folder, options="groups={1: 2}, queue=100", extra=WORK) as node:
        await node.at_full_strength()
        load = Load(port=node.port, cmd=40, connections=4, seconds=3)
        with Running(load) as running:
            capacity = (await asyncio.to_thread(running.ledger)).per_second
        proxy = _proxy(node)
        flood = replace(load, connections=64, pipeline=64, rate=10 * capacity, seconds=FLOOD, linger=5)
        with Running(flood) as running:
            ends = time.monotonic() + FLOOD
            await asyncio.sleep(5)
            first = most = proxy.memory_info().rss
            pending = 0
            while time.monotonic() < ends:
                pending = max(pending, (await _stat(node))["pending_tasks"]["1"])
                most = max(most, proxy.memory_info().rss)
                await asyncio.sleep(0.5)
            back = await asyncio.to_thread(_until_normal, node, ends)
            ledger = await asyncio.to_thread(running.ledger)
    return Flooded(capacity, ledger, pending, (first, most), back)


def _until_normal(node: Served, ended: float) -> float:
    """Seconds from the flood's end until a request is answered without waiting for others."""
    with node.client() as client:
        while True:
            asked = time.monotonic()
            if client.ask(40).ret == 0 and time.monotonic() - asked < 0.05:
                return time.monotonic() - ended


async def _stat(node: Served) -> dict[str, Any]:
    answer = await asyncio.to_thread(node.rota, "services", "stat", "-o", "json")
    (found,) = json.loads(answer.out)
    return found


def _proxy(node: Served) -> psutil.Process:
    return next(each for each in node.family() if " ".join(each.cmdline()).startswith("rota: proxy"))


GARBAGE = {
    "1-byte chunks": b"",
    "2 GiB length": HEADER.pack(MAGIC, 0, 0, 0x7FFFFFFF, 1, 0, 1),
    "garbage": os.urandom(4096),
}


def what_clients_do_costs_the_others_nothing() -> Iterator[Line]:
    """Others ask meanwhile, and their answers are timed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="rota-hostile-") as folder:
        seen = asyncio.run(_hostile(Path(folder)))
    for what, (before, after, grown, remark) in seen.items():
        yield Line(
            grown < 64 * 2**20 and after < max(10 * before, 0.05),
            f"{what}: bounded memory, others unaffected",
            f"proxy {grown / 2**20:+.1f} MiB; p99 of others {before * 1000:.1f} ms before, {after * 1000:.1f} ms "
            f"meanwhile{remark}",
        )


async def _hostile(folder: Path) -> dict[str, tuple[float, float, int, str]]:
    seen = {}
    async with serving(folder, options="groups={1: 2}") as node:
        await node.at_full_strength()
        before = _p99(node)
        for what, data in GARBAGE.items():
            memory = _proxy(node).memory_info().rss
            with ExitStack() as stack:
                clients = [stack.enter_context(node.client()) for _ in range(100)]
                if data:
                    for client in clients:
                        client.sock.sendall(data)
                else:
                    _drip(clients)
                after = _p99(node)
                hung_up = sum(client.is_hung_up() for client in clients) if data else 0
            remark = f"; {hung_up} of 100 hung up on" if data else "; 100 of 100 answered"
            assert hung_up == (100 if data else 0)
            seen[f"100 clients with {what}"] = before, after, _proxy(node).memory_info().rss - memory, remark
        memory = _proxy(node).memory_info().rss
        with ExitStack() as stack:
            clients = [stack.enter_context(node.client()) for _ in range(IDLE)]
            assert clients[-1].ask(ECHO).ret == 0
            there = (await _stat(node))["clients"]
            remark = f"; {there:,} connections"
            seen[f"{IDLE:,} idle connections"] = before, _p99(node), _proxy(node).memory_info().rss - memory, remark
    return seen


def _drip(clients: list[Asker]) -> None:
    """A request of each, a byte at a time."""
    for byte in box(ECHO, b"drop by drop", 1):
        for client in clients:
            client.sock.sendall(bytes([byte]))
    for client in clients:
        assert client.receive().body == b"drop by drop"


def _p99(node: Served) -> float:
    """The 99th percentile of 500 requests, one after the other, in seconds."""
    took = []
    with node.client() as client:
        for _ in range(500):
            began = time.monotonic()
            assert client.ask(ECHO, b"x").ret == 0
            took.append(time.monotonic() - began)
    return sorted(took)[-5]


if __name__ == "__main__":
    os.chdir(ROOT)
    show(
        [
            the_original_client_and_tool_work_unchanged,
            a_handler_that_fails_costs_one_answer,
            what_clients_do_costs_the_others_nothing,
            a_flood_is_refused_quickly,
            reloads_and_a_stop_lose_nothing,
            it_is_many_times_as_fast_as_the_original,
        ]
    )
