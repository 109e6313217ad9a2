"""`make show-ground`: what the ground floor must show. Takes about eleven minutes."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

import benchmarks
from rota.store import Put, open_store
from shows.report import Line, show
from tests.kit.cli import rota
from tests.kit.etcd import set_up_users
from tests.kit.process import ROOT
from tests.kit.servers import Etcd, free_port
from tests.kit.trials import freeze_the_leader, kill_the_leader, rota_node
from tests.kit.virtual_trials import freeze_in_memory, kill_in_memory

TTL = 3.0
ROUNDS = 3


def a_clean_clone_passes_its_tests() -> Iterator[Line]:
    """Clone, fresh environment, `make test` as CI runs it."""
    with tempfile.TemporaryDirectory(prefix="rota-clone-") as folder:
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        started = time.monotonic()
        done = subprocess.run(["bash", ".ci/run"], cwd=folder, env=environ, capture_output=True, text=True, check=False)
        minutes = (time.monotonic() - started) / 60
    summary = next((line for line in reversed(done.stdout.splitlines()) if "passed" in line), "no summary")
    failed = "; ".join(line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    is_ok = done.returncode == 0 and minutes < 8 and "skipped" not in summary
    yield Line(
        is_ok,
        "make test on a clean clone, no skips, under 8 min",
        f"{summary.strip(' =')}; {minutes:.1f} min in all {failed}",
    )


def another_leads_when_the_leader_is_killed() -> Iterator[Line]:
    """On each store, several times; the worst counts."""
    for store, url in stores():
        with tempfile.TemporaryDirectory(prefix="rota-kill-") as base:
            took = [
                asyncio.run(kill_the_leader(url(n), numbered(Path(base), n), f"{TTL:g}s")).seconds
                for n in range(ROUNDS)
            ]
        yield takeover(store, took)
    yield takeover("memory (virtual time)", [kill_in_memory(TTL) for _ in range(ROUNDS)])


def a_frozen_leader_writes_nothing() -> Iterator[Line]:
    """On each store: SIGSTOP past the ttl, another leads, SIGCONT, 50 writes tried without a look at the clock."""
    for store, url in stores():
        with tempfile.TemporaryDirectory(prefix="rota-freeze-") as base:
            thaw = asyncio.run(freeze_the_leader(url(0), numbered(Path(base), 0), f"{TTL:g}s"))
        yield frozen(store, thaw.accepted, thaw.refused)
    yield frozen("memory (virtual time)", *freeze_in_memory(TTL))


def the_simulator_is_clean_and_not_blind() -> Iterator[Line]:
    """1,000 seeds, and the same without the fence."""
    clean = rota("simulate", "election", "--seeds", 1000, cwd=ROOT, within=600)
    yield Line(clean.code == 0, "1,000 seeds of the election clean", clean.out.strip().replace("\n", "; "))
    blind = rota("simulate", "election", "--seeds", 50, "--break", "fence", cwd=ROOT, within=600)
    found = blind.out.splitlines()
    yield Line(blind.code == 1, "with the fence removed a seed finds it", f"{found[0]}; {found[-1]}")


def the_stores_are_fast() -> Iterator[Line]:
    """`make bench`, by its own verdicts."""
    for row in benchmarks.run():
        yield Line(row.verdict != "short", row.name, figure(row))


def an_idle_node_costs_nothing() -> Iterator[Line]:
    """utime + stime of a node and its children over 60 s."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-idle-")))
        node = stack.enter_context(rota_node(f"sqlite:///{base}/rota.db", "a", base, "10s"))
        time.sleep(3)
        before = _cpu(node.pid)
        time.sleep(60)
        used = _cpu(node.pid) - before
    yield Line(used / 60 < 0.01, "idle node on SQLite under 1 % of a core", f"{used / 60:.2%} ({used:.2f} s in 60 s)")


def importing_is_quick() -> Iterator[Line]:
    """The median of five."""
    times = []
    for _ in range(5):
        command = [sys.executable, "-X", "importtime", "-c", "import rota"]
        last = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()[-1]
        times.append(int(last.split("|")[1]) / 1000)
    yield Line(sorted(times)[2] < 100, "import rota under 100 ms", f"{sorted(times)[2]:.0f} ms")


def bad_input_is_refused_in_one_line() -> Iterator[Line]:
    """Exit code, one line, nothing changed."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-bad-")))
        etcd = stack.enter_context(_etcd(base / "etcd"))
        set_up_users(etcd)
        here = base / "here"
        here.mkdir()
        for name in ("read-only", "newer"):
            asyncio.run(_use(f"sqlite:///{here / name}.db"))
        (here / "read-only.db").chmod(0o444)
        _age(here / "newer.db")
        yield _refused(here, "unknown scheme", "redis://localhost")
        yield _refused(here, "unreachable host", f"etcd://127.0.0.1:{free_port()}?timeout=2s")
        yield _refused(here, "wrong password", f"etcd://root@127.0.0.1:{etcd.port}", ROTA_STORE_PASSWORD="no")
        yield _refused(here, "read-only file", "sqlite:///read-only.db")
        yield _refused(here, "schema newer than the code", "sqlite:///newer.db")


def stores() -> Iterator[tuple[str, Callable[[int], str]]]:
    """Each store that processes share, and fresh URLs on it."""
    with tempfile.TemporaryDirectory(prefix="rota-show-") as base:
        yield "sqlite", lambda n: f"sqlite:///{base}/{time.monotonic_ns()}-{n}.db"
        with _etcd(Path(base) / "etcd") as etcd:
            yield "etcd", lambda n: f"etcd://127.0.0.1:{etcd.port}/{time.monotonic_ns()}-{n}"


@contextmanager
def _etcd(folder: Path) -> Iterator[Etcd]:
    folder.mkdir()
    with Etcd(folder) as etcd:
        yield etcd


def numbered(base: Path, number: int) -> Path:
    """A new folder."""
    folder = base / str(number)
    folder.mkdir()
    return folder


def takeover(store: str, took: list[float]) -> Line:
    """The line about killed leaders."""
    seconds = f"worst {max(took):.2f} s of {len(took)}, ttl {TTL:g} s"
    return Line(max(took) <= TTL + 1, f"{store}: leader killed -9, another leads within ttl + 1 s", seconds)


def frozen(store: str, accepted: int, refused: int) -> Line:
    """The line about frozen leaders."""
    is_ok = accepted == 0 and refused >= 50
    return Line(
        is_ok, f"{store}: frozen leader continued, 0 writes accepted", f"{accepted} accepted, {refused} refused"
    )


def figure(row: benchmarks.Row) -> str:
    """A row of the benchmarks in one line."""
    if row.ratio is None or row.bare is None:
        return f"{row.ours:,.4g} {row.unit} (goal {row.goal or 'none'}) {row.verdict}"
    sides = f"{row.ours:,.4g} against {row.bare:,.4g} {row.unit} of {row.against}"
    return f"ratio {row.ratio:.2f} ({row.low:.2f} to {row.high:.2f}, goal {row.goal}) {row.verdict}; {sides}"


def _cpu(pid: int) -> float:
    root = psutil.Process(pid)
    return sum(times.user + times.system for times in (p.cpu_times() for p in (root, *root.children(recursive=True))))


async def _use(url: str) -> None:
    async with open_store(url) as store:
        await store.commit(Put("/k", b"v"))


def _age(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def _refused(here: Path, item: str, url: str, **environ: str) -> Line:
    before = {file.name: file.read_bytes() for file in here.iterdir() if file.is_file()}
    answer = rota("status", "--store", url, cwd=here, environ=environ)
    after = {file.name: file.read_bytes() for file in here.iterdir() if file.is_file()}
    is_ok = answer.code != 0 and answer.err.count("\n") == 1 and answer.out == "" and before == after
    return Line(is_ok, f"bad input, {item}", f"exit {answer.code}, {answer.err.strip()}")


if __name__ == "__main__":
    show(
        [
            another_leads_when_the_leader_is_killed,
            a_frozen_leader_writes_nothing,
            the_simulator_is_clean_and_not_blind,
            bad_input_is_refused_in_one_line,
            importing_is_quick,
            an_idle_node_costs_nothing,
            the_stores_are_fast,
            a_clean_clone_passes_its_tests,
        ]
    )
