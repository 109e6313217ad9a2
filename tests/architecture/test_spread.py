"""Which tests share a worker is said by their names, and what they need by marks; both must agree."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from xdist import newhooks

from tests.kit.process import ROOT
from tests.kit.spread import GROUPS, LONGEST_FIRST, Spread, group, rank


def test_whatever_needs_a_server_that_is_slow_to_start_stays_with_the_others_that_do(
    request: pytest.FixtureRequest,
) -> None:
    for item in request.session.items:
        needed = {mark.args[0] for mark in item.iter_markers("needs")} & GROUPS.keys()
        assert needed == {group(item.nodeid)} - {"browser", "parsed", None}, item.nodeid


def test_every_folder_that_is_named_has_tests(request: pytest.FixtureRequest) -> None:
    folders = {item.nodeid.split("/")[1] for item in request.session.items if item.nodeid.count("/") > 1}
    if folders >= {"architecture", "browser", "unit"}:  # the whole was asked for
        assert {folder.split("/")[1] for folder in LONGEST_FIRST} <= folders


def test_tests_that_take_long_do_not_begin_last() -> None:
    names = ["tests/unit/a.py::t", "tests/architecture/a.py::t", "tests/process/a.py::t", "tests/system/a.py::t"]
    assert sorted(names, key=rank) == [names[3], names[2], names[0], names[1]]


CRASHING = """
import os, pytest

@pytest.mark.parametrize("number", range(40))
def test_one(number):
    if number == {number}:
        os._exit(1)
"""

SPREAD = """
def pytest_xdist_make_scheduler(config, log):
    from tests.kit.spread import Spread

    return Spread(config, log)
"""


def test_a_run_in_which_workers_crash_ends_and_runs_all_other_tests_once(tmp_path: Path) -> None:
    """One worker crashes amid single tests, and one amid a group; at its time-out a test ends its worker like this."""
    (tmp_path / "conftest.py").write_text(SPREAD)
    for name, number in (("unit/test_single", 30), ("browser/test_grouped", 20)):
        file = tmp_path / f"tests/{name}.py"
        file.parent.mkdir(parents=True)
        file.write_text(CRASHING.format(number=number))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n", "2", "-p", "no:schemathesis", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 78 passed" in done.stdout, done.stdout
    crashed = re.findall(r"crashed while running '(.*)'", done.stdout)
    assert {*crashed} == {"tests/unit/test_single.py::test_one[30]", "tests/browser/test_grouped.py::test_one[20]"}


@pytest.mark.parametrize(
    ("error", "status", "ends_with"),
    [
        ("Not properly terminated", pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED),
        ("keyboard-interrupt", pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERRUPTED),
        (None, pytest.ExitCode.OK, pytest.ExitCode.OK),
    ],
)
def test_a_worker_that_crashes_without_a_test_fails_the_run(
    error: str | None, status: pytest.ExitCode, ends_with: pytest.ExitCode
) -> None:
    plugins = pytest.PytestPluginManager()
    plugins.add_hookspecs(newhooks)
    Spread(cast(pytest.Config, SimpleNamespace(pluginmanager=plugins, getvalue=lambda name: ["popen"])))
    session = SimpleNamespace(exitstatus=status)
    for each in (error, None):  # another worker ends well
        plugins.hook.pytest_testnodedown(node=None, error=each)
    plugins.hook.pytest_sessionfinish(session=session, exitstatus=status)
    assert session.exitstatus == ends_with
