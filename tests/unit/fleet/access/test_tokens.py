"""The token of a node: made once, found by reference, refused where others could read it."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from rota.fleet.access import tokens as token
from rota.kit.files import write_secret
from rota.model.config import TokenReference
from rota.model.errors import Denied, Invalid
from tests.kit.waiting import eventually

GOOD = "rota_0123456789abcdefghij"


def written(file: Path, text: str = GOOD, mode: int = 0o600) -> TokenReference:
    file.write_text(text)
    file.chmod(mode)
    return TokenReference(f"file:{file}")


def test_a_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = token.make(tmp_path)
    finally:
        os.umask(before)
    assert made == tmp_path / "token"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    text = made.read_text().strip()
    assert text.startswith("rota_")
    assert len(text) == len("rota_") + 43
    assert token.make(tmp_path) is None
    assert token.find(None, tmp_path).text == text
    assert [file.name for file in tmp_path.iterdir()] == ["token"]


def test_what_a_killed_process_left_half_written_is_not_used(tmp_path: Path) -> None:
    written(tmp_path / "token.new", "rota_ha", 0o644)
    token.make(tmp_path)
    assert len(token.find(None, tmp_path).text) > 40
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_two_folders_have_two_tokens(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        token.make(tmp_path / name)
    assert token.find(None, tmp_path / "a").text != token.find(None, tmp_path / "b").text


def test_a_file_is_read_and_named_as_the_place(tmp_path: Path) -> None:
    found = token.find(written(tmp_path / "my secret", f"{GOOD}\n"), tmp_path / "nowhere")
    assert found.text == GOOD
    assert found.file == tmp_path / "my secret"


async def test_a_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token, "LOOK", 0.01)
    file, changes = tmp_path / "token", list[str]()
    held = token.TokenHolder(token.find(written(file), tmp_path))
    keeping = asyncio.create_task(token.keep_fresh(held, lambda: changes.append(held())))
    try:
        file.chmod(0o644)
        await eventually(lambda: "may be read by others" in str([each.__dict__ for each in caplog.records]))
        file.unlink()
        await eventually(lambda: "there is no such file" in str([each.__dict__ for each in caplog.records]))
        assert held() == GOOD
        write_secret(file, f"{GOOD}-another")
        await eventually(lambda: changes == [f"{GOOD}-another"])
        assert held() == f"{GOOD}-another"
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


def test_a_variable_is_read_and_not_handed_down(tmp_path: Path) -> None:
    environ = {"SECRET": GOOD, "HOME": "x"}
    found = token.find(TokenReference("env:SECRET"), tmp_path, environ)
    assert found.text == GOOD
    assert found.file is None
    assert environ == {"HOME": "x"}


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o660, 0o602])
def test_a_file_that_others_may_read_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    written(file, mode=mode)
    with pytest.raises(Denied, match=f"run: chmod 600 {file}$"):
        token.find(None, tmp_path)
    file.chmod(0o600)
    assert token.find(None, tmp_path).text == GOOD


@pytest.mark.parametrize("text", ["", "short", "rota_0123456789 abcdefghij", "x" * 501, "ä" * 30])
def test_what_is_no_token_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    reference = written(tmp_path / "secret", text)
    with pytest.raises(Invalid, match="20 to 500 letters") as caught:
        token.find(reference, tmp_path)
    assert not text or text not in str(caught.value)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"secret: there is no such file"):
        token.find(TokenReference(f"file:{tmp_path}/secret"), tmp_path)
    with pytest.raises(Denied, match="Is a directory"):
        token.find(TokenReference(f"file:{tmp_path}"), tmp_path)


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="env:SECRET: the variable is not set"):
        token.find(TokenReference("env:SECRET"), tmp_path, {})


def test_a_token_does_not_show_itself(tmp_path: Path) -> None:
    assert GOOD not in repr(token.find(written(tmp_path / "a"), tmp_path))
