"""Rows on paper: as JSON, an object per line, or as comma-separated values."""

import csv
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from rota.model.errors import Invalid


class JsonPaper:
    """An object per line."""

    def __init__(self, columns: Sequence[str] | None) -> None:
        """`columns`: only these fields, in this order."""
        self._columns = columns

    def print(self, rows: Sequence[dict[str, Any]]) -> None:
        """Some rows more."""
        for row in rows:
            chosen = row if self._columns is None else {name: row.get(name) for name in self._columns}
            click.echo(msgspec.json.encode(chosen))


class CsvPaper:
    """The names of the fields, and then a line for each row."""

    def __init__(self, columns: Sequence[str] | None) -> None:
        """`columns`: only these fields, in this order; None: those of the first rows."""
        self._columns, self._is_chosen, self._has_begun = columns, columns is not None, False

    def print(self, rows: Sequence[dict[str, Any]]) -> None:
        """Some rows more; Invalid if they have fields that the first ones had not."""
        if not rows:
            return
        columns = self._columns or list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.writer(sys.stdout, lineterminator="\n")
        if not self._has_begun:
            writer.writerow(columns)
            self._columns, self._has_begun = columns, True
        for row in rows:
            if not self._is_chosen and (strange := next((name for name in row if name not in columns), None)):
                raise Invalid(f'a row has a field "{strange}" that those before it had not; say --columns, or use json')
            writer.writerow([row.get(name) for name in columns])
