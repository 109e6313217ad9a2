"""What tells one code of an app from another."""

import sys
from pathlib import Path

import pytest

from rota.runtime.loader import kept
from rota.runtime.loader import main as loader
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


def sources(file: Path, text: str) -> kept.AppSources:
    return kept.AppSources("app.py", (kept.Module("app", str(file), False, text.encode()),))


def test_code_is_kept_until_its_files_change(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("broken(")
    assert kept.KeptFile(tmp_path).keep(kept.packed(sources(file, "good")), 1)
    later = kept.KeptFile(tmp_path)
    assert later.find("app.py", 1)
    assert (later.of(1), later.of(2), later.is_outdated) == (tmp_path / kept.NAME, None, False)
    assert not kept.KeptFile(tmp_path).find("other.py", 1), "another app"
    file.write_text("fixed")
    assert later.find("app.py", 1)
    assert later.is_outdated
    later.drop()
    assert not kept.KeptFile(tmp_path).find("app.py", 1)


def test_code_that_is_on_disk_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("good")
    held = kept.KeptFile(tmp_path)
    assert held.keep(kept.packed(sources(file, "other")), 1)
    assert held.keep(kept.packed(sources(file, "good")), 2)
    assert (held.is_used, (tmp_path / kept.NAME).exists()) == (False, False)


def test_what_cannot_be_read_or_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / kept.NAME).write_bytes(b"torn")
    assert not kept.KeptFile(tmp_path).find("app.py", 1)
    assert not kept.KeptFile(tmp_path).keep(b"", 1), "it was too large"
    assert not (tmp_path / kept.NAME).exists(), "what was kept before is of another generation"
    assert not kept.KeptFile(tmp_path / "gone").keep(kept.packed(sources(tmp_path / "app.py", "good")), 1)


def release(folder: Path, value: int, *, is_broken: bool = False) -> Path:
    """A release of the app in a folder of its own."""
    folder.mkdir()
    (folder / "shop_of_code.py").write_text("def broken(:\n" if is_broken else APP)
    (folder / "helper_of_code.py").write_text(f"X = {value}\n")
    return folder


def lead(link: Path, folder: Path) -> None:
    """Have a link lead to a release."""
    link.unlink(missing_ok=True)
    link.symlink_to(folder)


def collected(target: str) -> bytes:
    """The code of an app, packed, as its loader imports it."""
    try:
        load(target)
        return kept.packed(kept.collect(target))
    finally:
        for name in ("shop_of_code", "helper_of_code"):
            sys.modules.pop(name, None)


def test_a_release_that_was_gone_back_to_is_kept_while_the_link_leads_to_another(tmp_path: Path) -> None:
    good, bad, link = release(tmp_path / "1", 1), release(tmp_path / "2", 2, is_broken=True), tmp_path / "current"
    lead(link, good)
    target = str(link / "shop_of_code.py")
    data = collected(target)
    lead(link, bad)
    held = kept.KeptFile(tmp_path)
    assert (held.keep(data, 1), held.is_used) == (True, True), "a node that starts anew would import the broken one"

    later = kept.KeptFile(tmp_path)
    assert (later.find(target, 1), later.is_outdated) == (True, False)
    lead(link, release(tmp_path / "3", 3))
    assert (later.find(target, 1), later.is_outdated) == (True, True)
    lead(link, good)
    assert (held.keep(data, 1), held.is_used) == (True, False), "the link leads to this code again"


def test_an_app_is_loaded_from_what_is_kept_and_not_from_where_its_link_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, link = release(tmp_path / "1", 1), tmp_path / "current"
    lead(link, good)
    target = str(link / "shop_of_code.py")
    sources = kept.unpacked(collected(target))
    lead(link, release(tmp_path / "2", 2, is_broken=True))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr("rota.sdk.load.kept", {})
    try:
        instead = kept.use(sources)
        assert load(instead).name == "shop"
        assert sys.modules["helper_of_code"].X == 1
        again = kept.collect(instead, sources)
        assert (again.target, again.entry, again.modules) == (sources.target, sources.entry, sources.modules)
    finally:
        for name in ("shop_of_code", "helper_of_code"):
            sys.modules.pop(name, None)


def test_a_compiled_module_is_told_apart_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")
    compiled = kept.Module("fast", str(tmp_path / "fast.so"), False, b"\x7fELF\0")
    plain = sources(tmp_path / "app.py", "good")
    both = kept.AppSources("app.py", (*plain.modules, compiled))
    assert kept.digest(both) != kept.digest(plain)
    assert kept.unpacked(kept.packed(both)).modules == plain.modules
