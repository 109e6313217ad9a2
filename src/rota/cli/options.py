"""Options that several commands share, and the types they parse to.

`--store` is looked for where every setting is: the flag, then `ROTA_STORE`, then `rota.toml`, then the user's file.
"""

import re
from datetime import timedelta
from typing import Any

import click

from rota.kit import durations
from rota.model.config import Size as Bytes

_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SIZE = re.compile(r"(\d+)(B|KiB|MiB|GiB|TiB)")


class Duration(click.ParamType[timedelta]):
    """A duration such as 10s."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return durations.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Size(click.ParamType[Bytes]):
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


def _store_from_files() -> str | None:
    """The store that the settings name where no flag and no variable does."""
    from rota.cli import settings  # noqa: PLC0415  # it needs this module's types
    from rota.model.config import NodeConfig  # noqa: PLC0415

    value: str | None = settings.look_up(NodeConfig, {})["store"].value
    return value


store = click.option(
    "--store",
    metavar="URL",
    required=True,
    envvar="ROTA_STORE",
    show_envvar=True,
    default=_store_from_files,
    show_default="store in rota.toml",
    help="The fleet's store: sqlite:///file.db, etcd://host:2379,…",
)
output = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people or programs.",
)
