"""The report as a page: what was measured on, what fell short, and a table for each part. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from benchmarks import report
from benchmarks.measure import Row

HEADINGS = ("what", "beside", "theirs", "ours", "", "ratio", "min–max", "goal", "verdict")
RIGHT = {2, 3, 5, 6}
"""The columns of figures."""

NAMES = {
    "store": "Stores: commits",
    "watch": "Stores: watches",
    "scale": "Stores: a million keys",
    "placement": "Placement",
    "start": "Start of a worker",
    "services": "Services",
    "sink": "RabbitMQ sink",
    "relay": "Relay",
    "emit": "From emit to RabbitMQ",
    "source": "Sources",
    "stream": "Streams",
    "jobs": "Jobs",
    "safety": "Tokens and TLS",
}


def page(rows: Sequence[Row], facts: Mapping[str, str], note: str, picture: str) -> str:
    """The whole report; `picture` is where the bars are."""
    parts = [
        "# Rota beside others: one run of `make bench`",
        note,
        _facts(facts),
        f"![Ratios and their goals]({picture})",
        _summary(rows),
        *(_part(name, list(each)) for name, each in groupby(rows, key=lambda row: row.part)),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(facts: Mapping[str, str]) -> str:
    return "\n".join(("| | |", "|---|---|", *(f"| {name} | {_safe(fact)} |" for name, fact in facts.items())))


def _summary(rows: Sequence[Row]) -> str:
    """How many goals are met, and every row that is not."""
    judged = Counter(row.verdict for row in rows if row.verdict)
    told = (
        f"## What fell short\n\n{judged.total()} figures have a goal: {judged['goal']} meet it, {judged['ok']} do not "
        f"and are not short either, {judged['short']} are short."
    )
    short = [row for row in rows if row.verdict == "short"]
    return f"{told}\n\n{_table(short)}" if short else told


def _part(name: str, rows: Sequence[Row]) -> str:
    return f"## {NAMES.get(name, name)}\n\n{_table(rows)}"


def _table(rows: Sequence[Row]) -> str:
    rule = "|".join("---:" if column in RIGHT else "---" for column in range(len(HEADINGS)))
    cells = (" | ".join(map(_safe, report.cells(row))) for row in rows)
    return "\n".join((f"| {' | '.join(HEADINGS)} |", f"|{rule}|", *(f"| {line} |" for line in cells)))


def _safe(text: str) -> str:
    return text.replace("|", "\\|")
