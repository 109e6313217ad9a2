"""Write what follows from the code: tables of settings, events, metrics and errors, and diagrams. `make docs` runs it.

Only rows and diagrams are written. What stands between them belongs to people. Of some pages one table alone is
written, which is found by its first heading; of docs/reference/cli.md the tests compare the other options with the
program's.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rota.cli import flags
from rota.cli.settings import SettingOption, declared
from rota.compose.metrics import METRICS
from rota.jobs.cli.jobs import ADDED
from rota.jobs.core import attempt_phases, run_phases
from rota.jobs.core.records import JobSpec
from rota.jobs.core.spec import PROGRAM
from rota.kit.text.docs import field_docs
from rota.model.config import SECTIONS
from rota.model.event import KINDS
from rota.model.problems import PROBLEMS
from rota.model.spec.option import Option
from rota.relay.core import held_phases
from rota.streams.core import group_phases

FOLDER = Path(__file__).parents[1] / "docs/reference"
EXPLANATION = FOLDER.parent / "explanation"
ROWS = re.compile(r"(?:^\| `.*\n)+", re.MULTILINE)
DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)


def row(*cells: str) -> str:
    """One row of a table; an empty cell takes no room."""
    return " ".join(f"| {cell}" if cell else "|" for cell in [*cells, ""]) + "\n"


def setting(option: SettingOption) -> str:
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


def diagrams() -> dict[str, list[str]]:
    """The diagrams of phases, by page."""
    pages = {
        "jobs.md": [run_phases.TABLE, attempt_phases.TABLE],
        "stream-groups.md": [group_phases.TABLE],
        "relay.md": [held_phases.TABLE],
    }
    return {page: [f"```mermaid\n{table.diagram()}\n```\n" for table in tables] for page, tables in pages.items()}


def single_tables() -> dict[str, dict[str, str]]:
    """The rows of the one table of a page that is written, by page and first heading."""
    docs = field_docs(JobSpec)
    options = [row(_flag(each), flags.default(each), flags.text(each, docs[each.field], ADDED)) for each in ADDED]
    fields = [row(f"`{each.name}`", flags.default(each), docs[each.field]) for each in PROGRAM]
    return {
        "cli.md": {"option of the job": "".join(options)},
        "api.md": {"field of the job": "".join(fields)},
    }


def _flag(option: Option) -> str:
    words = flags.word(option) or "\\|".join(flags.choices(option))
    return f"`{flags.flag(option)} {words}`"


def with_table(text: str, heading: str, rows: str) -> str:
    """A page with these rows in the table with that first heading; ValueError if there is none."""
    head = re.compile(rf"(^\| {re.escape(heading)} \|.*\n\|[-|]+\n)(?:^\|.*\n)*", re.MULTILINE)
    changed, count = head.subn(lambda found: found[1] + rows, text)
    if count != 1:
        raise ValueError(
            f'it has {count} tables that begin with "{heading}", and must have one; write its heading first'
        )
    return changed


def rewritten(text: str, rows: Sequence[str], where: re.Pattern[str] = ROWS) -> str:
    """A page with these tables in the place of its own; ValueError if it has another number of them."""
    if len(found := where.findall(text)) != len(rows):
        raise ValueError(
            f"it has {len(found)} tables, and there are {len(rows)}; write the heading of the new one first"
        )
    left = iter(rows)
    return where.sub(lambda _: next(left), text)


def main() -> None:
    """Write every page anew."""
    for page, rows in tables().items():
        file = FOLDER / page
        file.write_text(rewritten(file.read_text(), rows))
    for page, blocks in diagrams().items():
        file = EXPLANATION / page
        file.write_text(rewritten(file.read_text(), blocks, DIAGRAM))
    for page, single in single_tables().items():
        file = FOLDER / page
        for heading, rows_of_it in single.items():
            file.write_text(with_table(file.read_text(), heading, rows_of_it))


if __name__ == "__main__":
    main()
