"""The command line with other versions of click and of Python than those of this environment.

A click is installed alone into a folder that comes before all others, so it costs a second; every command's help and
some commands run in one process. Another Python gets an environment of its own with Rota's dependencies.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.kit.process import ROOT

UV = ROOT / ".venv/bin/uv"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""From the oldest that the metadata allow to the newest that there is."""

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


def check_every_command(click: str, folder: Path, python: str = sys.executable) -> None:
    """Every command works with that click on that Python, which has Rota's dependencies."""
    place, home = folder / "click", folder / "empty"
    home.mkdir()
    _done([UV, "pip", "install", "-q", "--python", python, "--no-deps", "--target", place, click])
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    environ |= {"PYTHONPATH": f"{place}:{ROOT / 'src'}", "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    first, *lines = _done([python, "-c", SCRIPT, place], cwd=home, env=environ).splitlines()
    assert int(first.split()[1]) > 90
    for line, expected in zip(lines, SAID.splitlines(), strict=True):
        assert line.startswith(expected), line


def installed() -> dict[str, str]:
    """The interpreters of `PYTHONS` that this machine has on PATH or by pyenv, by version."""
    found: dict[str, str] = {}
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in PYTHONS:
        places = [shutil.which(f"python{version}"), *sorted(map(str, versions.glob(f"{version}.*/bin/python")))]
        if place := next((each for each in places if each and _is_python(each, version)), None):
            found[version] = place
    return found


def _is_python(place: str, version: str) -> bool:
    """Does this run, and is it of that version? A shim of pyenv may lead nowhere."""
    told = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
    return told.returncode == 0 and told.stdout.startswith(f"Python {version}.")


def environment(python: str, folder: Path) -> str:
    """An interpreter with what Rota's commands need and nothing else, in a new environment."""
    _done([UV, "venv", "-q", "--python", python, folder])
    made = str(folder / "bin/python")
    _done([UV, "pip", "install", "-q", "--python", made, f"{ROOT}[tls]"])
    return made


def _done(command: list[str | Path], **given: object) -> str:
    """What a command printed; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **given)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)
