"""Write the tables of the reference that follow from the code: settings, events, metrics, errors. `make docs` runs it.

Only rows are written. What stands between the tables belongs to people, and so does docs/reference/cli.md, whose
options the tests compare with the program's.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rota.api.metrics import METRICS
from rota.cli.settings import Option, declared
from rota.model.config import SECTIONS
from rota.model.event import KINDS
from rota.model.problems import PROBLEMS

FOLDER = Path(__file__).parents[1] / "docs/reference"
ROWS = re.compile(r"(?:^\| `.*\n)+", re.MULTILINE)


def row(*cells: str) -> str:
    """One row of a table; an empty cell takes no room."""
    return " ".join(f"| {cell}" if cell else "|" for cell in [*cells, ""]) + "\n"


def setting(option: Option) -> str:
    """The row of a setting."""
    default = f"`{option.shown}`" if option.shown and " " not in option.shown else option.shown
    return row(f"`{option.name}`", f"`{option.variable}`", default, option.doc)


def listed(names: Iterable[str]) -> str:
    """Names in one cell."""
    return ", ".join(f"`{name}`" for name in names)


def tables() -> dict[str, list[str]]:
    """The rows of every table, by page."""
    events = [
        row(f"`{name}`", kind.severity, kind.doc, "; ".join(f"`{field}`: {doc}" for field, doc in kind.fields.items()))
        for name, kind in KINDS.items()
    ]
    metrics = [row(f"`{each.name}`", each.type, listed(each.labels), each.doc) for each in METRICS]
    errors = [
        row(f"`{each.code}`", str(each.status), f"`{each.grpc}`", each.title, each.doc) for each in PROBLEMS.values()
    ]
    return {
        "errors.md": ["".join(errors)],
        "config.md": ["".join(map(setting, declared(section))) for section in SECTIONS],
        "events.md": ["".join(events)],
        "metrics.md": ["".join(metrics)],
    }


def rewritten(text: str, rows: Sequence[str]) -> str:
    """A page with these tables in the place of its own; ValueError if it has another number of them."""
    if len(found := ROWS.findall(text)) != len(rows):
        raise ValueError(
            f"it has {len(found)} tables, and there are {len(rows)}; write the heading of the new one first"
        )
    left = iter(rows)
    return ROWS.sub(lambda _: next(left), text)


def main() -> None:
    """Write every page anew."""
    for page, rows in tables().items():
        file = FOLDER / page
        file.write_text(rewritten(file.read_text(), rows))


if __name__ == "__main__":
    main()
