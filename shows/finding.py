"""What hostile readings and new users found, and how a show reports it: a line for each finding with its tests.

A table of findings (`shows/findings.py`, `shows/door_findings.py`) names for each the tests that failed at the commit
that was read. `report` runs all of them once, in three processes.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from shows.report import Line
from tests.kit.process import ROOT


class State(StrEnum):
    """What became of a finding."""

    FIXED = "fixed"
    PARTLY = "fixed in part"
    JUDGED = "judged"
    WRONG = "the account was wrong"
    OPEN = "open"


NOT_PASSED = ("failure", "error", "skipped")
"""What a report of tests says of one that did not pass."""


@dataclass(frozen=True)
class Finding:
    """One finding."""

    name: str
    state: State
    tests: tuple[str, ...] = ()
    note: str = ""


def report(findings: Sequence[Finding], before: str) -> Iterator[Line]:
    """A line for each finding: its tests, or where the judgement is written down."""
    passed = _passed({test for finding in findings for test in finding.tests})
    for finding in findings:
        yield Line(_is_ok(finding, passed), f"{finding.name} ({finding.state})", _told(finding, passed, before))


def _passed(tests: set[str]) -> set[str]:
    """Which of these tests pass; a parametrized one passes when all its cases do."""
    with tempfile.TemporaryDirectory(prefix="rota-findings-") as folder:
        written = Path(folder) / "report.xml"
        files = sorted({test.partition("::")[0] for test in tests})
        command = [sys.executable, "-m", "pytest", "-q", "-n", "3", f"--junitxml={written}", *sorted(tests)]
        print(f"running {len(tests)} tests of {len(files)} files", flush=True)
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        good: set[str] = set()
        bad: set[str] = set()
        for case in ET.parse(written).getroot().iter("testcase"):
            name = _node_id(case.get("classname", ""), case.get("name", ""), files)
            (bad if any(case.find(word) is not None for word in NOT_PASSED) else good).add(name)
    return {test for test in tests if _matches(test, good) and not _matches(test, bad)}


def _node_id(classname: str, name: str, files: list[str]) -> str:
    """A test as pytest is asked for it."""
    parts = classname.split(".")
    for count in range(len(parts), 0, -1):
        if (file := "/".join(parts[:count]) + ".py") in files:
            return "::".join([file, *parts[count:], name])
    return f"{classname}::{name}"


def _matches(test: str, names: set[str]) -> bool:
    return test in names or any(name.startswith((f"{test}[", f"{test}::")) for name in names)


def _is_ok(finding: Finding, passed: set[str]) -> bool:
    return finding.state not in (State.OPEN, State.PARTLY) and passed.issuperset(finding.tests)


def _told(finding: Finding, passed: set[str], before: str) -> str:
    failed = [test for test in finding.tests if test not in passed]
    if failed:
        return f"FAILED {', '.join(failed)}"
    tests = ", ".join(test.partition("::")[2] for test in finding.tests)
    return "; ".join(each for each in (tests and f"failed at {before}, passes now: {tests}", finding.note) if each)
