"""A fleet of two nodes, and a browser: started once, for all tests of the dashboard."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from rota.store import open_store
from tests.kit.browser import NARROW, Dashboard, open_browser, open_dashboard
from tests.kit.cli import rota
from tests.kit.doors import Door
from tests.kit.fleet import Fleet
from tests.kit.shown import TOKEN, Shown

APP = """
import asyncio, os, time
import rota

app = rota.App("shown")


@app.resource(replicas=1)
async def room(task: rota.Task) -> None:
    await asyncio.Event().wait()


@app.resource(replicas=1, labels={"gpu": "yes"})
async def model(task: rota.Task) -> None:
    await asyncio.Event().wait()


logic = app.service("logic", port=0, groups={1: 2})


@logic.on(101, group=1)
def login(request):
    return b"ok"


@app.job()
def hello(run: rota.Run) -> None:
    print("hello", run.payload)


@app.job()
def hostile(run: rota.Run) -> None:
    print("<img src=x onerror=alert(1)><script>alert(2)</script>")
    print("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\x1b[2Jplain \\U0001f680")
    print("x" * 10_000)


@app.job()
def failing(run: rota.Run) -> None:
    raise ValueError("<b>no</b> such luck")


app.command("long", ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.1; done; sleep 600"])
app.command("yearly", ["true"], cron="0 3 1 1 *", concurrency=None)


@app.stream(source="SOURCE", sink="parquet://OUTPUT", start="earliest", tasks=1, replicas=1, duration="1h")
def clicks(batch):
    for record in batch:
        yield {"offset": record.offset, "text": record.value.decode()}
"""


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def shown(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shown]:
    """Two nodes with an app of every kind."""
    folder: Path = tmp_path_factory.mktemp("dashboard")
    log = f"log://{folder}/clicks"
    assert rota("log", "create", log, "--partitions", 2, cwd=folder).code == 0
    app = APP.replace("SOURCE", log).replace("OUTPUT", f"{folder}/out")
    url, environ = f"sqlite:///{folder}/rota.db", {"ROTA_TOKEN": "env:SHOWN_TOKEN", "SHOWN_TOKEN": TOKEN}
    async with open_store(url) as store:
        with Fleet(folder, url, store, ("a", "b"), app=app, environ=environ) as fleet:
            await fleet.ready()
            doors = (await fleet.nodes["a"].status())["doors"]
            yield Shown(fleet, Door(doors["http"], doors["grpc"], TOKEN), log)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium."""
    async with open_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def dashboard(browser: Browser, shown: Shown) -> AsyncIterator[Dashboard]:
    """A page on a desk, whose user has come in; nothing may go wrong in it."""
    async with open_dashboard(browser, shown.door.address, TOKEN) as dashboard:
        yield dashboard
        assert dashboard.errors == []


@pytest_asyncio.fixture(loop_scope="session")
async def telephone(browser: Browser, shown: Shown) -> AsyncIterator[Dashboard]:
    """The same on a telephone."""
    async with open_dashboard(browser, shown.door.address, TOKEN, NARROW) as dashboard:
        yield dashboard
        assert dashboard.errors == []
