"""Somebody at a terminal sees how far a command is."""

import os
import subprocess
from pathlib import Path

from tests.kit.cli import ROTA


def test_simulate_shows_its_bar_on_a_terminal_and_its_answer_elsewhere(tmp_path: Path) -> None:
    master, slave = os.openpty()
    try:
        environ = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
        argv = [ROTA, "simulate", "election", "--seed", "1"]
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=slave, cwd=tmp_path, env=environ, timeout=60, check=False
        )
        drawn = ""
        while not drawn.endswith("\r\033[K"):
            drawn += os.read(master, 65_536).decode()
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == 0
    assert "simulating election [##############################] 1 of 1, " in drawn
    assert b"1 seed, 0 failed" in done.stdout
    assert b"simulating" not in done.stdout
