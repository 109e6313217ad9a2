"""The first app of the examples passes its own tests, with pytest alone and no plugin."""

import os
import subprocess
import sys

from tests.kit.process import ROOT


def test_the_first_app_passes_its_tests():
    folder = ROOT / "examples/02-first-app"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder]
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, "-W", "error", "test_app.py"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
