"""What tells one code of an app from another."""

import sys
from pathlib import Path

import pytest

from rota.node import loader
from rota.sdk.load import load

APP = "import rota\nimport helper_of_code\n__version__ = '1.2'\napp = rota.App('shop')\n"


def loaded(folder: Path, helper: str, app: str = APP) -> tuple[str, str]:
    """The digest and the version of an app in a folder."""
    folder.mkdir()
    (folder / "shop_of_code.py").write_text(app)
    (folder / "helper_of_code.py").write_text(helper)
    target = str(folder / "shop_of_code.py")
    try:
        load(target)
        return loader._code(target), loader._version(target)
    finally:
        for name in ("shop_of_code", "helper_of_code"):
            sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def test_the_digest_is_the_same_in_every_folder_and_another_for_other_code(tmp_path: Path) -> None:
    one, same, other = (loaded(tmp_path / name, f"X = {value}\n") for name, value in (("a", 1), ("b", 1), ("c", 2)))
    assert one == same
    assert one[0] != other[0]


def test_the_version_is_that_of_the_module(tmp_path: Path) -> None:
    assert loaded(tmp_path / "a", "")[1] == "1.2"
    assert loaded(tmp_path / "b", "", APP.replace("'1.2'", "(1, 2)"))[1] == "", "it is no text"
