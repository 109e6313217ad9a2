"""Finding the app: `app.py`, `path/app.py:name`, `package.module`, or `package.module:name`.

A file is imported under the name of its stem, with its folder first on the path, as Python itself would run it. What
the user's code raises on import passes through untouched; Invalid is about the target alone.
"""

import importlib
import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from rota.model.errors import Invalid
from rota.model.spec.checks import did_you_mean
from rota.sdk.app import App

_MARK = "__rota_loaded__"
"""Set in modules that were loaded from a file here: another file of the same name may replace those."""


kept: dict[str, bytes] = {}
"""The source of files, by path, in place of what they say on disk (`runtime.loader.kept`)."""


def load(target: str) -> App:
    """The app that `target` names."""
    where, colon, name = target.partition(":")
    if not where or (colon and not name):
        raise Invalid(f'"{target}" names no app; write app.py, app.py:name, or package.module:name')
    module = _import_file(where) if is_path(where) else _import_module(where)
    app = _named(module, where, name) if name else _only(module, where)
    app.check()
    return app


def is_path(where: str) -> bool:
    """Does this name a file, and not a module?"""
    is_plain_folder = Path(where).is_dir() and not Path(where, "__init__.py").is_file()
    return where.endswith(".py") or os.sep in where or is_plain_folder


def _import_file(where: str) -> ModuleType:
    file = Path(where).resolve()
    if file.is_dir():
        raise Invalid(f'"{where}" is a folder; name a file in it, like {Path(where) / "app.py"}')
    if not file.is_file() and str(file) not in kept:
        beside = [each.name for each in file.parent.glob("*.py")] if file.parent.is_dir() else []
        raise Invalid(f'there is no file "{where}"{_or(did_you_mean(file.name, beside))}')
    if file.suffix != ".py":
        raise Invalid(f'"{where}" is not a Python file; name one that ends in .py')
    if not file.stem.isidentifier():
        raise Invalid(
            f'"{where}" cannot be imported under the name "{file.stem}"; rename it to letters, digits and "_"'
        )
    there = sys.modules.get(file.stem)
    if (there is not None and not hasattr(there, _MARK)) or file.stem in sys.stdlib_module_names:
        raise Invalid(f'"{where}" would take the place of the module "{file.stem}"; rename it')
    _put_first(str(file.parent))
    return _execute(file)


class FromSource(SourceFileLoader):
    """Compiles the file as it is now.

    Python recognizes stale bytecode by whole seconds and size only: a file that was changed twice in a second, as
    scripts do, would come in as it was before.
    """

    def get_code(self, fullname: str) -> CodeType:
        source = kept[self.path] if self.path in kept else self.get_data(self.path)
        return self.source_to_code(source, self.path)


def _execute(file: Path) -> ModuleType:
    loader = FromSource(file.stem, str(file))
    spec = importlib.util.spec_from_file_location(file.stem, file, loader=loader)
    assert spec is not None  # there is a loader
    module = importlib.util.module_from_spec(spec)
    setattr(module, _MARK, True)
    sys.modules[file.stem] = module  # before it runs, as an import would: typing and pickle look here
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(file.stem, None)
        raise
    return sys.modules.get(file.stem, module)


def _import_module(where: str) -> ModuleType:
    if not all(part.isidentifier() for part in where.split(".")):
        raise Invalid(f'"{where}" is neither a file nor a module; write app.py or package.module')
    _put_first(os.getcwd())
    importlib.invalidate_caches()
    # Packages on the way are imported by find_spec; an error in one of them is the user's, and passes.
    for parent, name in _steps(where):
        if parent is not None and not hasattr(sys.modules[parent], "__path__"):
            raise Invalid(f'there is no module "{name}": "{parent}" is not a package; check the name')
        if importlib.util.find_spec(name) is None:
            file = f"; did you mean {where}.py?" if Path(f"{where}.py").is_file() else "; check the name and the folder"
            raise Invalid(f'there is no module "{name}"{file}')
        importlib.import_module(name)
    return sys.modules[where]


def _steps(where: str) -> list[tuple[str | None, str]]:
    """Each package on the way and the module itself, with its parent."""
    parts = where.split(".")
    names = [".".join(parts[: length + 1]) for length in range(len(parts))]
    return list(zip([None, *names], names, strict=False))


def _named(module: ModuleType, where: str, name: str) -> App:
    try:
        found = getattr(module, name)
    except AttributeError:
        guess = did_you_mean(name, _apps(module)) or did_you_mean(name, vars(module))
        raise Invalid(f'there is no "{name}" in {where}{_or(guess)}') from None
    if not isinstance(found, App):
        raise Invalid(f"{where}:{name} is a {type(found).__name__}, not a rota.App; name an App")
    return found


def _only(module: ModuleType, where: str) -> App:
    apps = _apps(module)
    if not apps:
        raise Invalid(f'there is no rota.App in {where}; make one: app = rota.App("name")')
    if len(set(map(id, apps.values()))) > 1:
        names = ", ".join(apps)
        raise Invalid(f"there are several apps in {where}: {names}; choose one, like {where}:{next(iter(apps))}")
    return next(iter(apps.values()))


def _apps(module: ModuleType) -> dict[str, App]:
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _put_first(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _or(guess: str) -> str:
    return guess or "; check the name"
