"""`rota simulate FILE`: simulate a fleet that is described in a file."""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.terminal import charts, tables
from rota.sim.run import begin_in_pool
from rota.sim.sketch import Sketch, read
from rota.sim.tryout import TryoutOutcome, tryout

SHOWN = 20
"""How many waiting resources the text shows; JSON output has all."""


def _names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


@click.command("try")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--kill", default="", callback=_names, metavar="NODES", help="Kill these nodes once the fleet is up, as in n1,n2."
)
@click.option(
    "--add", type=click.IntRange(0, 100), default=0, help="Add this many nodes, like the first ones of the file."
)
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many random seeds.")
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--jobs", type=click.IntRange(min=1), help="Seeds at a time, each in a process; default: one a core.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the coverage into this file.")
@options.output(Shape.LIST)
def command(
    file: Path,
    kill: tuple[str, ...],
    add: int,
    seeds: int,
    first: int,
    jobs: int | None,
    svg: Path | None,
) -> None:
    """Simulate a fleet described in a file, with the leader's own code, in virtual time.

    Shows the share of wanted tasks that run over time, moves, full nodes, and waiting tasks with the reason. The exit
    code is 1 if a task still waits at the end. `rota simulate fleet.toml` is short for this.

    Example: rota simulate fleet.toml --kill n1,n2 --add 3 --seeds 100
    """
    sketch = read(file.read_text(), str(file))
    outcomes = _outcomes(sketch, range(first, first + seeds), kill, add, jobs)
    worst = max(outcomes, key=lambda each: (len(each.pending), each.uncovered_s))
    points = [(sample.at, sample.coverage) for sample in worst.samples]
    if svg is not None:
        svg.write_text(charts.svg(points, f"Tasks that run, seed {worst.seed} of {file.name}"))
    tables.answer(outcomes)
    _show(outcomes, worst, points)
    click.get_current_context().exit(1 if worst.pending else 0)


def _outcomes(sketch: Sketch, seeds: range, kill: tuple[str, ...], add: int, jobs: int | None) -> list[TryoutOutcome]:
    run = partial(tryout, sketch, kill=kill, add=add)
    if len(seeds) == 1:
        return [run(seeds[0])]
    with ProcessPoolExecutor(
        jobs or os.cpu_count(), mp_context=get_context("spawn"), initializer=begin_in_pool
    ) as pool:
        return list(pool.map(run, seeds))


def _show(outcomes: list[TryoutOutcome], worst: TryoutOutcome, points: charts.Points) -> None:
    for line in charts.blocks(points):
        tables.say(line)
    tables.say("")
    headings = "NODE", "SLOTS", "IN USE", "FULL"
    rows = [(node, str(slots), str(used), _bar(used, slots)) for node, (used, slots) in worst.used.items()]
    tables.show(headings, rows, "no node is left")
    for name, why in list(worst.pending.items())[:SHOWN]:
        tables.say(f"pending {name}: {why}")
    if len(worst.pending) > SHOWN:
        tables.say(f"and {len(worst.pending) - SHOWN} more wait")
    tables.say("")
    tables.show(("FIGURE", "MEDIAN", "WORST"), _figures(outcomes), "")
    if len(outcomes) > 1:
        tables.say(f"{len(outcomes)} seeds; chart, nodes and what waits are those of seed {worst.seed}, the worst")


def _bar(used: int, slots: int) -> str:
    return f"{used / slots:.0%}" if slots else "-"


def _figures(outcomes: list[TryoutOutcome]) -> list[tuple[str, str, str]]:
    figures = {
        "tasks that run in the end": ([each.samples[-1].coverage * 100 for each in outcomes], min, "{:.1f} %"),
        "missing task-seconds": ([each.uncovered_s for each in outcomes], max, "{:.0f}"),
        "seconds until all runs again": (
            [each.recovered_s for each in outcomes if each.recovered_s is not None],
            max,
            "{:.0f}",
        ),
        "moves": ([float(each.moves) for each in outcomes], max, "{:.0f}"),
        "node-seconds without a free slot": ([_full(each) for each in outcomes], max, "{:.0f}"),
        "runs of jobs": ([float(sum(each.runs.values())) for each in outcomes], min, "{:.0f}"),
        "longest wait of a run, in s": ([each.longest_wait_s for each in outcomes], max, "{:.1f}"),
    }
    return [
        (name, form.format(median(values)), form.format(worst(values)))
        for name, (values, worst, form) in figures.items()
        if values
    ]


def _full(outcome: TryoutOutcome) -> float:
    return sum(before.full * (after.at - before.at) for before, after in pairwise(outcome.samples))
