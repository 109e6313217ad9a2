"""Shells complete what `rota` understands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rota.cli.main import COMMANDS, cli
from tests.kit.cli import ROTA

ASK = """
set -e
eval "$(rota completion bash)"
COMP_WORDS=({words}) COMP_CWORD={place}
_rota_completion rota
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

COUNT = """
import sys
from rota.cli.main import main
try:
    main()
finally:
    print(len([name for name in sys.modules if ".cli." in name]))
"""


def completed(*words: str) -> list[str]:
    """What bash itself offers for the last of these words."""
    script = ASK.format(words=" ".join(f'"{word}"' for word in words), place=len(words) - 1)
    environ = {**os.environ, "PATH": f"{ROTA.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [line.rpartition(",")[2] for line in done.stdout.splitlines()]


def test_bash_completes_a_command_a_subcommand_and_an_option() -> None:
    assert completed("rota", "comp") == ["completion"]
    assert completed("rota", "streams", "res") == ["reset", "reset-offsets", "resume"]
    assert completed("rota", "nodes", "drain", "--dead") == ["--deadline"]


@pytest.mark.parametrize("verb", ["up", "node"])
def test_an_app_is_completed_as_a_file(verb: str) -> None:
    environ = {**os.environ, "_ROTA_COMPLETE": "bash_complete", "COMP_WORDS": f"rota {verb} a", "COMP_CWORD": "2"}
    done = subprocess.run([ROTA], capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert done.stdout == "file,a\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script_that_asks_this_program(shell: str) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0, done.output
    assert f"_ROTA_COMPLETE={shell}_complete" in done.output


def test_completing_a_command_imports_none() -> None:
    """There is somebody at the keyboard, and most of the commands take a while to import."""
    environ = {**os.environ, "_ROTA_COMPLETE": "bash_complete", "COMP_WORDS": "rota ", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        cwd=Path(__file__).parent,
        check=False,
    )
    *offered, imported = done.stdout.splitlines()
    assert [line.removeprefix("plain,") for line in offered] == sorted(COMMANDS)
    assert imported == "1"
