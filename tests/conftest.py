"""What all tests share: real servers, stores to try, and honesty about what was not tried.

Servers are started when the first test asks, once per run (per worker under xdist), and stopped by pid in the end.
A test that needs a backend we do not have is skipped by name, and the run ends with the list of backends it did not
test. With CI=true a skip, whatever its reason, fails the run.
"""

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rota.store import Store, open_store
from tests.kit import obtain, tiers
from tests.kit.faultproxy import FaultProxy
from tests.kit.harness import HARNESSES, StoreHarness, params
from tests.kit.server_pool import ServerPool

NOT_HAD = "backend cannot be had: "

# How long an example takes says nothing of the code where the machine is busy with something else.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """What a command that a test runs in this process does to logging ends with the test."""
    ours = logging.getLogger("rota")
    level, disabled = ours.level, logging.root.manager.disable
    yield
    ours.setLevel(level)
    logging.disable(disabled)


@pytest.fixture(scope="session")
def servers() -> Iterator[ServerPool]:
    """The servers of this run, in a folder of its own.

    Each run of pytest closes the folder that all runs share to other users. A PostgreSQL in there, which has a user of
    its own, would lose its files while it works, whenever a run begins elsewhere on the machine.
    """
    with TemporaryDirectory(prefix="rota-servers-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        yield ServerPool(Path(folder), stack)


@pytest.fixture(params=params(HARNESSES))
def harness(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> StoreHarness:
    """A place for a store, on every adapter."""
    kind: type[StoreHarness] = request.param
    return kind(tmp_path, servers.get(kind.server, "steady") if kind.server else None)


@pytest.fixture
async def store(harness: StoreHarness) -> AsyncIterator[Store]:
    """An open, empty store."""
    async with open_store(harness.url()) as store:
        yield store


@pytest.fixture
async def other(harness: StoreHarness, store: Store) -> AsyncIterator[Store]:
    """A second handle on the same store, as another process would have."""
    async with open_store(harness.url()) as other:
        yield other


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.server))
def victim(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> Iterator[StoreHarness]:
    """A place for a store whose server, `victim.running`, may be hurt."""
    kind: type[StoreHarness] = request.param
    assert kind.server is not None
    server = servers.get(kind.server, "victim")
    yield kind(tmp_path, server)
    server.recover()


@pytest.fixture
async def proxy(victim: StoreHarness) -> AsyncIterator[FaultProxy]:
    """A bad network before the victim."""
    assert victim.running is not None
    async with FaultProxy(victim.running.port) as proxy:
        yield proxy


def end_at_once(worker: int) -> None:
    """End a worker of xdist: taking apart all that ten thousand tests have imported would need seconds."""
    if os.getpid() != worker:  # a fork of it, which ends in its own way
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", action="store_true", help="run every test in every way (tests/kit/tiers.py)")


def pytest_configure(config: pytest.Config) -> None:
    for mark in ("needs(backend): skip, by name, where the backend cannot be had", *tiers.MARKS):
        config.addinivalue_line("markers", mark)
    if hasattr(config, "workerinput"):
        atexit.register(end_at_once, os.getpid())
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as in a shell's background, and what tests start would be deaf
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # -k and -m have chosen by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is the matrix's to the matrix, unless tests are asked for by name; among workers the longest begin."""
    if hasattr(config, "workerinput"):
        from tests.kit import spread

        items.sort(key=lambda item: spread.rank(item.nodeid))
    if config.getoption("matrix") or any("::" in asked for asked in config.args):
        return
    left = tiers.left_to_the_matrix(items)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # whatever collecting tests makes stays


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ten thousand tests and all modules stay to the end: no collection of garbage need look at them.

    Nor need it look at what tests keep as often as it would by itself, which took a tenth of the processor's time.
    """
    gc.freeze()
    atexit.register(gc.unfreeze)  # what C code made ends with the process
    gc.set_threshold(10_000, 10, 20)
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share a slow server share a worker."""
    from tests.kit.spread import Spread

    return Spread(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        (backend,) = mark.args
        if why := obtain.missing(backend):
            pytest.skip(f"{NOT_HAD}{backend} ({why})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Tests log file names that are no UTF-8, and a worker can send no report that has one."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") == "true" and _skips(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skips = _skips(config)
    untested = sorted({why.removeprefix(NOT_HAD) for why in skips.values() if why.startswith(NOT_HAD)})
    if untested:
        terminalreporter.section("backends not tested", yellow=True)
        terminalreporter.line(f"backends not tested: {', '.join(untested)}")
    if skips and os.environ.get("CI") == "true":
        terminalreporter.section("skipped where nothing may be", red=True)
        for test, why in sorted(skips.items()):
            terminalreporter.line(f"{test}: {why}")
        terminalreporter.line(f"CI=true: {len(skips)} skips fail the run")


def _skips(config: pytest.Config) -> dict[str, str]:
    """The tests skipped and why; in a worker of xdist none, its main process knows them all."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    return {report.nodeid: report.longrepr[2].removeprefix("Skipped: ") for report in reports}
