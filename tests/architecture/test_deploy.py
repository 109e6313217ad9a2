"""The files in deploy/ fit the program they start, and the page that explains them shows them as they are."""

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import click
import pytest

from rota.cli.main import cli
from rota.compose.node import PROGRESS
from rota.model.config import RuntimeConfig
from rota.model.errors import Denied, Invalid
from tests.kit import obtain
from tests.kit.process import ROOT

SYSTEMD = ROOT / "deploy/systemd/rota.service"
USER = ROOT / "deploy/systemd/user.conf"
ROOTS = ("CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_READ_SEARCH", "CAP_KILL", "CAP_SYS_PTRACE")
"""What a node needs of root to run the app as another user; `tests/process/test_confinement.py` tries it."""

SUPERVISORD = ROOT / "deploy/supervisord/rota.conf"
PAGE = ROOT / "docs/howto/run-under-systemd-or-supervisord.md"
BIN = "/srv/shop/.venv/bin/rota "
HOPELESS = {Invalid.exit_code, Denied.exit_code}
"""Exit codes of what does not mend itself."""


def settings(file: Path) -> dict[str, str]:
    """The keys of all sections."""
    parser = ConfigParser(interpolation=None, comment_prefixes=("#", ";"))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys as they are written
    parser.read(file)
    return {key: value for section in parser.sections() for key, value in parser.items(section)}


def is_command(line: str) -> bool:
    """Does `rota` have the command that this line runs?"""
    name = line.removeprefix(BIN).split()[0]
    return line.startswith(BIN) and name in cli.list_commands(click.Context(cli))


def test_systemd_runs_commands_that_there_are_and_waits_long_enough() -> None:
    found = settings(SYSTEMD)
    assert is_command(found["ExecStart"])
    assert is_command(found["ExecReload"])
    assert (found["Type"], found["KillMode"]) == ("notify", "mixed")
    assert float(found["WatchdogSec"]) > PROGRESS.total_seconds() + 5
    assert float(found["TimeoutStartSec"]) > RuntimeConfig().load_timeout.total_seconds()
    assert float(found["TimeoutStopSec"]) > RuntimeConfig().drain.total_seconds() + 5
    assert set(map(int, found["RestartPreventExitStatus"].split())) == HOPELESS


def analysed(*words: object) -> subprocess.CompletedProcess[str]:
    """What systemd says of files; no service is run."""
    program = obtain.BACKENDS["systemd"].find()
    assert program is not None
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("drop_in", [False, True])
def test_systemd_itself_has_nothing_against_the_files(tmp_path: Path, drop_in: bool) -> None:
    """The user and the program of the example are not there, so others stand for them."""
    unit = tmp_path / "rota.service"
    true = shutil.which("true") or ""
    unit.write_text(SYSTEMD.read_text().replace("User=shop", "User=root").replace("/srv/shop/.venv/bin/rota", true))
    if drop_in:
        (tmp_path / "rota.service.d").mkdir()
        shutil.copy(USER, tmp_path / "rota.service.d")
    done = analysed("verify", "--man=no", unit)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.needs("systemd")
def test_systemd_would_find_a_mistake_in_the_file(tmp_path: Path) -> None:
    unit = tmp_path / "rota.service"
    unit.write_text(SYSTEMD.read_text().replace("ProtectSystem=", "ProtectSistem="))
    assert "ProtectSistem" in analysed("verify", "--man=no", unit).stderr


@pytest.mark.needs("systemd")
@pytest.mark.parametrize("drop_in", [False, True])
def test_the_unit_keeps_the_node_from_the_rest_of_the_machine(tmp_path: Path, drop_in: bool) -> None:
    found = settings(SYSTEMD) | (settings(USER) if drop_in else {})
    expected = {
        "ProtectSystem": "strict",
        "PrivateTmp": "yes",
        "UMask": "0077",
        "NoNewPrivileges": "yes",
        "LimitCORE": "0",
    }
    assert {key: found[key] for key in expected} == expected
    assert found["ReadWritePaths"] == found["WorkingDirectory"], "the data folder is there"
    assert found["Delegate"] == "yes"
    assert "ProtectControlGroups" not in found
    assert set(found["CapabilityBoundingSet"].split()) == (set(ROOTS) if drop_in else set())
    lines = [line for line in SYSTEMD.read_text().splitlines() if not line.startswith(("User=", "CapabilityBounding"))]
    own = [f"User={found['User']}", f"CapabilityBoundingSet={found['CapabilityBoundingSet']}"]
    unit = tmp_path / "rota.service"
    unit.write_text("\n".join(lines).replace("[Install]", "\n".join([*own, "[Install]"])))
    said = analysed("security", "--offline=yes", unit).stdout
    (level,) = re.findall(r"exposure level for rota.service: ([0-9.]+)", said)
    assert float(level) < (5.0 if drop_in else 4.0), said


def test_supervisord_does_the_same() -> None:
    found = settings(SUPERVISORD)
    assert is_command(found["command"])
    assert (found["stopsignal"], found["stopasgroup"], found["killasgroup"]) == ("TERM", "false", "true")
    assert float(found["stopwaitsecs"]) > RuntimeConfig().drain.total_seconds() + 5
    assert set(map(int, found["exitcodes"].split(","))) == {0, *HOPELESS}


@pytest.mark.parametrize("file", [SYSTEMD, SUPERVISORD], ids=lambda file: file.name)
def test_the_page_shows_the_file(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith(("#", ";"))]
    shown = re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert "\n".join(lines) + "\n" in shown
