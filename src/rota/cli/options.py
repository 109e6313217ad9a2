"""Options that several commands share, and the types they parse to.

Which fleet is meant, `targets` finds, after the command line was read: what is wrong there is reported first.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rota.cli.reach import names, targets
from rota.cli.terminal import tables
from rota.kit.time import durations
from rota.model.config import Size as Bytes
from rota.model.errors import Invalid

_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SIZE = re.compile(r"(\d+)(B|KiB|MiB|GiB|TiB)")
F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    ParamType = click.ParamType
else:

    class ParamType(click.ParamType):
        """click's, which says what it converts to; before click 8.4 it could not be asked."""

        def __class_getitem__(cls, _: object) -> type:
            return cls


class Duration(ParamType[timedelta]):
    """A duration such as 10s."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return durations.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Since(ParamType[timedelta | datetime]):
    """How long ago, such as 2h, or when, such as 2026-11-16 or 2026-11-16T03:00Z."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | datetime:
        if isinstance(value, timedelta | datetime):
            return value
        with suppress(ValueError):
            return durations.parse(value)
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f'"{value}" is neither a duration nor a time; write how long ago, like 30m, 2h or 7d, or when, like '
                "2026-11-16 or 2026-11-16T03:00Z (UTC unless it says a zone)",
                param,
                ctx,
            )
        return found if found.tzinfo else found.replace(tzinfo=UTC)


async def start(now: Callable[[], Awaitable[datetime]], since: timedelta | datetime | None) -> datetime | None:
    """The moment that is meant. `now`: the store's clock, asked only for a duration."""
    if not isinstance(since, timedelta):
        return since
    try:
        return await now() - since
    except OverflowError:
        raise Invalid("--since is before the beginning of time; leave it out to see everything") from None


class Size(ParamType[Bytes]):
    """A number of bytes such as 64MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Bytes:
        if isinstance(value, int):
            return Bytes(value)
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_size(text: str) -> Bytes:
    """The number of bytes `text` means; ValueError says how to write it."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is not a size; write a whole number and a unit, like 512MiB or 2GiB')
    return Bytes(int(found[1]) * _UNITS[found[2]])


def render_size(size: Bytes) -> str:
    """The shortest exact way to write `size`."""
    unit = next(unit for unit in reversed(_UNITS) if size % _UNITS[unit] == 0)
    return f"{size // _UNITS[unit]}{unit}" if size else "0B"


_store = click.option(
    "--store", metavar="URL", help="The fleet's store: sqlite:///file.db, etcd://host:2379,…  [env: ROTA_STORE]"
)


def store(command: F) -> F:
    """`--store` for a command that works on the store itself; it is given the URL of the one that was found."""

    @wraps(command)
    def run(*args: Any, store: str | None, **given: Any) -> Any:
        return command(*args, store=targets.store(store), **given)

    return _store(cast(F, run))


SERVER = (
    click.option(
        "--server", metavar="URL", help="A node's address instead: http://127.0.0.1:7700.  [env: ROTA_SERVER]"
    ),
    click.option("--token", metavar="FILE|env:NAME", help="Where the token for --server is.  [env: ROTA_TOKEN]"),
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=names.contexts,
        help="A fleet saved by rota login.  [env: ROTA_CONTEXT]",
    ),
)
"""The options that name a fleet by the doors of a node."""


def fleet(command: F) -> F:
    """The options that name a fleet, for a command that is given the one that was found."""

    @wraps(command)
    def run(
        *args: Any, store: str | None, server: str | None, token: str | None, context: str | None, **given: Any
    ) -> Any:
        named = {"store": store, "server": server, "token": token, "context": context}
        return command(*args, fleet=targets.find(named), **given)

    found = cast(F, run)
    for option in reversed((_store, *SERVER)):
        found = option(found)
    return found


class Shape(StrEnum):
    """What `-o json` prints; each command has one."""

    OBJECT = "an object"
    LIST = "a list"
    PAGE = "an object with items, and next, the token of the next page or null"
    LINES = "one object per line"


class OutputOption(click.Option):
    """`-o`: what a command prints. It is not given to the command: `tables` knows it."""

    def __init__(self, *args: Any, shape: Shape, lines_with: str = "", **given: Any) -> None:
        super().__init__(*args, **given)
        self.shape = shape
        self.lines_with = lines_with
        """The option with which JSON is one object per line; empty: there is none."""


def output(shape: Shape, *, lines_with: str = "", has_jsonl: bool = False) -> Callable[[F], F]:
    """`-o` for a command that says with `tables.answer` or `tables.line` what JSON it has, of this shape."""
    words = [f"json is {shape}", *([f"with {lines_with} {Shape.LINES}"] if lines_with else [])]
    if has_jsonl:
        words.append(f"jsonl is always {Shape.LINES}")
    return click.option(
        "-o",
        "--output",
        cls=OutputOption,
        shape=shape,
        lines_with=lines_with,
        type=click.Choice(["table", "json", *(["jsonl"] if has_jsonl else [])]),
        default="table",
        show_default=True,
        expose_value=False,
        callback=_remember,
        help=f"For people or programs; {', '.join(words)}.",
    )


def _remember(ctx: click.Context, param: click.Parameter, value: str) -> None:
    ctx.meta[tables.FORM] = value
