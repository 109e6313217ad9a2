"""What a user declares of a job: a function or a program, and when it is due. Pure.

A job has a cron expression, a period, or jobs it comes after; with none of these it is started by hand. A command is a
job whose work is a program instead of a function.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

import msgspec

from rota.decide import cron as crons
from rota.workloads.checks import Check

KIND = "job"
COMMAND = "command"
_MISFIRE = re.compile(r"skip|once|all|all\(\d+\)")


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Some work, and when it is due."""

    name: str
    cron: str | None
    every: timedelta | None
    tz: str
    """Time zone of the cron expression."""

    timeout: timedelta | None
    """An attempt that takes longer is killed."""

    retries: int
    """Further attempts of a run that failed."""

    on_lost: str
    """When its node is lost: `retry` once more for nothing, or `fail`, because doing it twice is worse."""

    misfire: str
    """Due times nobody was there for: `skip` them, run `once` for all, `all`, or `all(5)` at most."""

    concurrency: int | None
    """Runs of it at a time in the whole fleet; None: no limit."""

    after: tuple[str, ...]
    """It is due when all of these have succeeded."""

    labels: dict[str, str]
    """What a node must be labelled with to run it."""

    jitter: timedelta
    """It starts up to so much later than due, so that not everything starts at once."""

    is_async: bool
    process: bool = False
    """Does each attempt have a process of its own? (Programs have one in any case.)"""

    @property
    def is_manual(self) -> bool:
        """Does it run only when somebody starts it?"""
        return self.cron is None and self.every is None and not self.after

    @classmethod
    def parse(cls, *, name: object, is_async: bool, **options: object) -> Self:
        """The declaration, checked."""
        return cls(**_job(Check(KIND, name), name=name, **options), is_async=is_async)


class CommandSpec(JobSpec, frozen=True, kw_only=True):
    """A program, and when it is due."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """Variables it gets beside the node's own."""

    cwd: str | None
    """Folder it runs in; None: the node's."""

    @classmethod
    def parse(  # type: ignore[override]  # a program is neither async nor not
        cls, *, name: object, argv: object, env: object = None, cwd: object = None, **options: object
    ) -> Self:
        """The declaration, checked."""
        check = Check(COMMAND, name)
        return cls(
            **_job(check, name=name, **options),
            is_async=False,
            argv=_argv(check, argv),
            env=check.labels("env", env),
            cwd=None if cwd is None else check.text("cwd", cwd),
        )


def _job(
    check: Check,
    *,
    name: object,
    cron: object = None,
    every: object = None,
    tz: object = None,
    timeout: object = None,
    retries: object = 0,
    on_lost: object = "retry",
    misfire: object = None,
    concurrency: object = 1,
    after: object = None,
    labels: object = None,
    jitter: object = None,
    process: object = False,
) -> dict[str, Any]:
    """The fields every job has."""
    checked = check.name(name)
    _one_trigger(check, {"cron": cron, "every": every, "after": after})
    if cron is None and tz is not None:
        check.fail("tz= without cron=; a time zone only matters to a cron expression: leave it out")
    if cron is None and every is None:
        for option, value in {"misfire": misfire, "jitter": jitter}.items():
            if value is not None:
                check.fail(f"{option}= without cron= or every=; it has no due times: leave it out")
    period = None if every is None else check.duration("every", every, least=timedelta(seconds=1))
    spread = timedelta() if jitter is None else check.duration("jitter", jitter, least=timedelta())
    if period is not None and spread >= period:
        check.fail(f"jitter is {spread}, and it is due every {period}; make jitter shorter")
    return {
        "name": checked,
        "cron": None if cron is None else _cron(check, cron),
        "every": period,
        "tz": "UTC" if tz is None else check.zone("tz", tz),
        "timeout": check.duration_or_none("timeout", timeout),
        "retries": check.count("retries", retries, least=0),
        "on_lost": check.choice("on_lost", on_lost, ("retry", "fail")),
        "misfire": "once" if misfire is None else _misfire(check, misfire),
        "concurrency": None if concurrency is None else check.count("concurrency", concurrency),
        "after": _after(check, checked, after),
        "labels": check.labels("labels", labels),
        "jitter": spread,
        "process": check.flag("process", process),
    }


def _one_trigger(check: Check, triggers: Mapping[str, object]) -> None:
    given = [f"{option}=" for option, value in triggers.items() if value is not None]
    if len(given) > 1:
        check.fail(f"both {given[0]} and {given[1]} given; choose one")


def _cron(check: Check, text: object) -> str:
    if not isinstance(text, str):
        check.fail(f'cron is {text!r}; write an expression like "0 3 * * *"')
    try:
        return crons.normal(text)
    except ValueError as error:
        check.fail(f'cron "{text}" {error}')


def _misfire(check: Check, value: object) -> str:
    if not isinstance(value, str) or not _MISFIRE.fullmatch(value):
        check.fail(f'misfire is {value!r}; choose skip, once, all, or all with a limit, like "all(5)"')
    if value == "all(0)":
        check.fail('misfire is "all(0)"; write skip')
    return value


def _after(check: Check, name: str, after: object) -> tuple[str, ...]:
    names = check.names("after", after)
    if after is not None and not names:
        check.fail("after is empty; name a job, or leave it out")
    if name in names:
        check.fail("it comes after itself; name another job")
    return names


def _argv(check: Check, argv: object) -> tuple[str, ...]:
    if isinstance(argv, str):
        check.fail(f"argv is a str; write a list of words: {argv.split()}")
    if not isinstance(argv, list | tuple) or not argv:
        check.fail(f'argv is {argv!r}; write the program and its arguments, like ["pg_dump", "shop"]')
    for word in argv:
        if not isinstance(word, str):
            check.fail(f"argv has {word!r}; every word must be a str")
    if not argv[0]:
        check.fail("the first word of argv is empty; it must be the program")
    return tuple(argv)
