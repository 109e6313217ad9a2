"""Every example runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.process import ROOT

EXAMPLES = sorted(ROOT.glob("examples/*/demo.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("demo: ")
