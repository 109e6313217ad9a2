"""What counts as a change of an app's files, and when it is told of."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from rota.cli import watched
from rota.cli.watched import LEFT_OUT, changed, changes, folder_of, look


def write(path: Path, text: str = "pass\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_that_are_new_gone_or_different_have_changed(tmp_path: Path) -> None:
    edited, gone, replaced, kept = (write(tmp_path / f"{name}.py") for name in ("edited", "gone", "replaced", "kept"))
    before = look(tmp_path)
    write(edited, "pass  # more\n")
    gone.unlink()
    new = write(tmp_path / "below" / "new.py")
    times = replaced.stat()
    other = write(tmp_path / "replaced.py~")  # as editors do: the same size, the same time, in its place
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, replaced)
    assert changed(before, look(tmp_path)) == sorted([edited, gone, new, replaced])
    assert kept in before


def test_only_python_files_that_an_app_may_import_are_looked_at(tmp_path: Path) -> None:
    app = write(tmp_path / "app.py")
    write(tmp_path / "notes.txt")
    for folder in (*LEFT_OUT, ".rota", ".git"):
        write(tmp_path / folder / "module.py")
    write(tmp_path / "env" / "lib" / "module.py")
    write(tmp_path / "env" / "pyvenv.cfg")
    assert list(look(tmp_path)) == [app]


def test_no_more_files_are_looked_at_than_the_bound(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / f"m{number}.py")
    assert [path.name for path in look(tmp_path, most=3)] == ["m0.py", "m1.py", "m2.py"]


@pytest.mark.parametrize(
    ("app", "folder"),
    [
        ("app.py", "."),
        ("work/app.py:main", "work"),
        ("shop.work", "shop"),
        ("shop.work:main", "shop"),
        ("shop", "shop"),
        ("missing.py", "."),
    ],
)
def test_the_folder_of_an_app(app: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "work" / "app.py")
    write(tmp_path / "shop" / "__init__.py")
    write(tmp_path / "shop" / "work.py")
    monkeypatch.chdir(tmp_path)
    assert folder_of(app) == (tmp_path / folder).resolve()


async def test_a_change_is_told_once_and_only_when_it_has_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "app.py"
    looks = iter([{app: (1, 1, 1)}, {app: (2, 1, 1)}, {}, {app: (3, 1, 1)}, {app: (3, 1, 1)}, {app: (3, 1, 1)}])
    seen = list[int]()

    def next_look(folder: Path) -> watched.Look:
        seen.append(len(seen))
        return next(looks, {app: (4, 1, 1)})

    monkeypatch.setattr(watched, "look", next_look)
    async with asyncio.timeout(60), aclosing(changes(tmp_path, pause=0)) as coming:
        assert await anext(coming) == [app]
        assert len(seen) == 5, "not while it changes from look to look"
        assert await anext(coming) == [app]
        assert len(seen) == 8, "nothing is told twice"
