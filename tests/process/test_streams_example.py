"""The example with streams: it proves its own output, and its README names commands that there are."""

import re
import subprocess
import sys

import click
import pytest

from rota.cli.main import cli
from tests.kit.process import ROOT

EXAMPLE = ROOT / "examples/07-streams"
COMMANDS = re.findall(r"(?:^    |\| )rota (.+)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)


def test_readers_are_killed_and_every_click_is_there_once() -> None:
    argv = [sys.executable, EXAMPLE / "run.py", "--seconds", "8", "--kill-every", "2"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no gap and no repeat in" in done.stdout
    assert done.stdout.count("kill -9") >= 2
    assert "part,number,at,page" in done.stdout
    assert done.stdout.endswith("run: every click is there once\n")


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_readme_are_understood(line: str) -> None:
    words = line.split()
    command: click.Command = cli
    context = click.Context(cli, info_name="rota", resilient_parsing=True)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name, resilient_parsing=True)
    left = command.make_parser(context).parse_args(words)[1]
    assert left == []


def test_the_readme_has_its_commands() -> None:
    assert len(COMMANDS) >= 9
