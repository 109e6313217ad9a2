"""Every command, from the first one a user types: in an empty folder it names the next move, and never a traceback."""

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rota.cli.main import main
from rota.cli.reach import targets
from rota.model.errors import Invalid
from rota.store import open_store
from tests.kit.commands import LEAVES

STARTS = {"join", "node", "up"}
"""What makes a fleet, and needs none."""

OF_A_FLEET = [
    (path, command)
    for path, command in LEAVES
    if any(each.name == "store" for each in command.params) and path[0] not in STARTS
]


def needed(command: click.Command) -> list[str]:
    """Words that stand for all that a command cannot do without."""
    words: list[str] = []
    for each in command.params:
        if isinstance(each, click.Option) and each.required:
            words += [each.opts[0], _value(each)]
    for each in command.params:
        if isinstance(each, click.Argument) and (each.required or each.name == "id"):
            words.append(_value(each))
    return words + EXTRA.get(command.name or "", [])


EXTRA = {"reset-offsets": ["--yes"], "clear": ["--all"], "slots": ["1"]}


def _value(parameter: click.Parameter) -> str:
    match parameter.type:
        case click.Choice() as choice:
            return str(choice.choices[0])
        case click.IntRange() | click.types.IntParamType():
            return "1"
        case _:
            return {"first": "2026-01-01T00:00Z", "last": "2026-01-02T00:00Z"}.get(parameter.name or "", "some")


@pytest.fixture(autouse=True)
def _loud() -> Iterator[None]:
    """A simulation silences its nodes, and here it is not a process of its own."""
    level = logging.getLogger("rota").level
    yield
    logging.getLogger("rota").setLevel(level)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings, in an empty folder."""
    for name in [name for name in os.environ if name.startswith("ROTA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed; anything else than an exit is a traceback."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    out, err = capsys.readouterr()
    code = ended.value.code
    return code if isinstance(code, int) else 0, out, err


@pytest.mark.parametrize(("path", "command"), OF_A_FLEET, ids=[" ".join(path) for path, _ in OF_A_FLEET])
def test_without_a_fleet_one_sentence_names_the_next_move(
    path: tuple[str, ...], command: click.Command, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, *path, *needed(command))
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1
    assert "--store" in err
    assert "ROTA_STORE" in err
    assert "rota up" in err


@pytest.mark.parametrize("path", [path for path, _ in LEAVES], ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, *path, "--help")
    assert code == 0
    assert out.startswith(f"Usage: rota {' '.join(path)}")


def fleet_of(folder: Path) -> str:
    """A fleet that `rota up` has left in a folder; the URL of its store."""
    up = folder / ".rota/up"
    up.mkdir(parents=True)
    url = f"sqlite:///{up}/rota.db"

    async def make() -> None:
        async with open_store(url):
            pass

    asyncio.run(make())
    targets.leave(up, url)
    return url


QUIET = [
    (path, command)
    for path, command in OF_A_FLEET
    if path[-1] in ("ls", "status", "lag") or path in (("events",), ("plan",), ("relay", "stat"), ("audit", "verify"))
]


@pytest.mark.parametrize(("path", "command"), QUIET, ids=[" ".join(path) for path, _ in QUIET])
def test_beside_a_fleet_of_rota_up_nothing_need_be_named(
    path: tuple[str, ...], command: click.Command, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet_of(empty)
    code, _, err = said(capsys, *path, *needed(command))
    assert code == (3 if path == ("streams", "status") else 0), err
    assert "no fleet is named here" not in err


def test_what_an_older_rota_up_left_is_found_too(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet_of(empty)
    (empty / ".rota/up" / targets.NAME).unlink()
    assert said(capsys, "status")[0] == 0


def test_status_says_which_fleet_it_found(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = fleet_of(empty)
    assert said(capsys, "status")[1].splitlines()[0] == f"fleet: {url} (.rota/up)"
    assert said(capsys, "status", "--store", url)[1].startswith("leader: none")


def test_a_fleet_whose_store_is_gone_is_one_sentence(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet_of(empty)
    (empty / ".rota/up/rota.db").unlink()
    code, out, err = said(capsys, "status")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no fleet has used it yet" in err


def test_what_is_no_file_of_rota_up_is_one_sentence(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet_of(empty)
    (empty / ".rota/up" / targets.NAME).write_text("[]")
    code, _, err = said(capsys, "status")
    assert (code, err.count("\n")) == (2, 1)
    assert "fleet.json does not name a store; use --store URL" in err


def test_a_flag_comes_before_a_variable_before_the_file_before_the_folder(empty: Path) -> None:
    fleet_of(empty)
    assert targets.find({}, {}, empty).origin == ".rota/up"
    (empty / "rota.toml").write_text('[node]\nstore = "sqlite:///file.db"\n')
    assert targets.find({}, {}, empty).origin == "rota.toml:2"
    named = {"ROTA_STORE": "sqlite:///variable.db"}
    assert targets.find({}, named, empty).origin == "env ROTA_STORE"
    assert targets.find({"store": "sqlite:///flag.db"}, named, empty).store == "sqlite:///flag.db"


@pytest.mark.parametrize(
    ("given", "environ", "said"),
    [
        ({"store": "sqlite:///a.db", "server": "http://h:1"}, {}, "--store and --server both name a fleet"),
        ({}, {"ROTA_STORE": "sqlite:///a", "ROTA_CONTEXT": "x"}, "ROTA_STORE and ROTA_CONTEXT both name a fleet"),
        ({"token": "t"}, {}, "--token is for a server"),
    ],
)
def test_two_fleets_at_once_are_refused(given: dict[str, str], environ: dict[str, str], said: str, empty: Path) -> None:
    with pytest.raises(Invalid, match=said):
        targets.find(given, environ, empty)
