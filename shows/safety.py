"""`make show-safety [MINUTES=10]`: what safety must show. Takes the six fuzzers' minutes, and three more."""

import asyncio
import json
import os
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import grpc

from rota.api.entry import FREE
from rota.decide.access import Access
from shows.report import Line, show
from tests.kit.certificates import Authority
from tests.kit.cli import rota
from tests.kit.doors import Door
from tests.kit.fuzz import Tally
from tests.kit.fuzzed import GROWTH, fuzz_logs, fuzz_spools, fuzzed_node
from tests.kit.node import NodeUnderTest
from tests.unit.api import test_every_door as table
from tests.unit.api.test_resources_http import Caller

SECONDS = 60 * float(os.environ.get("MINUTES", "0.5"))
"""How long each fuzzer runs."""

BOUND = 5.0
"""Seconds until a revocation must count everywhere."""

CALLS = 300


@contextmanager
def folder() -> Iterator[Path]:
    """A place that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rota-safety-") as place:
        yield Path(place)


# Every door


def every_route_and_method_refuses_who_may_not() -> Iterator[Line]:
    """As the application lists them: none, unknown, expired, revoked, tampered, cut, and every role."""
    routes = list(table.ROUTES)
    asyncio.run(_routes(routes))
    asked = len(table.BAD) + len(Access)
    yield Line(True, "every HTTP route refuses who may not, notes it, and lets in who may", f"{len(routes)} × {asked}")
    asyncio.run(table.test_every_method_refuses_who_may_not_and_lets_in_who_may())
    yield Line(True, "so does every gRPC method", f"{len(table.METHODS)} × {asked}")


async def _routes(routes: list[tuple[str, str]]) -> None:
    for method, path in routes:
        await table.test_a_route_refuses_who_may_not_and_lets_in_who_may(method, path)
    guarded = table.Guarded()
    for path in FREE:
        assert (await Caller(guarded.app, "")("GET", path)).status in (200, 503)


def a_revocation_counts_everywhere_in_time() -> Iterator[Line]:
    """A token, on two nodes, over both protocols."""
    with folder() as place:
        store = f"sqlite:///{place}/rota.db"
        with NodeUnderTest(place / "a", store=store) as one, NodeUnderTest(place / "b", name="b", store=store) as other:
            took = asyncio.run(_revoked([one, other], place))
    yield Line(took < BOUND, f"a revoked token is refused by both nodes within {BOUND:g} s", f"{took:.2f} s")


async def _revoked(nodes: list[NodeUnderTest], place: Path) -> float:
    for node in nodes:
        await node.ready()
    token = rota("token", "create", "ci", "--role", "view", "--store", nodes[0].store, cwd=place).out.strip()
    doors = [(await Door.of(node)).showing(token) for node in nodes]
    await _until(doors, 200)
    rota("token", "revoke", "ci", "--store", nodes[0].store, cwd=place)
    began = time.monotonic()
    await _until(doors, 401)
    return time.monotonic() - began


async def _until(doors: list[Door], status: int) -> None:
    end = time.monotonic() + 20
    while any(door.http("GET", "/v1/nodes")[0] != status for door in doors):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


# What nobody should send


def nothing_falls_over_what_nobody_should_send() -> Iterator[Line]:
    """Every fuzzer, for as long as was asked for."""
    with folder() as place:
        yield from asyncio.run(_fuzzed(place))
        yield _told("damaged spools", fuzz_spools(place, SECONDS, 1))
        yield _told("damaged logs", asyncio.run(fuzz_logs(place, SECONDS, 1)))


async def _fuzzed(place: Path) -> list[Line]:
    lines = []
    async with fuzzed_node(place) as fuzzed:
        for name, fuzz in fuzzed.fuzzers.items():
            before = fuzzed.memory()
            tally = await fuzz(SECONDS, 1)
            grew, is_well = fuzzed.memory() - before, fuzzed.is_well()
            line = _told(name, tally)
            figure = f"{line.figure}; {grew / 2**20:+.0f} MiB"
            lines.append(Line(line.is_ok and is_well and grew < GROWTH, line.item, figure))
        traces = fuzzed.node.errors.read_text().count("Traceback")
        lines.append(Line(traces == 0, "no traceback in the node's log after all that", str(traces)))
    return lines


def _told(name: str, tally: Tally) -> Line:
    common = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common(4))
    broken = f"; {tally.broken[0]}" if tally.broken else ""
    return Line(not tally.broken, f"{name}, for {SECONDS:.0f} s: nothing breaks", f"{tally.sent:,}: {common}{broken}")


def a_page_of_another_site_gets_nowhere() -> Iterator[Line]:
    """Against a real node, as a browser would send it."""
    with folder() as place, NodeUnderTest(place / "n") as node:
        asyncio.run(node.ready())
        door = asyncio.run(Door.of(node))
        session = json.loads(door.http("POST", "/v1/session", {"token": door.token})[1])
        cookie = {"cookie": f"rota_session={door.token}"}
        without = door.showing("")
        page = {"origin": f"http://{door.address}", "x-rota-csrf": session["csrf"]}
        wanted = {"kind": "room", "id": "1"}
        tries: dict[str, tuple[str, str, object, dict[str, str], tuple[int, ...]]] = {
            "our own page changes something": ("POST", "/v1/resources", wanted, {**cookie, **page}, (201,)),
            "a foreign POST": ("POST", "/v1/resources", wanted, {**cookie, "origin": "https://evil.example"}, (403,)),
            "a POST without the word": ("POST", "/v1/resources", wanted, {**cookie, "origin": page["origin"]}, (403,)),
            "a foreign event stream": (
                "GET",
                "/v1/events/watch",
                None,
                {**cookie, "origin": "https://x.example"},
                (403,),
            ),
            "a rebound Host": ("GET", "/v1/nodes", None, {**cookie, "host": "evil.example"}, (421,)),
            "a path that climbs": ("GET", "/v1/runs/..%2f..%2fetc/passwd/log", None, cookie, (404, 422)),
            "a name with HTML": ("GET", "/v1/resources/room/%3Cscript%3E", None, cookie, (404, 422)),
        }
        for what, (method, path, body, headers, expected) in tries.items():
            status, _ = without.http(method, path, body, headers)
            yield Line(status in expected, what, str(status))
        yield Line(_large(door) in (413, 0), "a body of 1 GB is refused before it is there", str(_large(door)))
        deep = _raw(door, b"[" * 500_000)
        yield Line(deep == 400, "JSON nested 500,000 deep", str(deep))


def _large(door: Door) -> int:
    """The status for a body that says it has 1 GB; 0 if the door just closes."""
    connection = HTTPConnection(door.address, timeout=15)
    told = {"authorization": f"Bearer {door.token}", "content-type": "application/json", "content-length": str(2**30)}
    try:
        connection.putrequest("POST", "/v1/resources")
        for name, value in told.items():
            connection.putheader(name, value)
        connection.endheaders(b"{")
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def _raw(door: Door, body: bytes) -> int:
    headers = {"authorization": f"Bearer {door.token}", "content-type": "application/json"}
    request = urllib.request.Request(f"http://{door.address}/v1/resources", body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


# The price


def tls_and_tokens_have_their_price() -> Iterator[Line]:
    """Calls one after the other on one connection, of the same node with TLS and without."""
    with folder() as place:
        plain = asyncio.run(_rates(place / "plain", None))
        secured = asyncio.run(_rates(place / "secured", Authority(place / "tls")))
    for what in plain:
        figure = f"{plain[what]:,.0f} a second without TLS, {secured[what]:,.0f} with it"
        yield Line(secured[what] > plain[what] / 3, f"the price of TLS: {what}", figure)


async def _rates(place: Path, authority: Authority | None) -> dict[str, float]:
    name = NodeUnderTest(place, name="n").name
    certificates = authority.issue(name) if authority else None
    flags = ("--tls", certificates) if certificates else ()
    with NodeUnderTest(place, *flags, name="n") as node:
        await node.ready()
        door = await Door.of(node)
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem")) if certificates else None
        rates = {
            "health, without a token": _rate(door, context, "/livez", {}),
            "the node, with a token": _rate(door, context, "/v1/node", {"authorization": f"Bearer {door.token}"}),
        }
        rates["gRPC health"] = await _grpc_rate(door, certificates)
    return rates


def _rate(door: Door, context: ssl.SSLContext | None, path: str, headers: dict[str, str]) -> float:
    connection = (
        HTTPSConnection(door.address, timeout=15, context=context)
        if context
        else HTTPConnection(door.address, timeout=15)
    )
    began = time.monotonic()
    for _ in range(CALLS):
        connection.request("GET", path, headers=headers)
        connection.getresponse().read()
    connection.close()
    return CALLS / (time.monotonic() - began)


async def _grpc_rate(door: Door, certificates: Path | None) -> float:
    if certificates is None:
        channel = grpc.aio.insecure_channel(door.grpc)
    else:
        files = [(certificates / name).read_bytes() for name in ("ca.pem", "key.pem", "cert.pem")]
        channel = grpc.aio.secure_channel(door.grpc, grpc.ssl_channel_credentials(*files))
    async with channel:
        ask = channel.unary_unary("/grpc.health.v1.Health/Check")
        await ask(b"", timeout=10)
        began = time.monotonic()
        for _ in range(CALLS):
            await ask(b"", timeout=10)
        return CALLS / (time.monotonic() - began)


PARTS = [
    every_route_and_method_refuses_who_may_not,
    a_revocation_counts_everywhere_in_time,
    a_page_of_another_site_gets_nowhere,
    nothing_falls_over_what_nobody_should_send,
    tls_and_tokens_have_their_price,
]

if __name__ == "__main__":
    show(PARTS)
