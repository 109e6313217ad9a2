"""`make show-proof`: what the proof must show. Takes about an hour.

MINUTES=n makes the chaos shorter, SEEDS=n the simulation.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator

from rota.kit import collector
from rota.placement.sim.scale import Cost, measure
from rota.sim.fleet import PLANTED
from rota.sim.run import run_seed, run_seeds
from shows import chaos
from shows.report import Line, show
from tests.kit.chaos import grounds

SEEDS = int(os.environ.get("SEEDS", "2000"))
MINUTES = float(os.environ.get("MINUTES", "30"))
WITHIN = 15 * 60 * SEEDS / 2000
"""Seconds for so many seeds."""

ENOUGH = 200
"""Seeds within which a planted mistake must be found."""

NODES, TASKS = 1_000, 1_000_000


def seeds_are_clean() -> Iterator[Line]:
    """Ten minutes of a whole fleet, thousands of times."""
    began, counts, broken = time.monotonic(), Counter[str](), list[str]()
    for verdict in run_seeds(range(SEEDS), "fleet"):
        counts.update(verdict.counts)
        broken += [f"seed {verdict.seed}: {verdict.violations[0]}"] if verdict.violations else []
    took = time.monotonic() - began
    tried = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    unclean = [f"{len(broken)} are not", *broken[:3]] if broken else []
    yield Line(not broken, f"{SEEDS:,} seeds × 10 simulated minutes are clean", "; ".join([tried, *unclean]))
    yield Line(
        took < WITHIN, f"and take less than {WITHIN / 60:.0f} minutes", f"{took / 60:.1f} on {os.cpu_count()} cores"
    )


def mistakes_are_found() -> Iterator[Line]:
    """One of each class, planted."""
    for mistake in PLANTED:
        found = next(
            (verdict for seed in range(ENOUGH) if (verdict := run_seed(seed, "fleet", mistake)).violations), None
        )
        figure = f"seed {found.seed}: {found.violations[0]}" if found else "no"
        yield Line(found is not None, f"planted: {mistake}, found within {ENOUGH} seeds", figure)


def chaos_is_clean() -> Iterator[Line]:
    """Real processes and servers, and the ledger."""
    yield from chaos.everything_holds(MINUTES, seed=int(time.time()))


def a_million_tasks() -> Iterator[Line]:
    """The leader's own code in front of a large fleet."""
    collector.look_rarely(collector.BIG)  # as an agent does
    scale = measure(NODES, TASKS, deaths=(1, 100))
    for cost in scale.costs:
        yield Line(scale.missing == 0, f"{scale.tasks:,} tasks on {scale.nodes:,} nodes: {cost.what}", figure(cost))
    yield Line(scale.terms == 2, "no leader lost its lease to a plan", f"{scale.terms} terms for two leaders")
    yield Line(True, "what a node reads of its assignments", f"{scale.bytes_of_a_node:,} bytes")


def figure(cost: Cost) -> str:
    """A cost in words."""
    return (
        f"{cost.tasks:,} tasks placed; {cost.seconds:.1f} s of the fleet's time, {cost.leader:.1f} s of the "
        f"leader's processor ({cost.per_task:.0f} µs a task); {cost.writes:,} writes in {cost.commits:,} commits, "
        f"{cost.bytes / 1e6:.0f} MB, {cost.writes_a_second:,.0f} writes/s"
    )


if __name__ == "__main__":
    grounds.enter()
    logging.getLogger("rota").setLevel(logging.CRITICAL)  # thousands of nodes die in here, on purpose
    show([seeds_are_clean, mistakes_are_found, a_million_tasks, chaos_is_clean])
