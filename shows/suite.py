"""`make show-suite`: the commands by which whoever clones Rota judges it, timed, repeated, and on a busy machine.

Everything runs in fresh clones of what is committed, with caches of their own, so a first time is a first time. The
whole takes some two and a half hours; `PARTS=fresh` is the quarter of an hour that a newcomer spends. `RUNS=2` makes
fewer rounds.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shows.report import Line, show
from tests.kit import clicks
from tests.kit.process import ROOT

RUNS = int(os.environ.get("RUNS", "6"))
"""How often `make test` is run in a row."""

BUSY = (3, 5)
"""Which of these runs find both processors busy."""

DEMOS = 3
"""How often `make demo` is run on a busy machine."""

GOALS = {"setup": (25, 45), "demo": (75, 120), "quick": (60, 90), "test": (600, 780)}
"""For each command the seconds we want it to take, and those above which it is short."""

EARLIER: list["Ran"] = []
"""Runs of `make test` in this show that count among those in a row."""

TRIED = ("3.11", "3.12", "3.13")
"""Pythons on which the inner loop is run."""


@dataclass(frozen=True)
class Ran:
    """One run of a command of make."""

    code: int
    seconds: float
    said: str

    @property
    def tests(self) -> str:
        """What pytest counted, its last words if it ran several times."""
        counted = re.findall(r"^=* ?(\d[^=\n]*(?:passed|failed|error)[^=\n]*?) in \d", self.said, re.MULTILINE)
        return counted[-1] if counted else "no tests"

    @property
    def failed(self) -> list[str]:
        """Tests that failed, by name."""
        return re.findall(r"^(?:FAILED|ERROR) (\S+)", self.said, re.MULTILINE)

    @property
    def has_skips(self) -> bool:
        """Was a test left out where it should have run?"""
        return "skipped" in self.tests

    @property
    def outcome(self) -> str:
        """In words."""
        if self.code == 0:
            return f"{self.seconds:.0f} s, {self.tests}"
        last = (self.said.strip().splitlines() or ["nothing was said"])[-1]
        return f"exit code {self.code} after {self.seconds:.0f} s, {', '.join(self.failed) or last}"


class Clone:
    """A fresh clone of what is committed, with caches of its own."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.home = folder / "rota"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.home)], check=True)
        caches = {name: str(folder / "cache") for name in ("XDG_CACHE_HOME", "UV_CACHE_DIR", "PIP_CACHE_DIR")}
        self._environ: Mapping[str, str] = _inherited() | caches | {"CI": "true"} | environ

    def make(self, target: str) -> Ran:
        """Run a command of make."""
        began = time.monotonic()
        done = subprocess.run(
            ["make", target],
            cwd=self.home,
            env=self._environ,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        ran = Ran(done.returncode, time.monotonic() - began, done.stdout)
        if ran.code:
            print(done.stdout[-4000:], file=sys.stderr, flush=True)
        return ran


def _inherited() -> dict[str, str]:
    """This process's environment without what make and this environment's Python put into it."""
    ours = ("MAKE", "MFLAGS", "PARTS", "VIRTUAL_ENV", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@contextmanager
def _cloned(**environ: str) -> Iterator[Clone]:
    with tempfile.TemporaryDirectory(prefix="rota-suite-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # servers that the tests start have users of their own
        yield Clone(Path(folder), **environ)


@contextmanager
def _busy_processors() -> Iterator[None]:
    """Every processor has something else to do, with the same right to it."""
    others = [subprocess.Popen(["yes"], stdout=subprocess.DEVNULL) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


def fresh_clone() -> Iterator[Line]:
    """What a newcomer waits for, in this order."""
    with _cloned() as clone:
        for target, (goal, bound) in GOALS.items():
            ran = clone.make(target)
            if target == "test":
                EARLIER.append(ran)
            figure = f"{ran.seconds:.0f} s" if target in ("setup", "demo") and not ran.code else ran.outcome
            is_ok = not ran.code and ran.seconds <= bound and not ran.has_skips
            yield Line(is_ok, f"fresh clone, `make {target}`: goal {goal} s, short above {bound} s", figure)


def six_in_a_row() -> Iterator[Line]:
    """`make test` again and again; nothing is tried twice. The one of a newcomer, if there was one, is the first."""
    failed: Counter[str] = Counter()
    with _cloned() as clone:
        clone.make("setup")
        for number in range(1, RUNS + 1):
            if number == 1 and EARLIER:
                ran = EARLIER[0]
            elif number in BUSY:
                with _busy_processors():
                    ran = clone.make("test")
            else:
                ran = clone.make("test")
            failed.update(ran.failed)
            beside = ", both processors busy" if number in BUSY else ""
            yield Line(not ran.code and not ran.has_skips, f"`make test`, {number} of {RUNS}{beside}", ran.outcome)
    names = ", ".join(f"{name} ({count})" for name, count in failed.most_common())
    yield Line(not failed, f"failures in {RUNS} runs of `make test`: goal 0", names or "0")


def demo_on_a_busy_machine() -> Iterator[Line]:
    """The demo beside others."""
    with _cloned() as clone, _busy_processors():
        clone.make("setup")
        for number in range(1, DEMOS + 1):
            ran = clone.make("demo")
            figure = f"{ran.seconds:.0f} s" if not ran.code else ran.outcome
            yield Line(not ran.code, f"`make demo` with both processors busy, {number} of {DEMOS}", figure)


def quick_on_every_python() -> Iterator[Line]:
    """The inner loop on each Python that we name."""
    found = clicks.installed()
    for version in TRIED:
        if version not in found:
            yield Line(False, f"`make quick` on Python {version}", "not on this machine")
            continue
        with _cloned(PYTHON=str(found[version])) as clone:
            ran = clone.make("quick")
        yield Line(not ran.code and not ran.has_skips, f"`make quick` on Python {version}", ran.outcome)


def left_to_the_matrix() -> Iterator[Line]:
    """What `make test` does not run, and where it runs."""
    whole, default = _collected("--matrix"), _collected()
    left = Counter(test.partition("[")[0] for test in whole - default)
    ways = Counter(test.partition("[")[0] for test in default)
    for name, count in sorted(left.items()):
        print(f"       {name}: {count} only in `make test-all`, {ways[name]} in `make test`")
    only = sum(not ways[name] for name in left)
    yield Line(
        default <= whole,
        "`make test-all` runs all that `make test` runs, and what it left",
        f"{len(default)} and {len(whole)} tests; {only} functions only there, {len(left) - only} in more ways there",
    )


def _collected(*options: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {line for line in said.splitlines() if line.startswith("tests/") and "::" in line}


def the_whole_matrix() -> Iterator[Line]:
    """Everything in every way, once; the planted mistakes are among it."""
    with _cloned() as clone:
        ran = clone.make("test-all")
    summaries = re.findall(r"^=* ?(\d[^=\n]*passed[^=\n]*)", ran.said, re.MULTILINE)
    pythons = re.findall(r"^pythons: passed.*", ran.said, re.MULTILINE)
    yield Line(not ran.code, "`make test-all`", "; ".join([ran.outcome, *summaries, *pythons]))
    missed = [name for name in ran.failed if name.startswith("tests/sim/")]
    planted = len(_collected("--matrix", "-m", "matrix", "tests/sim"))
    figure = ", ".join(missed) or (f"all of {planted} tests" if summaries else "not run")
    yield Line(bool(summaries) and not missed, "planted mistakes are found, missing safeguards noticed", figure)


if __name__ == "__main__":
    show(
        [
            fresh_clone,
            left_to_the_matrix,
            quick_on_every_python,
            demo_on_a_busy_machine,
            six_in_a_row,
            the_whole_matrix,
        ]
    )
