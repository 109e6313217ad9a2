"""`make show-safety [MINUTES=10]`: what safety must show. Takes four times a fuzzer's minutes, and five more."""

import asyncio
import json
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import psutil
from playwright.async_api import Browser, expect

from benchmarks import safety_bench
from rota.doors.http.entry import FREE
from rota.fleet.core.access.gate import Access
from shows.report import Line, show
from tests.kit.browser import open_browser, open_dashboard
from tests.kit.canaries import PLANTED, aviary
from tests.kit.cli import rota
from tests.kit.doors import Door, large
from tests.kit.fuzz import Tally
from tests.kit.fuzzed import GROWTH, fuzz_logs, fuzz_spools, fuzzed_node
from tests.kit.http_caller import Caller
from tests.kit.node import NodeUnderTest
from tests.kit.servers import Postgres
from tests.kit.strangers import another_site, framed, rebound, stolen, visit
from tests.unit.doors import test_every_door as table

SECONDS = 60 * float(os.environ.get("MINUTES", "0.5"))
"""How long each fuzzer runs."""

WARM = 5.0
"""Seconds that each runs before the node's memory is looked at."""

STRANDS = (("HTTP", "HTTP as described", "gRPC"), ("Box frames", "admin frames", "relay lines", "control socket"))
"""Fuzzers that have a node for themselves, one after the other; the strands run at the same time."""

BOUND = 5.0
"""Seconds until a revocation must count everywhere."""

SEEN = ("seen", "open", "run")
"""How an attempt of a page begins to tell that it came to something."""

MARKUP = "<img src=x onerror=alert(1)>"
HOSTILE = """
import asyncio

import rota

app = rota.App("hostile")


@app.resource()
async def room(task: rota.Task) -> None:
    await asyncio.Event().wait()


@app.job()
def hostile(run: rota.Run) -> None:
    print("<img src=x onerror=alert(1)><script>alert(2)</script>")
    print("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\x1b[2Jplain")
"""


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
    """Every fuzzer, for as long as was asked for; those of files in a process of their own."""
    with folder() as place, ProcessPoolExecutor(1, get_context("spawn")) as beside:
        spools, logs = beside.submit(fuzz_spools, place, SECONDS, 1), beside.submit(_fuzz_logs, place)
        yield from asyncio.run(_all_strands(place))
        yield _told("damaged spools", spools.result())
        yield _told("damaged logs", logs.result())


def _fuzz_logs(place: Path) -> Tally:
    return asyncio.run(fuzz_logs(place, SECONDS, 1))


async def _all_strands(place: Path) -> list[Line]:
    strands = [_fuzzed(place / names[0], names) for names in STRANDS]
    return [line for lines in await asyncio.gather(*strands) for line in lines]


async def _fuzzed(place: Path, names: Sequence[str]) -> list[Line]:
    """Some fuzzers, one after the other, at a node of their own."""
    lines = []
    async with fuzzed_node(place) as fuzzed:
        fuzzers = fuzzed.fuzzers
        assert set(fuzzers) == {name for strand in STRANDS for name in strand}
        for name in names:
            await fuzzers[name](WARM, 2)  # first of all they load what they need, and buffers find their size
            before, processes = fuzzed.memory(), len(fuzzed.node.family())
            tally = await fuzzers[name](SECONDS, 1)
            grew, is_well = fuzzed.memory() - before, fuzzed.is_well()
            line = _told(name, tally)
            more = len(fuzzed.node.family()) - processes
            figure = f"{line.figure}; {grew / 2**20:+.0f} MiB, {more:+d} processes"
            lines.append(Line(line.is_ok and is_well and grew < GROWTH, line.item, figure))
        traces = fuzzed.node.errors.read_text().count("Traceback")
        lines.append(Line(traces == 0, f"no traceback in the node's log after {', '.join(names)}", str(traces)))
    return lines


def _told(name: str, tally: Tally) -> Line:
    common = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common(4))
    broken = f"; {tally.broken[0]}" if tally.broken else ""
    return Line(not tally.broken, f"{name}, for {SECONDS:.0f} s: nothing breaks", f"{tally.sent:,}: {common}{broken}")


def what_strangers_send_is_refused_or_harmless() -> Iterator[Line]:
    """Against a real node, as somebody could write it by hand."""
    with folder() as place, NodeUnderTest(place / "n", "--role", "both", app=HOSTILE) as node:
        asyncio.run(node.ready())
        door = asyncio.run(Door.of(node))
        yield from _by_hand(door)
        yield from _too_much(node, door)
        yield from asyncio.run(_in_chromium(door))


def _by_hand(door: Door) -> Iterator[Line]:
    session = json.loads(door.http("POST", "/v1/session", {"token": door.token})[1])
    cookie, without = {"cookie": f"rota_session={door.token}"}, door.showing("")
    own = f"http://{door.address}"
    page, foreign = {"origin": own, "x-rota-csrf": session["csrf"]}, {"origin": "https://evil.example"}
    wanted = {"kind": "room", "id": "1"}
    tries: dict[str, tuple[str, str, object, dict[str, str], tuple[int, ...]]] = {
        "our own page changes something": ("POST", "/v1/resources", wanted, page, (201,)),
        "a foreign POST": ("POST", "/v1/resources", wanted, foreign, (403,)),
        "a POST without the word": ("POST", "/v1/resources", wanted, {"origin": own}, (403,)),
        "a foreign event stream": ("GET", "/v1/events/watch", None, foreign, (403,)),
        "a rebound Host": ("GET", "/v1/nodes", None, {"host": "evil.example"}, (421,)),
        "a log path that climbs": ("GET", "/v1/runs/..%2f..%2fetc/passwd/log", None, {}, (404, 422)),
        "a name that climbs": ("POST", "/v1/resources", {"kind": "room", "id": "../../x"}, page, (422,)),
        "a page's path that climbs": ("GET", "/static/..%2f..%2fpyproject.toml", None, {}, (404,)),
        "a name with HTML": ("GET", "/v1/resources/room/%3Cscript%3E", None, {}, (404, 422)),
    }
    for what, (method, path, body, headers, expected) in tries.items():
        status, _ = without.http(method, path, body, {**cookie, **headers})
        yield Line(status in expected, what, str(status))


def _too_much(node: NodeUnderTest, door: Door) -> Iterator[Line]:
    before = psutil.Process(node.pid).memory_info().rss
    told, endless, deep = large(door), large(door, is_told=False), _raw(door, b"[" * 500_000)
    grew = (psutil.Process(node.pid).memory_info().rss - before) / 2**20
    yield Line(told in (413, 0), "a body that says it has 1 GB is refused before it is there", str(told))
    yield Line(endless in (413, 0), "a body of 1 GB that does not say so is cut", str(endless))
    yield Line(deep == 400, "JSON nested 500,000 deep", str(deep))
    yield Line(grew < 32, "and the node is no larger for it", f"{grew:+.0f} MiB")


async def _in_chromium(door: Door) -> list[Line]:
    lines = []
    async with open_browser() as browser:
        with another_site() as port:
            for host in ("localhost", "127.0.0.1"):
                tried = await visit(browser, door, f"{host}:{port}")
                statuses = ", ".join(map(str, sorted(set(tried.statuses))))
                what = f"Chromium at a page of {host}, another {'site' if host == 'localhost' else 'origin'}"
                lines += [
                    Line(not outcome.startswith(SEEN), f"{what}: {attempt}", outcome)
                    for attempt, outcome in tried.outcomes.items()
                ]
                lines.append(Line(tried.got_through == [], f"{what}: all that the node said", statuses))
            frame = await framed(browser, door, f"127.0.0.1:{port}")
            lines.append(Line(frame.startswith("chrome-error"), "Chromium: the dashboard in a foreign frame", frame))
        lines.append(Line(stolen(door) == [], "nothing was made by all that", str(len(stolen(door)))))
        lines.append(await _markup(browser, door))
    status = await rebound(door)
    lines.append(Line(status == 421, "Chromium at a name that was rebound to the node", str(status)))
    return lines


async def _markup(browser: Browser, door: Door) -> Line:
    """A name with HTML and output with HTML and ANSI, on the dashboard."""
    door.http("POST", "/v1/resources", {"kind": "room", "id": MARKUP})
    run = json.loads(door.http("POST", "/v1/jobs/hostile/run", {})[1])["id"]
    async with open_dashboard(browser, door.address, door.token) as dashboard:
        await dashboard.go("resources")
        await expect(dashboard.page.locator("main")).to_contain_text(MARKUP)
        await dashboard.go("runs", *run.split("/", 1))
        await expect(dashboard.page.locator("main")).to_contain_text("<script>alert(2)</script>")
        errors = dashboard.errors
    return Line(
        errors == [], "Chromium: HTML and ANSI in names and output are text", "; ".join(errors) or "no script ran"
    )


def _raw(door: Door, body: bytes) -> int:
    headers = {"authorization": f"Bearer {door.token}", "content-type": "application/json"}
    request = urllib.request.Request(f"http://{door.address}/v1/resources", body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def no_secret_is_seen_anywhere() -> Iterator[Line]:
    """A canary in every place that takes a secret, and a look at all that anybody can see."""
    with folder() as place, Postgres(place) as server:
        yield from asyncio.run(_canaries(place, server))


async def _canaries(place: Path, server: Postgres) -> list[Line]:
    async with aviary(place, server, "canaries") as found:
        seen = await found.seen()
        leaks, files = found.leaks(seen), found.open_files()
    planted = len(PLANTED) + 1
    return [
        Line(
            leaks == [], f"{planted} canaries, {len(seen)} logs, processes, answers, commands", "; ".join(leaks) or "0"
        ),
        Line(files == [], "no file with one of them is open to others", "; ".join(files) or "0"),
    ]


# The price


def tls_and_tokens_have_their_price() -> Iterator[Line]:
    """The part of the bench, once."""
    for row in safety_bench.rows(1):
        beside = f", {row.bare:,.0f} {row.against} ({row.ratio:.2f}×)" if row.bare and row.ratio else ""
        yield Line(row.ours > 0, f"the price of safety: {row.name}", f"{row.ours:,.0f} {row.unit}{beside}")


PARTS = [
    every_route_and_method_refuses_who_may_not,
    a_revocation_counts_everywhere_in_time,
    no_secret_is_seen_anywhere,
    what_strangers_send_is_refused_or_harmless,
    nothing_falls_over_what_nobody_should_send,
    tls_and_tokens_have_their_price,
]

if __name__ == "__main__":
    show(PARTS)
