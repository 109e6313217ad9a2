"""Settings: what a section of the configuration is, put together from flags, variables and files.

`options` makes click options from the fields of a section, and `resolve` makes the section again from what was given:
a flag beats a variable, that the project's `rota.toml`, that the user's file, that the default. `Resolved.origins` says
for each field where its value came from. So an option is declared exactly once, in `model.config`.

The whole file is checked, also sections that the command does not use: a misspelt key is an error that names the file
and the key that was probably meant, never a setting without effect.

The texts below the fields are read from the source of `model.config`, once per process (3 ms); Python itself forgets
them.
"""

import ast
import inspect
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import click
import msgspec

from rota.cli.options import ParamType, parse_size, render_size
from rota.jobs.core.circle import circle
from rota.jobs.core.records import JobSpec
from rota.jobs.core.spec import read_job
from rota.kit.record import replace
from rota.kit.time import durations
from rota.model import config as sections
from rota.model.config import SECTIONS, Section, Size, TokenReference, split_reference
from rota.model.errors import Denied, Invalid
from rota.resources.core.records import WantedResource
from rota.resources.doors.answers import read_resource
from rota.store import url as urls

S = TypeVar("S", bound=Section)
F = TypeVar("F", bound=Callable[..., Any])


class _Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)

FILE = "rota.toml"
RESOURCES, JOBS = "resources", "jobs"
"""The tables of a file that are no section: what the fleet is to keep covered, and what it is to do."""

OFF = "off"
"""How a value is written that is left out on purpose."""

DEFAULT = "default"
NOT_GIVEN = "not given"


class SettingOption(msgspec.Struct, frozen=True):
    """One field of a section, as a flag, as a variable and as a key of a file."""

    section: type[Section]
    name: str
    kind: Any
    word: str
    """What stands for the value in help and reference."""

    is_optional: bool
    default: Any
    """MISSING if there is none, or if other values imply it."""

    shown: str
    """The default, as people write it; empty if there is none."""

    doc: str
    own: str
    """The option's name in a command that declares it itself; empty if it is a plain flag."""

    @property
    def parameter(self) -> str:
        """Its name among the parameters of a command."""
        return self.section.prefix + self.name

    @property
    def flag(self) -> str:
        """Its flag, or what stands in its place."""
        return self.own or "--" + self.parameter.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "ROTA_" + self.parameter.upper()

    @property
    def can_be_off(self) -> bool:
        """Can it be switched off? A name cannot: if it is left out, a default is chosen."""
        return self.is_optional and self.kind in (timedelta, int, Size)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values there are, if they can be counted."""
        if get_origin(self.kind) is Literal:
            return get_args(self.kind)
        if isinstance(self.kind, type) and issubclass(self.kind, Enum):
            return tuple(member.value for member in self.kind)
        return ()

    def read(self, text: str) -> Any:
        """The value that `text` means; ValueError says how to write one."""
        if text == OFF and self.can_be_off:
            return None
        if self.choices and text not in self.choices:
            raise ValueError(f'"{text}" is unknown; choose {", ".join(self.choices[:-1])} or {self.choices[-1]}')
        return _READERS.get(self.kind, self.kind if isinstance(self.kind, type) else str)(text)

    def take(self, value: object) -> Any:
        """The value that a file has; ValueError says how to write one."""
        if self.kind in (int, bool) and type(value) is self.kind:
            return value
        if self.kind == Mapping[str, str] and isinstance(value, dict):
            if bad := next((key for key, each in value.items() if not isinstance(each, str)), None):
                raise ValueError(f"{bad} = {value[bad]!r} is not text; write it in quotes")
            return value
        if isinstance(value, str) and (
            self.kind not in (int, bool, Mapping[str, str]) or (value == OFF and self.can_be_off)
        ):
            return self.read(value)
        raise ValueError(f"{value!r} is not {_FORMS.get(self.kind, 'text; write it in quotes')}")

    def render(self, value: Any) -> str:
        """A value as people write it."""
        if value is None:
            return OFF if self.can_be_off else ""
        if self.word == "URL":
            return str(urls.parse(value))  # which leaves the password out
        return _RENDERERS.get(self.kind, str)(value)


class Setting(msgspec.Struct, frozen=True):
    """One value, and where it came from."""

    option: SettingOption
    value: Any
    origin: str
    """`flag --http`, `env ROTA_HTTP`, `rota.toml:12`, `default` or `not given`."""


class Resolved(msgspec.Struct, Generic[S], frozen=True):
    """A section, and for each of its fields where its value came from."""

    config: S
    origins: dict[str, str]


def options(section: type[Section], only: Collection[str] | None = None) -> Callable[[F], F]:
    """Flags for the fields of a section, or for some of them; not for those that commands ask for in their own way."""

    def decorate(command: F) -> F:
        for option in reversed(declared(section)):  # the decorator that is applied last comes first in the help
            if not option.own and (only is None or option.name in only):
                command = _flag(option)(command)
        return command

    return decorate


config_file = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="ROTA_CONFIG",
    help=f"Settings to read instead of {FILE} in this folder.  [env: ROTA_CONFIG]",
)
"""Its parameter is `config`, which `resolve` finds among the flags."""


def resolve(
    section: type[S],
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Resolved[S]:
    """The section as it was configured; Invalid names what is wrong and where it stands.

    `flags` are a command's parameters by name; None means not given, and what belongs to no section is left alone.
    """
    found = look_up(section, flags or {}, environ=environ, folder=folder)
    if missing := next((setting.option for setting in found.values() if setting.origin == NOT_GIVEN), None):
        raise Invalid(
            f"{missing.name} is not given; use {missing.flag} {missing.word}, set {missing.variable}, "
            f"or write {missing.name} into [{section.table}] of {FILE}"
        )
    try:
        config = section(**{name: setting.value for name, setting in found.items()})
    except Invalid as error:
        raise _with_origin(error, found) from None
    return Resolved(config, {name: setting.origin for name, setting in found.items()})


def changed(running: Iterable[Section], flags: Mapping[str, Any]) -> list[str]:
    """The settings that would have another value now than in these sections; Invalid or Denied if they are wrong."""
    return [
        f"{section.table}.{each.name}"
        for section in running
        for now in [resolve(type(section), flags).config]
        for each in declared(type(section))
        if getattr(now, each.name) != getattr(section, each.name)
    ]


def look_up(
    section: type[Section],
    flags: Mapping[str, Any],
    *,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> dict[str, Setting]:
    """Every field of a section with its value and origin, also where a required one is missing."""
    files = _files(flags.get("config"), environ, folder or Path())
    found = {option.name: _find(option, flags, environ, files) for option in declared(section)}
    implied = section.implied({name: setting.value for name, setting in found.items()})
    for name, value in implied.items():
        if found[name].origin == NOT_GIVEN:
            found[name] = Setting(found[name].option, value, DEFAULT)
    return found


def resources(
    flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> tuple[WantedResource, ...] | None:
    """The resources of the strongest file; None if there is no file. Invalid names the table that is wrong."""
    files = _files((flags or {}).get("config"), environ, folder or Path())
    return _resources(files[0]) if files else None


def jobs(
    flags: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> tuple[JobSpec, ...] | None:
    """The jobs of the strongest file; None if there is no file. Invalid names the table that is wrong."""
    files = _files((flags or {}).get("config"), environ, folder or Path())
    return _jobs(files[0]) if files else None


def _resources(file: "_File") -> tuple[WantedResource, ...]:
    return _listed(file, RESOURCES, read_resource)


def _jobs(file: "_File") -> tuple[JobSpec, ...]:
    found = _listed(file, JOBS, read_job)
    for each in found:
        if way := circle(each.name, {other.name: other.after for other in found}):
            raise Invalid(f"{file.shown}: [[{JOBS}]]: after goes in a circle: {' after '.join(way)}; break it")
    return found


def _listed(file: "_File", name: str, read: Callable[[dict[str, object]], N]) -> tuple[N, ...]:
    """What the tables of that name declare, each once."""
    found: dict[str, N] = {}
    tables: Any = file.tables.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Invalid(f"{file.shown}: {name} is no list of tables; write [[{name}]] before each")
    for number, table in enumerate(tables):
        try:
            each = read(msgspec.to_builtins(table))  # a time is text in JSON
            if each.name in found:
                raise Invalid(f"{each.name} is declared twice; take one out")
        except Invalid as error:
            raise Invalid(f"{file.table_place(name, number)}: [[{name}]]: {error}") from None
        found[each.name] = each
    return tuple(found.values())


def declared(section: type[Section]) -> tuple[SettingOption, ...]:
    """The options of a section, in the order they are written."""
    return _all_declared()[section]


@cache
def _all_declared() -> dict[type[Section], tuple[SettingOption, ...]]:
    source = ast.parse(inspect.getsource(sections))
    return {section: _declared(section, _docs(section, source)) for section in SECTIONS}


def _declared(section: type[Section], docs: Mapping[str, str]) -> tuple[SettingOption, ...]:
    hints = get_type_hints(section, include_extras=True)
    found = []
    for each in fields(section):  # type: ignore[arg-type]  # every section is a dataclass
        kind, word, is_optional = _taken_apart(each.name, hints[each.name])
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        own = each.metadata.get("flag", "")
        option = SettingOption(section, each.name, kind, word, is_optional, default, "", docs[each.name], own)
        shown = each.metadata.get("default") or ("" if default is MISSING else option.render(default))
        found.append(replace(option, shown=shown))
    return tuple(found)


class _SettingType(ParamType[Any]):
    """A text that an option can read."""

    def __init__(self, option: SettingOption) -> None:
        self.name, self._option = option.word.lower(), option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            self._option.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value  # as it was written: read, "off" would look like not given


def _flag(option: SettingOption) -> Callable[[F], F]:
    """The click option of an option. Whether it was given must show, so click gets no default."""
    kind: ParamType[Any]
    notes = [f"env: {option.variable}", *([f"default: {option.shown}"] if option.shown else [])]
    shown = f"{option.doc}  [{'; '.join(notes)}]"
    if option.kind is bool:
        return click.option(option.flag, option.parameter, is_flag=True, default=None, help=shown)
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.kind is Path:
        kind = click.Path(path_type=Path, file_okay=False)
    else:
        kind = _SettingType(option)
    metavar = None if option.choices else option.word
    return click.option(option.flag, option.parameter, type=kind, metavar=metavar, help=shown)


class _File(msgspec.Struct, frozen=True):
    """A file of settings that has been read and whose keys are all known."""

    shown: str
    text: str
    tables: Mapping[str, Mapping[str, Any]]

    def place(self, table: str, key: str) -> str:
        """The file and, where it is easy to tell, the line of a key."""
        within, wanted = "", re.compile(rf"{re.escape(key)}\s*[.=]")
        for number, line in enumerate(self.text.splitlines(), 1):
            bare = line.strip()
            if bare.startswith("["):
                within = bare.split("#")[0].strip("[] \t")
                if within == f"{table}.{key}":
                    return f"{self.shown}:{number}"
            elif within == table and wanted.match(bare):
                return f"{self.shown}:{number}"
        return self.shown

    def table_place(self, name: str, number: int) -> str:
        """The file and the line of one of several tables of a name, where it is easy to tell."""
        header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
        lines = [at for at, line in enumerate(self.text.splitlines(), 1) if header.match(line)]
        return f"{self.shown}:{lines[number]}" if number < len(lines) else self.shown


def _files(named: Path | str | None, environ: Mapping[str, str], folder: Path) -> list[_File]:
    """The files that count here, the strongest first."""
    named = named or environ.get("ROTA_CONFIG")
    project = _read(Path(named), str(named), must_exist=True) if named else _read(folder / FILE, FILE)
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
    user = Path(home) / "rota" / FILE
    of_user = _read(user, str(user)) if user.is_absolute() else None
    return [file for file in (project, of_user) if file is not None]


def _read(path: Path, shown: str, *, must_exist: bool = False) -> _File | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if must_exist:
            raise Invalid(f"{shown}: there is no such file; correct --config or ROTA_CONFIG") from None
        return None
    except UnicodeDecodeError:
        raise Invalid(f"{shown} is not UTF-8 text; settings are written in TOML") from None
    except OSError as error:
        raise Denied(f"{shown}: {error.strerror}; make it readable, or name another with --config") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{shown} is not TOML: {error}") from None
    file = _File(shown, text, tables)
    _check(file)
    return file


def _check(file: _File) -> None:
    """Invalid if the file has a table or a key that no section has, or a value that does not fit."""
    known = {section.table: section for section in SECTIONS}
    _resources(file)
    _jobs(file)
    for table, content in file.tables.items():
        if table in (RESOURCES, JOBS):
            continue
        if table not in known:
            raise Invalid(f"{file.shown}: there is no section [{table}]{_suggestion(table, [*known, RESOURCES, JOBS])}")
        if not isinstance(content, dict):
            raise Invalid(f"{file.shown}: {table} = {content!r} is no section; write [{table}] and its keys below it")
        keys = {option.name: option for option in declared(known[table])}
        for key, value in content.items():
            if key not in keys:
                raise Invalid(f'{file.place(table, key)}: [{table}] has no "{key}"{_suggestion(key, keys)}')
            _taken(file, keys[key], value)


def _taken(file: _File, option: SettingOption, value: object) -> Any:
    """A value of a file; Invalid names key, value and file."""
    try:
        return option.take(value)
    except ValueError as error:
        where = file.place(option.section.table, option.name)
        raise Invalid(f"{where}: {option.name} in [{option.section.table}]: {error}") from None


def _suggestion(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, known, 1)
    return f'; did you mean "{close[0]}"?' if close else f"; known are {', '.join(sorted(known))}"


def _find(option: SettingOption, flags: Mapping[str, Any], environ: Mapping[str, str], files: list[_File]) -> Setting:
    """The value of one option, from the strongest place that has one."""
    if (given := flags.get(option.parameter)) is not None:
        return Setting(option, option.read(given) if isinstance(given, str) else given, f"flag {option.flag}")
    if text := environ.get(option.variable):
        try:
            return Setting(option, option.read(text), f"env {option.variable}")
        except ValueError as error:
            raise Invalid(f"{option.variable}: {error}") from None
    for file in files:
        table = file.tables.get(option.section.table, {})
        if option.name in table:
            value = _taken(file, option, table[option.name])
            return Setting(option, value, file.place(option.section.table, option.name))
    if option.default is MISSING:
        return Setting(option, None, NOT_GIVEN)
    return Setting(option, option.default, DEFAULT)


def _with_origin(error: Invalid, found: Mapping[str, Setting]) -> Invalid:
    """The error, with the place of the value it begins with unless that is on the command line."""
    words = re.split(r"[ :]", str(error), maxsplit=1)[0].rpartition(".")[2]
    origin = found[words].origin if words in found else ""
    return Invalid(f"{error} ({origin})") if origin and not origin.startswith("flag ") else error


def _docs(section: type[Section], source: ast.Module) -> dict[str, str]:
    """The text below each field of a section."""
    body = next(part.body for part in source.body if isinstance(part, ast.ClassDef) and part.name == section.__name__)
    found = {}
    for above, below in pairwise(body):
        match above, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                found[name] = inspect.cleandoc(text)
    return found


def _taken_apart(name: str, hint: Any) -> tuple[Any, str, bool]:
    """The type of a value, the word for it, and whether it may be left out on purpose."""
    is_optional = get_origin(hint) in (Union, UnionType)
    if is_optional:
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:
        kind, word = get_args(hint)
        return kind, word, is_optional
    return hint, _WORDS.get(hint, name.upper()), is_optional


def _read_count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'"{text}" is not a whole number')
    return int(text)


def _read_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f'"{text}" is neither; write true or false')
    return text == "true"


def _read_reference(text: str) -> TokenReference:
    try:
        split_reference(text)
    except Invalid as error:
        raise ValueError(str(error)) from None
    return TokenReference(text)


def _read_pairs(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    if bad := next((key for key, equals, _ in pairs if not equals), None):
        raise ValueError(f'"{bad}" is not a pair; write name=value,name=value')
    return {key.strip(): value.strip() for key, _, value in pairs}


_READERS: dict[Any, Callable[[str], Any]] = {
    timedelta: durations.parse,
    Size: parse_size,
    int: _read_count,
    bool: _read_flag,
    TokenReference: _read_reference,
    Mapping[str, str]: _read_pairs,
}
_RENDERERS: dict[Any, Callable[[Any], str]] = {
    timedelta: durations.render,
    Size: render_size,
    bool: lambda value: str(value).lower(),
    Mapping[str, str]: lambda pairs: ",".join(f"{name}={value}" for name, value in pairs.items()),
}
_WORDS: dict[Any, str] = {
    timedelta: "DURATION",
    Size: "SIZE",
    int: "COUNT",
    bool: "true|false",
    TokenReference: "file:PATH|env:NAME",
    Path: "DIRECTORY",
    Mapping[str, str]: "NAME=VALUE,…",
}
_FORMS: dict[Any, str] = {
    timedelta: 'a duration; write it in quotes, like "30s"',
    Size: 'a size; write it in quotes, like "512MiB"',
    int: "a whole number; write it without quotes",
    bool: "true or false; write it without quotes",
    Mapping[str, str]: 'a table of texts; write it like { zone = "a" }',
}
