"""`rota simulate`: fleets in virtual time, from seed numbers."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from time import perf_counter
from typing import Any

import click

from rota.cli import options
from rota.cli.commands import tryout
from rota.cli.options import Shape
from rota.cli.terminal import tables
from rota.cli.terminal.progress import ProgressLine
from rota.jobs import sim as jobs_scenario
from rota.placement.sim import scenario as placement_scenario
from rota.relay.sim import scenario as relay_scenario
from rota.resources import sim as resources_scenario
from rota.services.sim import scenario as services_scenario
from rota.sim import election as election_scenario
from rota.sim import fleet as fleet_scenario
from rota.sim import peers as peers_scenario
from rota.sim.run import SeedVerdict, run_seed, run_seeds
from rota.streams.sim import scenario as streams_scenario


class _Scenarios(click.Group):
    """Scenarios by name; a file describes a fleet to simulate."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0].endswith(".toml"):
            args = ["try", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_Scenarios)
def command() -> None:
    """Run a fleet in virtual time, with faults, from seed numbers; or one of your own, drawn in a file.

    The same seed gives the same run each time, on any machine.

    Example: rota simulate fleet.toml --kill n1,n2
    """
    logging.getLogger("rota").setLevel(logging.CRITICAL)  # thousands of nodes die in here, on purpose


command.add_command(tryout.command)


def _scenario(broken: Collection[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that every scenario has."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(
            (
                click.option(
                    "--seeds", type=click.IntRange(min=1), default=100, show_default=True, help="How many seeds."
                ),
                click.option("--first", type=int, default=0, show_default=True, help="The first of them."),
                click.option("--seed", type=int, help="Run this seed and print what happens."),
                click.option(
                    "--jobs",
                    type=click.IntRange(min=1),
                    help="Seeds at a time, each in a process; default: one a core.",
                ),
                click.option(
                    "--break",
                    "broken",
                    type=click.Choice(list(broken)),
                    help="Disable a safeguard, to see that the simulation detects it.",
                ),
                options.output(Shape.OBJECT),
            )
        ):
            function = option(function)
        return function

    return decorate


def _add(name: str, broken: Collection[str], about: str) -> None:
    """Add the command of a scenario."""
    example = f"Example: rota simulate {name} --seeds 1000"
    text = "Exit code 1 if a rule was broken; the first such seed is printed with the command that replays it."

    @command.command(name, help=f"{about}\n\n{text}\n\n{example}")
    @_scenario(broken)
    def run(**asked: Any) -> None:
        _run(name, **asked)


_add(
    "election",
    election_scenario.BROKEN,
    "Contenders for leadership under crashes, pauses, cuts, losses and clock steps.",
)
_add(
    "fleet",
    fleet_scenario.BROKEN,
    "A whole fleet with all four kinds of work, ten minutes for each seed, with every kind of fault.",
)
_add("resources", resources_scenario.BROKEN, "A fleet that keeps resources covered, under the same faults.")
_add("services", services_scenario.BROKEN, "A service under load: crashes, hangs, vanishing clients and reloads.")
_add(
    "jobs",
    jobs_scenario.BROKEN,
    "Equal peers that run jobs: wrong clocks, crashes, pauses, lost starts, outages of the store.",
)
_add(
    "placement",
    placement_scenario.BROKEN,
    "Fleets of up to 1,000 nodes in zones: joins, deaths, drains, other slots, balancing.",
)
_add(
    "peers",
    peers_scenario.BROKEN,
    "Nodes that check each other, share chores and call hooks, under blips, cuts, flapping and clock steps.",
)
_add("relay", relay_scenario.BROKEN, "Messages from replicas to a sink, while hosts, relays, disks and brokers fail.")
_add(
    "streams",
    streams_scenario.BROKEN,
    "A stream whose nodes die at every step of checkpoint, agreement and publish, while groups and offsets change.",
)


def _run(scenario: str, seeds: int, first: int, seed: int | None, jobs: int | None, broken: str | None) -> None:
    started = perf_counter()
    if seed is None:
        verdicts: Iterable[SeedVerdict] = run_seeds(range(first, first + seeds), scenario, broken, processes=jobs)
    else:
        verdicts = [run_seed(seed, scenario, broken)]
        tables.say("\n".join(verdicts[0].story))
    with ProgressLine(f"simulating {scenario}", 1 if seed is not None else seeds) as progress:
        failed = _sum_up(scenario, verdicts, broken, started, progress, has_story=seed is not None)
    click.get_current_context().exit(1 if failed else 0)


def _sum_up(
    scenario: str,
    verdicts: Iterable[SeedVerdict],
    broken: str | None,
    started: float,
    progress: ProgressLine,
    *,
    has_story: bool,
) -> int:
    """Print the results of the seeds; returns how many of them failed."""
    seeds = 0
    story: Sequence[str] = ()
    counts: Counter[str] = Counter()
    failed: list[SeedVerdict] = []
    for verdict in verdicts:
        seeds += 1
        counts.update(verdict.counts)
        story = verdict.story if has_story else ()
        if verdict.violations:
            failed.append(verdict)
        progress.at(seeds, note=f"{len(failed)} failed" if failed else "")
    progress.clear()
    flaws = [{"seed": each.seed, "violations": each.violations} for each in failed]
    tables.answer({"scenario": scenario, "seeds": seeds, "failed": flaws, "counts": counts, "story": story})
    if failed:
        worst, option = failed[0], f" --break {broken}" if broken else ""
        tables.say(f"seed {worst.seed}: {worst.violations[0]}")
        tables.say(f"replay: rota simulate {scenario} --seed {worst.seed}{option}")
    counted = "1 seed" if seeds == 1 else f"{seeds} seeds"
    elapsed = perf_counter() - started
    tried = ", ".join(f"{count} {what}" for what, count in counts.items())
    tables.say(f"{counted}, {len(failed)} failed; {tried}; {elapsed:.1f} s")
    return len(failed)
