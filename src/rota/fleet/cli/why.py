"""`rota why`: the reasons behind where things are."""

from collections.abc import Awaitable, Callable, Iterator

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import ask
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.doors.why_answers import Why
from rota.jobs.doors import why as job_why
from rota.resources.doors import why as resource_why
from rota.store import Store
from rota.streams.doors import operations as stream_operations
from rota.views.why import why as why_thing

NAMED: dict[str, Callable[[Store, str], Awaitable[Why]]] = {
    "run": job_why.why_run,
    "job": job_why.why_job,
    "stream": stream_operations.why_stream,
    "source": resource_why.why_source,
}
"""Things whose name follows a word such as `run`."""

HELD = 20
"""Tasks of a node that people are shown; programs get all."""


@click.command()
@click.argument("thing", metavar="THING", shell_complete=names.things)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=names.named)
@options.fleet
@options.output(Shape.OBJECT)
def command(thing: str, name: str | None, fleet: FleetTarget) -> None:
    """Explain why a resource is on its nodes, why a node has its tasks, or what delays a run, a job or a stream.

    THING is a resource, as kind/id, or a node; or one of `run`, `job`, `stream` and `source`, and NAME the run, the
    job, the stream, or the kind that the source lists.

    Example: rota why run report/20261116T030000.000Z
    """
    if name is None:
        answer = ask(fleet, why_thing, thing)
    elif thing in NAMED:
        answer = ask(fleet, NAMED[thing], name)
    else:
        raise click.UsageError(f"a name comes after {', '.join(NAMED)} only; for a resource write {thing}/{name}")
    tables.answer(answer)
    for line in _lines(answer):
        tables.say(line)


def _lines(answer: Why) -> Iterator[str]:
    yield f"{answer.thing}: {answer.says}"
    for node, why in answer.chosen.items():
        yield f"  on {node}: {why}"
    for thing, why in answer.refusals.items():
        yield f"  not {'on ' if '/' in answer.thing else ''}{thing}: {why}"
    for node, what in answer.remedies.items():
        yield f"  would go on {node}, if you {what}"
    for hint in answer.reasons:
        if hint not in answer.says:  # a node's are in the sentence already
            yield f"  {hint}"
    for task in answer.holds[:HELD]:
        yield f"  has {task}"
    if len(answer.holds) > HELD:
        yield f"  and {len(answer.holds) - HELD} more"
