"""Kept code: the source of a generation that was gone back to, so that a node that starts anew runs it, too.

After a rollback the files on disk are those of the generation that was left. A loader remembers the source of the app's
own modules as it imported them; at a rollback the agent writes them into the data folder. From then on, until a reload
succeeds, loaders of that generation and of the node's next lives take these modules from there and not from the files.
A life that finds the files changed since then tries them first, and takes what was kept only if they cannot be loaded.
Their `__file__` is what it was, so other files beside them are found, as they are now. Modules that are imported later,
inside functions, are not among them, and neither are compiled ones.

The app may be named by way of a link that each release moves (`/srv/app/current/app.py`). Then the files on disk are
those to which the link leads now, and not those that were imported.
"""

import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import msgspec
from msgspec.structs import replace

from rota.model.errors import Invalid
from rota.sdk import load

NAME = "rolled-back"
"""The file in the data folder."""

LARGEST = 16 * 2**20
"""Bytes of what is kept, compressed."""


class Module(msgspec.Struct, frozen=True):
    """A module of the app."""

    name: str
    file: str
    is_package: bool
    source: bytes


class AppSources(msgspec.Struct, frozen=True):
    """The app's own modules, as they were imported."""

    target: str
    modules: tuple[Module, ...]
    entry: str = ""
    """The path by which the app is found, links and all; a relative one begins at the node's working folder."""

    file: str = ""
    """The file that this path led to."""

    left: str = ""
    """A digest of the content of their files when they were kept: if it differs now, other code was put there."""


def collect(target: str, used: AppSources | None = None) -> AppSources:
    """The app's own modules: those that are imported from its folder or below; `used` are those it was loaded from."""
    name = target.partition(":")[0]
    path = Path(name)
    if not path.exists():
        path = _from_here(Path(getattr(sys.modules.get(name), "__file__", None) or "."))
    entry = path.resolve()
    folder = entry.parent
    found = {}
    for module_name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or module_name == "__main__":
            continue
        file = Path(file).resolve()
        if folder not in file.parents or "site-packages" in file.parts:
            continue
        try:
            source = load.kept[str(file)] if str(file) in load.kept else file.read_bytes()
        except OSError:
            continue
        found[str(file)] = Module(module_name, str(file), hasattr(module, "__path__"), source)
    sources = AppSources(target, tuple(found[file] for file in sorted(found)), str(path), str(entry))
    return sources if used is None else replace(sources, target=used.target, entry=used.entry)


def _from_here(path: Path) -> Path:
    """A path relative to the working folder, which may be another one in the node's next life."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def digest(sources: AppSources) -> str:
    """A digest of the sources; it does not depend on their folder."""
    folder = os.path.commonpath([os.path.dirname(each.file) for each in sources.modules] or ["/"])
    total = hashlib.blake2b(digest_size=8)
    for each in sources.modules:
        relative = os.path.relpath(each.file, folder).encode("utf-8", "surrogateescape")
        total.update(hashlib.blake2b(relative).digest() + hashlib.blake2b(each.source).digest())
    return total.hexdigest()


def packed(sources: AppSources) -> bytes:
    """The sources in the form in which they are kept; empty if they are too large, or if a name cannot be encoded."""
    with contextlib.suppress(UnicodeEncodeError):
        modules = tuple(each for each in sources.modules if each.file.endswith(".py"))
        data = zlib.compress(msgspec.msgpack.encode(replace(sources, modules=modules)), 1)
        return data if len(data) <= LARGEST else b""
    return b""


def unpacked(data: bytes) -> AppSources:
    """The sources that were kept; Invalid if the data is something else."""
    try:
        return msgspec.msgpack.decode(zlib.decompress(data), type=AppSources)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"it cannot be read ({error})") from None


def use(sources: AppSources) -> str:
    """From now on, import these modules from memory, whatever their files contain; returns what to load in place of the
    target."""
    load.kept.update({each.file: each.source for each in sources.modules})
    sys.meta_path.insert(0, _Finder(sources.modules))
    name, colon, app = sources.target.partition(":")
    return f"{sources.file}{colon}{app}" if sources.file and load.is_path(name) else sources.target


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = {each.name: each for each in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Where a module is, if it is one of those that are kept."""
        if (found := self._modules.get(fullname)) is None:
            return None
        places = [os.path.dirname(found.file)] if found.is_package else None
        loader = load.FromSource(fullname, found.file)
        return importlib.util.spec_from_file_location(
            fullname, found.file, loader=loader, submodule_search_locations=places
        )


class KeptFile:
    """The agent's side of the file."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = None if folder is None else folder / NAME
        self._generation: int | None = None
        self.is_outdated = False
        """Have the files on disk changed since the code was kept? Then they come first."""

    @property
    def is_used(self) -> bool:
        """Does a generation of this life come from the file?"""
        return self._generation is not None

    def of(self, generation: int) -> Path | None:
        """The file that a generation is loaded from; None: from the app's own files."""
        return self._file if generation == self._generation else None

    def find(self, target: str, generation: int) -> bool:
        """Was this app gone back to in an earlier life? Then the generation is loaded from the file."""
        if self._file is None or not self._file.exists():
            return False
        with contextlib.suppress(OSError, Invalid):
            found = unpacked(self._file.read_bytes())
            if found.target == target:
                self._generation, self.is_outdated = generation, found.left != _on_disk(found)
        return self.is_used

    def keep(self, data: bytes, generation: int) -> bool:
        """Keep the code of a generation that was gone back to; False if that is not possible."""
        if self._file is None or not data:
            self.drop()
            return False
        try:
            sources = unpacked(data)
            if _is_on_disk(sources):
                self.drop()
                return True
            data = packed(replace(sources, left=_on_disk(sources)))
            draft = self._file.with_suffix(".new")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._file)
        except (OSError, Invalid):
            self.drop()
            return False
        self._generation = generation
        return True

    def pass_over(self) -> None:
        """Load nothing from the file for the time being."""
        self._generation = None

    def drop(self) -> None:
        """Delete the kept code: the files on disk count again."""
        self._generation = None
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)


def _on_disk(sources: AppSources) -> str:
    """A digest of the present content of these modules' files."""
    total = hashlib.blake2b(digest_size=16)
    for _, file in _files_now(sources):
        try:
            total.update(hashlib.blake2b(file.read_bytes()).digest())
        except OSError:
            total.update(b"gone")
    return total.hexdigest()


def _is_on_disk(sources: AppSources) -> bool:
    """Do the files have the same content?"""
    try:
        return all(file.read_bytes() == each.source for each, file in _files_now(sources))
    except OSError:
        return False


def _files_now(sources: AppSources) -> Iterator[tuple[Module, Path]]:
    """The modules, each with the file that an import of the app would find for it now."""
    before, now = os.path.dirname(sources.file), Path(sources.entry).resolve().parent
    for each in sources.modules:
        yield each, now / os.path.relpath(each.file, before) if sources.file else Path(each.file)
