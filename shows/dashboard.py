"""`make show-dashboard`: what the dashboard must show. Takes about thirteen minutes; pictures are left in `.rota/show`.

`MINUTES=1` watches the page's memory for one minute instead of ten.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, expect

from rota.jobs.core.records import Cause, Outcome, RunRecord, RunState
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.store import Put, Store, open_store
from shows.report import Line, show
from tests.kit.browser import NARROW, WIDE, Dashboard, open_browser, open_dashboard
from tests.kit.doors import Door
from tests.kit.fleet import Fleet
from tests.kit.process import ROOT

RESOURCES, RUNS = 1_000, 10_000
PAINT = 1_000.0
"""Milliseconds within which a screen must show its content, from the moment its address is entered."""

BEHIND = 1_000.0
"""Milliseconds that the page may be behind what happened."""

PAINTS = 3
"""How often each screen is opened."""

# The page says itself when something was there: who asks it from outside learns of it at the next look only, and a
# driver of browsers looks once or twice a second.
PAINTED = """
window.painted = new Promise((tell) => {
  const look = () => {
    const isThere = document.querySelector("main .panel") && !document.querySelector("main .bones");
    if (isThere) requestAnimationFrame(() => setTimeout(() => tell(performance.now())));
    else requestAnimationFrame(look);
  };
  look();
});
"""
"""Tells a window's milliseconds from when its address was entered until it has painted the content of its screen."""

SHOWN = """
(selector) => new Promise((tell) => {
  const look = () => {
    if (document.querySelector(selector)) tell(performance.timeOrigin + performance.now());
    else requestAnimationFrame(look);
  };
  look();
})
"""
"""When something is on the page, in milliseconds since 1970."""

CHANGES = 20
"""How often something is changed to see when the page shows it."""

FLAT = 1.2
"""By how much the page's memory may have grown in the end, from its first minute on."""

TOKEN = "rota_a-token-of-the-show"
PICTURES = ROOT / ".rota/show"
JOBS = tuple(f"job-{number:02d}" for number in range(20))
"""Of each job a thousand runs are kept; these have fewer."""

SCREENS = (
    "overview",
    "nodes",
    "placement",
    "resources",
    "services",
    "streams",
    "jobs",
    "runs",
    "events",
    "hooks",
    "audit",
)
HOSTILE = "<img src=x onerror=alert(1)> 🚀 'q'"
APP = """
import asyncio
import rota

app = rota.App("shown")


@app.resource(replicas=1)
async def room(task: rota.Task) -> None:
    await asyncio.Event().wait()


logic = app.service("logic", port=0, groups={1: 2})


@logic.on(101, group=1)
def login(request):
    return b"ok"


@app.job()
def hostile(run: rota.Run) -> None:
    print("<script>alert(2)</script> \\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\U0001f680")
    print("x" * 10_000)
"""


@dataclass(frozen=True)
class Stage:
    """A fleet with much in it, and a browser."""

    door: Door
    store: Store
    browser: Browser

    @asynccontextmanager
    async def dashboard(self, size: tuple[int, int] = WIDE) -> AsyncIterator[Dashboard]:
        """A page, whose user has come in."""
        async with open_dashboard(self.browser, self.door.address, TOKEN, size) as dashboard:
            yield dashboard

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the API says, asked beside the page."""
        status, text = await asyncio.to_thread(self.door.http, method, path, body)
        assert status < 300, text
        return json.loads(text) if text else None


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Three nodes on SQLite with a thousand resources and ten thousand runs."""
    with tempfile.TemporaryDirectory(prefix="rota-show-") as folder:
        url, environ = f"sqlite:///{folder}/rota.db", {"ROTA_TOKEN": "env:SHOW_TOKEN", "SHOW_TOKEN": TOKEN}
        async with open_store(url) as store:
            with Fleet(
                Path(folder), url, store, ("a", "b", "c"), "--slots", RESOURCES, app=APP, environ=environ
            ) as fleet:
                await fleet.ready()
                await fleet.add(f"r{number:04d}" for number in range(RESOURCES))
                await fleet.until_placed(RESOURCES, 1, within=60)
                await _write_history(store, NodeId(fleet.nodes["a"].name))
                doors = (await fleet.nodes["a"].status())["doors"]
                async with open_browser() as browser:
                    yield Stage(Door(doors["http"], doors["grpc"], TOKEN), store, browser)


async def _write_history(store: Store, node: NodeId) -> None:
    """Runs that are over, as if they had been."""
    first = datetime.now(UTC).replace(microsecond=0) - timedelta(days=3)
    puts = []
    for number in range(RUNS):
        due = first + timedelta(seconds=20 * number)
        job = JOBS[number % len(JOBS)]
        state = RunState.FAILED if number % 17 == 0 else RunState.SUCCEEDED
        outcome = Outcome(state=state, started=due, seconds=1.5, error="it failed" if state is RunState.FAILED else "")
        run = RunRecord(
            id=f"{job}/{due:%Y%m%dT%H%M%S.000Z}", job=job, due=due, cause=Cause.SCHEDULE, created=due, state=state,
            node=node, ended=due + timedelta(seconds=2), outcome=outcome,
        )  # fmt: skip
        puts.append(Put(keys.run(run.id), codec.encode(run)))
    for start in range(0, len(puts), 100):
        await store.commit(*puts[start : start + 100])


# What is shown


async def screens_paint_within_a_second(stage: Stage) -> list[Line]:
    """From an empty page to content, each screen in a window of its own; the page itself holds the watch."""
    lines = []
    for screen in SCREENS:
        times = []
        for _ in range(PAINTS):
            async with stage.dashboard() as dashboard:
                await dashboard.page.context.add_init_script(PAINTED)
                await dashboard.go(screen)
                times.append(await dashboard.page.evaluate("window.painted"))
        told = f"{statistics.median(times):.0f} ms, the slowest of {len(times)} {max(times):.0f} ms"
        lines.append(Line(statistics.median(times) < PAINT, f"{screen}: shown within {PAINT:.0f} ms", told))
    return lines


async def changes_show_within_a_second(stage: Stage) -> list[Line]:
    """Something is done through the API; from its answer, by which it has happened, until it is on the page."""
    async with stage.dashboard() as dashboard:
        await dashboard.go("resources")
        await dashboard.row("resources", "room/r0000").wait_for()

        async def add(number: int) -> str:
            await stage.ask("POST", "/v1/resources", {"kind": "room", "id": f"a{number:03d}"})
            return f"a[href$='room/a{number:03d}']"

        added = await _behind(dashboard, add)
        await dashboard.go("runs")
        await dashboard.page.locator("#table-runs").wait_for()

        async def run(number: int) -> str:
            made = await stage.ask("POST", "/v1/jobs/hostile/run", {})
            return f"a[href$='{made['id'].partition('/')[2]}']"

        ran = await _behind(dashboard, run)
    return [
        Line(max(times) < BEHIND, f"{what} is on the page within {BEHIND:.0f} ms", _spread(times))
        for what, times in (("a resource that is added", added), ("a run that is started", ran))
    ]


async def _behind(dashboard: Dashboard, change: Callable[[int], Awaitable[str]]) -> list[float]:
    """Milliseconds that the page was behind each change; `change` returns what finds it on the page."""
    times = []
    for number in range(CHANGES):
        selector = await change(number)
        happened = time.time() * 1000
        times.append(max(0.0, await dashboard.page.evaluate(SHOWN, selector) - happened))
    return times


def _spread(times: list[float]) -> str:
    return f"median {statistics.median(times):.0f} ms, slowest of {len(times)} {max(times):.0f} ms"


async def hostile_names_and_output_are_text(stage: Stage) -> list[Line]:
    """HTML, escape sequences, emoji and a line of 10 kB."""
    await stage.ask("POST", "/v1/resources?wait=10s", {"kind": "room", "id": HOSTILE})
    run = (await stage.ask("POST", "/v1/jobs/hostile/run?wait=30s", {}))["id"]
    async with stage.dashboard(NARROW) as dashboard:
        await dashboard.go("resources", "room", HOSTILE)
        name = await dashboard.page.locator("h1").inner_text()
        await dashboard.go("runs", *run.split("/"))
        log = dashboard.page.get_by_role("log")
        await log.get_by_text("x" * 10_000).wait_for()
        text = await log.inner_text()
        made = await dashboard.page.locator("main img, main script").count()
        width = await dashboard.page.evaluate("document.documentElement.scrollWidth")
        is_ok = name == f"room/{HOSTILE}" and "<script>alert(2)</script>" in text and "\x1b" not in text
        figure = (
            f"{made} elements made of them, {len(dashboard.errors)} complaints, page {width} px wide of {NARROW[0]}"
        )
    await stage.ask("DELETE", f"/v1/resources/room/{quote(HOSTILE, safe='')}")
    is_safe = is_ok and not made and not dashboard.errors and width == NARROW[0]
    return [Line(is_safe, "names and output with HTML, escapes, emoji and 10 kB lines are shown as text", figure)]


async def the_page_does_not_grow(stage: Stage) -> list[Line]:
    """The memory of a page that is left open on the busiest screens, while resources and runs come and go."""
    minutes = float(os.environ.get("MINUTES", "10"))
    async with stage.dashboard() as dashboard:
        session = await dashboard.page.context.new_cdp_session(dashboard.page)
        await session.send("HeapProfiler.enable")
        samples: list[float] = []
        end, number = time.monotonic() + 60 * minutes, 0
        while time.monotonic() < end:
            await dashboard.go(("resources", "jobs", "overview", "runs")[number % 4])
            for each in range(20):
                await stage.ask("POST", "/v1/resources", {"kind": "room", "id": f"m{number}-{each}"})
                await stage.ask("DELETE", f"/v1/resources/room/m{number}-{each}")
            await stage.ask("POST", "/v1/jobs/hostile/run", {})
            number += 1
            if number % 4 == 0:
                await session.send("HeapProfiler.collectGarbage")
                used = await session.send("Runtime.getHeapUsage")
                samples.append(used["usedSize"] / 1e6)
    first, last = statistics.median(samples[1:4] or samples), statistics.median(samples[-3:])
    figure = f"{first:.1f} MB at first, {last:.1f} MB in the end, {max(samples):.1f} MB at most, {number} rounds"
    return [Line(last < FLAT * first, f"page memory is flat over {minutes:g} minutes of changes", figure)]


async def pictures_are_taken(stage: Stage) -> list[Line]:
    """Each screen on a desk and on a telephone, light and dark, in both languages; to be looked at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    wide = []
    for size in (WIDE, NARROW):
        for theme, language in (("light", "en"), ("dark", "zh")):
            async with stage.dashboard(size) as dashboard:
                chosen = f"localStorage['rota.theme'] = '{theme}'; localStorage['rota.language'] = '{language}'"
                await dashboard.page.context.add_init_script(chosen)
                for screen in SCREENS:
                    await dashboard.go(screen)
                    await expect(dashboard.page.locator("main .bones")).to_have_count(0)
                    await dashboard.page.screenshot(path=PICTURES / f"{screen}-{size[0]}-{theme}-{language}.png")
                    if await dashboard.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                        wide.append(f"{screen} at {size[0]}")
    count = len(list(PICTURES.glob("*.png")))
    return [Line(not wide, "no screen is wider than its window", ", ".join(wide) or f"{count} pictures")]


PARTS = (
    screens_paint_within_a_second,
    changes_show_within_a_second,
    hostile_names_and_output_are_text,
    pictures_are_taken,
    the_page_does_not_grow,
)


def the_dashboard() -> Iterator[Line]:
    """All parts on one fleet, in one event loop; the browser is bound to it."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            stage = runner.run(stack.enter_async_context(staged()))
            for part in PARTS:
                yield from runner.run(part(stage))
        finally:
            runner.run(stack.aclose())


if __name__ == "__main__":
    os.chdir(ROOT)
    show([the_dashboard])
