"""A declared job as the store keeps it, and jobs that are declared outside of apps. Pure."""

from collections.abc import Mapping

from rota.model.job import Mode, OnLost, WantedJob
from rota.workloads.checks import Check, check_options
from rota.workloads.jobs.spec import COMMAND, CommandSpec, JobSpec

FIELDS = (
    "name",
    "argv",
    "env",
    "cwd",
    "cron",
    "every",
    "tz",
    "after",
    "misfire",
    "jitter",
    "timeout",
    "retries",
    "on_lost",
    "concurrency",
    "labels",
)
"""What may be said of a job that no app declares."""


def wanted(spec: JobSpec) -> WantedJob:
    """The job that a declaration asks for."""
    is_command = isinstance(spec, CommandSpec)
    return WantedJob(
        name=spec.name,
        cron=spec.cron,
        every=spec.every,
        tz=spec.tz,
        after=spec.after,
        misfire=spec.misfire,
        jitter=spec.jitter,
        timeout=spec.timeout,
        retries=spec.retries,
        on_lost=OnLost(spec.on_lost),
        concurrency=spec.concurrency,
        labels=spec.labels,
        mode=Mode.PROCESS if is_command or spec.process else Mode.WARM,
        argv=spec.argv if isinstance(spec, CommandSpec) else (),
        env=spec.env if isinstance(spec, CommandSpec) else {},
        cwd=spec.cwd if isinstance(spec, CommandSpec) else None,
    )


def read_job(fields: Mapping[str, object]) -> WantedJob:
    """The job that a file or a caller asks for: always a command, for functions are an app's own.

    A field that is None counts as left out; Invalid says what is wrong.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    name = given.get("name")
    check = Check(COMMAND, name)
    check_options(COMMAND, name, given, FIELDS)
    if name is None:
        check.fail("it has no name; give it one")
    if "argv" not in given:
        check.fail('it has no command; write argv, like ["pg_dump", "shop"]')
    return wanted(CommandSpec.parse(**given))
