"""`rota config view`."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.commands.config import command
from rota.model.config import SECTIONS
from rota.model.errors import Invalid


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of our own, and nobody's settings but ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "ROTA_STORE", "ROTA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def view(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["view", *arguments], catch_exceptions=False)


def test_what_is_shown_can_be_written_into_a_file(folder: Path) -> None:
    shown = view().output
    tables = tomllib.loads(shown)
    assert list(tables) == [section.table for section in SECTIONS]
    assert tables["node"]["http"] == "127.0.0.1:7700"
    assert tables["runtime"]["recycle_age"] == "off"
    assert "# store =" in shown
    (folder / "rota.toml").write_text(shown)
    assert view().output == shown


def test_each_value_with_its_origin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "rota.toml").write_text('[node]\nslots = 7\nlabels = { zone = "a" }\n')
    monkeypatch.setenv("ROTA_HTTP", "127.0.0.1:1")
    lines = view("--origin").output.splitlines()
    assert [line.split() for line in lines if line.startswith("slots")] == [["slots", "=", "7", "#", "rota.toml:2"]]
    assert any(line.startswith('labels = { "zone" = "a" }') and line.endswith("# rota.toml:3") for line in lines)
    assert any(line.startswith("http") and line.endswith("# env ROTA_HTTP") for line in lines)
    assert any(line.startswith("drain") and line.endswith("# default") for line in lines)
    assert any(line.startswith("# store") and line.endswith("# not given") for line in lines)


def test_the_same_for_programs(folder: Path) -> None:
    (folder / "other.toml").write_text('[node]\nslots = 7\nlabels = { zone = "a" }\n')
    seen = json.loads(view("--config", "other.toml", "-o", "json").output)
    assert seen["node"]["slots"] == {"value": 7, "origin": "other.toml:2"}
    assert seen["node"]["labels"]["value"] == {"zone": "a"}
    assert seen["node"]["store"] == {"value": None, "origin": "not given"}
    assert seen["runtime"]["drain"] == {"value": "10s", "origin": "default"}
    assert seen["runtime"]["recycle_age"] == {"value": None, "origin": "default"}


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_STORE", "postgresql://me:secret@db/rota?password_file=x")
    for form in ("table", "json"):
        shown = view("-o", form).output
        assert "postgresql://me@db/rota" in shown
        assert "secret" not in shown


def test_a_wrong_file_is_an_error(folder: Path) -> None:
    (folder / "rota.toml").write_text("[node]\nslot = 7\n")
    with pytest.raises(Invalid, match='did you mean "slots"'):
        view()
