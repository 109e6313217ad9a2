"""A declared job as the store keeps it. Pure."""

from rota.model.job import Mode, OnLost, WantedJob
from rota.workloads.jobs.spec import CommandSpec, JobSpec


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
