"""Measure what Rota's own layers cost, and say how that compares with the goals: `python -m benchmarks --help`.

It judges but never fails: figures on a shared machine are no reason to stop a build.
"""

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import click

from benchmarks import document, picture, report, suite
from benchmarks.measure import Row

NOTE = """\
Ratios are ours / theirs, the median over the rounds, each round's sides taking turns; min–max is over the rounds (of
our own figure where there is no ratio). What stands beside ours is named in the second column; it is not always a
driver. A goal with × is for the ratio, any other for our own figure. Other work on the machine moves the figures a
good deal, p99 most of all.

gunicorn (HTTP, a connection per request), uvicorn (HTTP, keep-alive) and grpc.aio (one process, asked from Python, so
the rate is the pair's) answer in the very process that accepts: no proxy, no queue, no idle worker to find. They are
there to be known."""


@click.command()
@click.option(
    "--only", type=click.Choice(suite.PARTS), help="Measure this part only; scale is never measured unless asked for."
)
@click.option("--store", type=click.Choice(suite.STORES), help="Measure this store only.")
@click.option("--rounds", type=click.IntRange(min=1), default=suite.ROUNDS, show_default=True)
@click.option("--everything", is_flag=True, help="Measure all parts, scale too.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here too.")
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page here too, FILE.md, with a picture beside it, FILE.svg.",
)
def main(
    only: str | None, store: str | None, rounds: int, everything: bool, file: Path | None, page: Path | None
) -> None:
    """Measure the layers beside bare drivers, and services, streams and jobs beside others."""
    start, facts = monotonic(), report.facts()
    for name, fact in facts.items():
        click.echo(f"{name:>12}: {fact}")
    rows, broken = _measured(suite.chosen(only, everything=everything, store=store), store, rounds)
    lasted = " ".join((f"{rounds} rounds, {monotonic() - start:.0f} s.", *broken))
    click.echo(f"\n{report.table(rows)}\n\n{NOTE}\n{lasted}")
    if file is not None:
        file.write_text(json.dumps({"facts": facts, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    if page is not None:
        beside = page.with_suffix(".svg")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(document.page(rows, facts, f"{NOTE}\n{lasted}", beside.name))
        beside.write_text(picture.picture(rows))


def _measured(parts: Sequence[str], store: str | None, rounds: int) -> tuple[list[Row], list[str]]:
    """The rows of these parts, and a sentence for each part that broke; the others still have their say."""
    rows: list[Row] = []
    broken = []
    for part in parts:
        try:
            rows += suite.run(part, store=store, rounds=rounds, say=lambda text: click.echo(text, err=True))
        except Exception as error:
            traceback.print_exc()
            broken.append(f"The part {part} broke: {error!r}.")
    return rows, broken


if __name__ == "__main__":
    main()
