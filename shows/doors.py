"""`make show-doors`: every finding about who comes in and how, and the doors under the worst that callers may do.

`PARTS=findings` runs the tests alone.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rota.fleet.core.access.gate import Access
from shows.door_findings import BEFORE, FINDINGS
from shows.finding import report
from shows.report import Line, show
from tests.kit import clicks
from tests.kit.crowd import crowd as ask_everything
from tests.kit.crowd import render
from tests.kit.generated_client import ten_calls
from tests.kit.process import ROOT
from tests.kit.taken_back import lines, measure_all

SECONDS = float(os.environ.get("SECONDS", "150"))
"""How long the crowd asks."""

PROMISED = 5.0
"""Seconds until a token that was taken back is refused everywhere."""


def findings() -> Iterator[Line]:
    """A line for each finding."""
    yield from report(FINDINGS, BEFORE)


def crowd() -> Iterator[Line]:
    """Every operation, every role, worst arguments, 50 callers, while a fleet works."""
    roles = [Access.VIEW, Access.OPERATE, Access.ADMIN]
    with tempfile.TemporaryDirectory(prefix="rota-doors-") as folder:
        found = asyncio.run(ask_everything(Path(folder), nodes=2, callers=50, seconds=SECONDS, roles=roles))
    print(render(found, 50))
    least = min(found.least_left.values())
    is_kept = found.sessions_kept and found.leader_kept and found.exclusive_kept
    asked = f"{found.operations - found.not_asked} of {found.operations} operations × roles, {found.calls:,} calls"
    yield Line(least >= 0.5, "50 callers at worst arguments: lease margin never below ttl/2", f"{least:.2f} ttl")
    yield Line(found.slowest_probe < 1, "probes answer in < 1 s", f"{found.slowest_probe:.2f} s, {found.probes} probes")
    yield Line(not found.not_asked and not found.broken, "every operation for each role", asked)
    yield Line(is_kept, "sessions, leader and exclusive tasks kept", "all" if is_kept else "not all")


def taken_back() -> Iterator[Line]:
    """Seconds until a token that was revoked, rotated, has expired or lost its role is refused, at every door."""
    with tempfile.TemporaryDirectory(prefix="rota-doors-") as folder:
        figures = asyncio.run(measure_all(Path(folder)))
    slowest = max(figure.seconds for figure in figures)
    yield Line(slowest < PROMISED, f"taken back: refused everywhere within {PROMISED:g} s", f"{slowest:.2f} s at worst")
    for line in lines(figures):
        print(f"       {line}")


def generated_client() -> Iterator[Line]:
    """A client that another program made from the description."""
    with tempfile.TemporaryDirectory(prefix="rota-doors-") as folder:
        calls = asyncio.run(ten_calls(Path(folder)))
    yield Line(len(calls) >= 10, "a generated client makes ten calls", f"{len(calls)} calls")


def pythons() -> Iterator[Line]:
    """Every verb on the oldest and the newest click, on the oldest and the newest Python that this machine has."""
    found = clicks.installed()
    missing = ", ".join(version for version in clicks.PYTHONS if version not in found)
    with tempfile.TemporaryDirectory(prefix="rota-pythons-") as folder:
        for version in dict.fromkeys((min(found, key=_number), max(found, key=_number))):
            python = clicks.environment(found[version], Path(folder) / version)
            for click in (clicks.oldest(), "click"):
                place = Path(folder) / f"{version}-{click}"
                place.mkdir()
                try:
                    clicks.check_every_command(click, place, python)
                    is_ok, said = True, "every command"
                except AssertionError as error:
                    is_ok, said = False, str(error).strip().splitlines()[-1]
                newest = f"; not on this machine: {missing}" if missing else ""
                yield Line(is_ok, f"every verb on Python {version} with {click}", f"{said}{newest}")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def verbs() -> Iterator[Line]:
    """Every verb in an empty folder, beside `rota up`, against a server, on every click."""
    for item, tests in {
        "every verb in an empty folder": ["tests/unit/cli/commands/test_leaves.py"],
        "on every click that is allowed": ["tests/system/test_click.py"],
        "beside rota up": ["tests/system/test_up.py", "-k", "beside"],
        "against a server, each role": ["tests/system/test_cli_server.py"],
        "several machines, following the page": ["tests/system/test_several_machines.py"],
    }.items():
        command = [sys.executable, "-m", "pytest", "-q", *tests]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        yield Line(done.returncode == 0, item, done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    show([findings, crowd, taken_back, generated_client, verbs, pythons])
