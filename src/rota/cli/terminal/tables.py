"""Answers of commands: tables and lines for people, nothing cut and quick for ten thousand rows; JSON for programs.

Their texts may come from untrusted writers, so tables and `say` show control characters escaped instead of sending them
to the terminal. A command prints what it read from a fleet through this module alone.

A command gives its answer in both forms, and one of them is printed: with `-o json` what it gives to `answer` or
`line`, else what it gives to `show`, `say` and `facts`. So stdout then has nothing but JSON. `options.output` declares
the shape of the JSON.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import click
import msgspec

from rota.cli.terminal import colours
from rota.kit.text.plain import plain

T = TypeVar("T")

GAP = "  "
FORM = "rota.cli.form"
"""Where `options.output` leaves what was asked for, in click's context."""


def form() -> str:
    """What the command prints: `table`, `json`, or `jsonl`."""
    context = click.get_current_context(silent=True)
    return str(context.meta.get(FORM, "table")) if context else "table"


def is_for_people() -> bool:
    """Are tables and lines printed, and no JSON?"""
    return form() == "table"


def answer(content: object) -> None:
    """Print the answer of a command as JSON, if that is asked for."""
    if not is_for_people():
        click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


def line(content: object) -> None:
    """Print a part of an answer that comes bit by bit: JSON in one line, if that is asked for."""
    if not is_for_people():
        click.echo(msgspec.json.encode(content).decode())


def show(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print a table for people, or what to say if it has no rows."""
    if is_for_people():
        has_colours = colours.wanted(sys.stdout)
        for text in table(headings, rows, has_colours=has_colours) if rows else [empty]:
            click.echo(text)


def listed(found: Sequence[T], headings: Sequence[str], row: Callable[[T], Sequence[str]], empty: str) -> None:
    """Print a list: a table for people, what was found as JSON for programs."""
    answer(found)
    show(headings, [row(each) for each in found], empty)


def say(text: str, *, err: bool = False, state: str = "") -> None:
    """Print lines for people with something in them that others wrote; on stderr whatever is asked for.

    They have the colour of `state`, if there is one and stdout is a terminal.
    """
    if err or is_for_people():
        shown = plain(text, keep="\n")
        click.echo(colours.as_state(shown, state) if colours.wanted(sys.stdout) else shown, err=err)


def facts(found: Mapping[str, str]) -> None:
    """Print what is known of one thing for people, a line each; what is empty is left out."""
    has_colours = is_for_people() and colours.wanted(sys.stdout)
    for name, value in found.items():
        if value and is_for_people():
            shown = plain(value, keep="\n")
            is_state = has_colours and name.upper() in colours.COLUMNS
            click.echo(f"{plain(name):<9} {colours.coloured(shown) if is_state else shown}")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, has_colours: bool = False) -> list[str]:
    """The lines of a table."""
    lines = [headings, *([plain(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    padding = [[" " * (width - _width(cell)) for cell, width in zip(each, widths, strict=True)] for each in lines]
    if has_colours:
        lines = [_painted(headings, each, is_heading=number == 0) for number, each in enumerate(lines)]
    return [
        GAP.join(cell + space for cell, space in zip(each, spaces, strict=True)).rstrip()
        for each, spaces in zip(lines, padding, strict=True)
    ]


@contextmanager
def answering() -> Iterator[list[object]]:
    """A list that fills up and is the answer in the end, as far as it came if an error ends it."""
    done: list[object] = []
    try:
        yield done
    except BaseException:
        if done:
            answer(done)
        raise
    answer(done)


def deleted(name: str) -> dict[str, object]:
    """What a command answers that takes something away."""
    return {"name": name, "deleted": True}


def pairs(fields: dict[str, str]) -> str:
    """Labels in one cell."""
    return ",".join(f"{name}={value}" for name, value in fields.items())


def _painted(headings: Sequence[str], cells: Sequence[str], *, is_heading: bool) -> list[str]:
    """The cells of a line as a terminal shows them."""
    if is_heading:
        return [colours.bold(cell) if cell else cell for cell in cells]
    return [
        colours.coloured(cell) if heading in colours.COLUMNS else cell
        for heading, cell in zip(headings, cells, strict=True)
    ]


def _width(text: str) -> int:
    """The columns a text takes; Chinese characters take two."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def count(number: int, what: str) -> str:
    """A number of things, like "1 record" and "2 records"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
