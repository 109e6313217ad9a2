"""The tables of findings name tests that exist."""

import re

import pytest

from tests.kit.process import ROOT

NAMED = re.compile(r'"(tests/[\w/]+\.py)(?:::(?:Test\w+::)?(\w+))?')


@pytest.mark.parametrize("table", ["findings.py", "door_findings.py"])
def test_each_finding_names_a_test_that_exists(table: str) -> None:
    named = NAMED.findall((ROOT / "shows" / table).read_text())
    assert named
    gone = [
        f"{file}::{name}"
        for file, name in named
        if not (path := ROOT / file).exists()
        or (name and f"def {name}(" not in (text := path.read_text()) and f"class {name}" not in text)
    ]
    assert not gone
