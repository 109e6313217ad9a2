"""Measure what Rota's own layers cost, and say how that compares with the goals: `python -m benchmarks --help`.

It judges but never fails: figures on a shared machine are no reason to stop a build.
"""

import json
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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
    facts = report.facts()
    for name, fact in facts.items():
        click.echo(f"{name:>12}: {fact}")
    parts = suite.chosen(only, everything=everything, store=store)
    run = Run(facts, rounds, list(parts))
    for part in parts:
        run.measure(part, store)
        if file is not None:
            file.write_text(run.json())
        if page is not None:
            run.write(page)
    click.echo(f"\n{report.table(run.rows)}\n\n{run.note()}")


@dataclass
class Run:
    """One run, as far as it has come: its page is written after each part, so that one that is ended early has one."""

    facts: Mapping[str, str]
    rounds: int
    left: list[str]
    """Parts that are not measured yet."""

    rows: list[Row] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    began: float = field(default_factory=monotonic)

    def measure(self, part: str, store: str | None) -> None:
        """Measure one more part; if a piece of it breaks, the others still have their say."""
        for piece in suite.pieces(part, store=store, rounds=self.rounds, say=_say):
            try:
                self.rows += suite.run(piece, part, _say)
            except Exception as error:
                traceback.print_exc()
                self.broken.append(f"{piece.name} broke: {error!r}.")
        self.left.remove(part)

    def note(self) -> str:
        """What the figures are, and what is not among them."""
        missing = [f"It was ended before {', '.join(self.left)} could be measured."] if self.left else []
        lasted = f"{self.rounds} rounds, {monotonic() - self.began:.0f} s."
        return f"{NOTE}\n{' '.join((lasted, *self.broken, *missing))}"

    def json(self) -> str:
        """The figures, for programs."""
        return json.dumps({"facts": self.facts, "rows": [asdict(row) for row in self.rows]}, indent=2) + "\n"

    def write(self, page: Path) -> None:
        """Write the page, and the picture beside it."""
        beside = page.with_suffix(".svg")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(document.page(self.rows, self.facts, self.note(), beside.name))
        beside.write_text(picture.picture(self.rows))


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
