"""Answers of commands: tables and lines for people, nothing cut and quick for ten thousand rows; JSON for programs.

What stands in them was often written by others, so tables and `say` show what a terminal would obey instead of sending
it. A command prints what it read from a fleet through this module alone.
"""

import unicodedata
from collections.abc import Iterable, Sequence

import click
import msgspec

from rota.kit.plain import plain

GAP = "  "


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [headings, *([plain(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    return [
        GAP.join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def show(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str, *, is_bold: bool = False) -> None:
    """Print a table, its headings bold if they are to be, or what to say if it has no rows."""
    heading, *lines = table(headings, rows) if rows else [empty]
    click.echo(click.style(heading, bold=True) if is_bold and rows else heading)
    for line in lines:
        click.echo(line)


def say(text: str, *, err: bool = False, colour: str | None = None) -> None:
    """Print lines with something in them that others wrote."""
    shown = plain(text, keep="\n")
    click.echo(click.style(shown, fg=colour) if colour else shown, err=err)


def show_json(content: object) -> None:
    """Print anything as JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


def pairs(fields: dict[str, str]) -> str:
    """Labels in one cell."""
    return ",".join(f"{name}={value}" for name, value in fields.items())


def _width(text: str) -> int:
    """The columns a text takes; Chinese characters take two."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def count(number: int, what: str) -> str:
    """A number of things, like "1 record" and "2 records"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
