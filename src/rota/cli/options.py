"""Options that several commands share, and the types they parse to."""

from datetime import timedelta
from typing import Any

import click

from rota.kit import durations


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


store = click.option(
    "--store",
    metavar="URL",
    required=True,
    envvar="ROTA_STORE",
    show_envvar=True,
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
