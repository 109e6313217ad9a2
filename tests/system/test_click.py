"""The command line with the oldest and the newest click that the metadata allow.

Each click is installed alone into a folder that comes before all others, so it costs a second; every command's help and
some commands run in one process.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.kit.process import ROOT

SCRIPT = """
import contextlib, importlib.metadata, io, os, sys
import click
from rota.cli.main import cli, main

def leaves(group, *path):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, *path, name)
        else:
            yield path + (name,)

def run(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as ended:
            return ended.code or 0, out.getvalue(), err.getvalue()

assert sys.argv[1] in click.__file__, click.__file__
count = 0
for path in leaves(cli):
    code, out, err = run(*path, "--help")
    assert code == 0 and out.startswith("Usage: rota " + " ".join(path)), (path, code, out, err)
    count += 1
print("leaves", count)
for words in (
    ["status"], ["jobs", "ls"], ["nodes"], ["nodes", "-o", "json"], ["services", "stat", "--loop"],
    ["services", "stat", "--loop", "3"], ["relay", "stat"], ["events", "--since", "1x"], ["nosuch"], ["config", "view"],
    ["node", "--slots", "x"], ["plan", "--add", "1"], ["--version"], ["up"], ["store", "check"],
):
    code, out, err = run(*words)
    print(*words, "|", code, "|", (err or out).strip().splitlines()[-1])
"""

SAID = """\
status | 2 | rota: no fleet is named here;
jobs ls | 2 | rota: no fleet is named here;
nodes | 2 | rota: no fleet is named here;
nodes -o json | 2 | rota: no fleet is named here;
services stat --loop | 7 | rota: no node is running below .rota in this folder
services stat --loop 3 | 7 | rota: no node is running below .rota in this folder
relay stat | 2 | rota: no fleet is named here;
events --since 1x | 2 | Error: Invalid value for '--since'
nosuch | 2 | Error: No such command 'nosuch'.
config view | 0 |
node --slots x | 2 | Error: Invalid value for '--slots'
plan --add 1 | 2 | rota: no fleet is named here;
--version | 0 | rota 0.1.0
up | 2 | Error: Missing argument 'APP'.
store check | 2 | Error: Missing argument 'URL'.
"""


def oldest() -> str:
    """The click that the metadata ask for at least."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = next(re.fullmatch(r"click>=([\d.]+)", each) for each in wanted if each.startswith("click"))
    assert found is not None
    return f"click=={found[1]}" if found[1].count(".") == 2 else f"click=={found[1]}.0"


@pytest.mark.variants
@pytest.mark.parametrize("click", [oldest(), "click==8.2.0", "click==8.3.0", "click"])
def test_every_command_works_with_every_click_that_is_allowed(click: str, tmp_path: Path) -> None:
    place, folder = tmp_path / "click", tmp_path / "empty"
    folder.mkdir()
    got = subprocess.run(
        [
            ROOT / ".venv/bin/uv",
            "pip",
            "install",
            "-q",
            "--python",
            sys.executable,
            "--no-deps",
            "--target",
            place,
            click,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert got.returncode == 0, got.stderr
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    environ |= {"PYTHONPATH": f"{place}:{ROOT / 'src'}", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(place)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environ,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert int(first.split()[1]) > 90
    for line, expected in zip(lines, SAID.splitlines(), strict=True):
        assert line.startswith(expected)
