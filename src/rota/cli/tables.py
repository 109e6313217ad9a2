"""Answers of commands: tables for people, with nothing cut and quick for ten thousand rows; JSON for programs."""

import unicodedata
from collections.abc import Iterable, Sequence

import click
import msgspec

GAP = "  "


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [headings, *rows]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    return [
        GAP.join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def show(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print a table, or what to say if it has no rows."""
    for line in table(headings, rows) if rows else [empty]:
        click.echo(line)


def show_json(content: object) -> None:
    """Print anything as JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


def pairs(fields: dict[str, str]) -> str:
    """Labels in one cell."""
    return ",".join(f"{name}={value}" for name, value in fields.items())


def _width(text: str) -> int:
    """The columns a text takes; Chinese characters take two."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
