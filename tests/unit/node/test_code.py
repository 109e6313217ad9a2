"""What tells one code of an app from another."""

import sys
from pathlib import Path

import pytest

from rota.node import kept, loader
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
        return kept.digest(kept.collect(target)), loader._version(target)
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


def sources(file: Path, text: str) -> kept.Sources:
    return kept.Sources("app.py", (kept.Module("app", str(file), False, text.encode()),))


def test_code_is_kept_until_its_files_change(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("broken(")
    assert kept.Kept(tmp_path).keep(kept.packed(sources(file, "good")), 1)
    later = kept.Kept(tmp_path)
    assert later.find("app.py", 1)
    assert (later.of(1), later.of(2), later.is_outdated) == (tmp_path / kept.NAME, None, False)
    assert not kept.Kept(tmp_path).find("other.py", 1), "another app"
    file.write_text("fixed")
    assert later.find("app.py", 1)
    assert later.is_outdated
    later.drop()
    assert not kept.Kept(tmp_path).find("app.py", 1)


def test_code_that_is_on_disk_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("good")
    held = kept.Kept(tmp_path)
    assert held.keep(kept.packed(sources(file, "other")), 1)
    assert held.keep(kept.packed(sources(file, "good")), 2)
    assert (held.is_used, (tmp_path / kept.NAME).exists()) == (False, False)


def test_what_cannot_be_read_or_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / kept.NAME).write_bytes(b"torn")
    assert not kept.Kept(tmp_path).find("app.py", 1)
    assert not kept.Kept(tmp_path).keep(b"", 1), "it was too large"
    assert not (tmp_path / kept.NAME).exists(), "what was kept before is of another generation"
    assert not kept.Kept(tmp_path / "gone").keep(kept.packed(sources(tmp_path / "app.py", "good")), 1)
