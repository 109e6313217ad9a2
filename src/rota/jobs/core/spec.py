"""A job as it is declared, read and checked: by a decorator or `command` of an app, in a file, or by a caller. Pure.

What comes out is a `JobSpec`, whose fields are the options; here is what their types do not say.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rota.jobs.core import cron as crons
from rota.jobs.core.records import JobSpec, Mode
from rota.model.errors import Invalid
from rota.model.spec.checks import Check, did_you_mean
from rota.model.spec.option import Option, options_of
from rota.model.spec.reading import Own, read

KIND = "job"
COMMAND = "command"
_MISFIRE = re.compile(r"skip|once|all|all\(\d+\)")

FUNCTION = tuple(option for option in options_of(JobSpec) if option.name not in ("argv", "env", "cwd"))
"""Options of a job whose work is a function."""

PROGRAM = tuple(option for option in options_of(JobSpec) if option.name != "process")
"""Options of a job whose work is a program, which has a process of its own in any case."""


def read_function(options: Mapping[str, object]) -> JobSpec:
    """The job that an app declares by a function."""
    return _read(Check(KIND, options.get("name")), options, FUNCTION)


def read_program(options: Mapping[str, object], kind: str = COMMAND) -> JobSpec:
    """The job that an app declares by a program; messages call it a `kind`."""
    check = Check(kind, options.get("name"))
    if options.get("argv") is None:  # without argv it would be a function
        _argv(check, None)
    return _read(check, options, PROGRAM, mode=Mode.PROCESS)


def read_job(fields: Mapping[str, object]) -> JobSpec:
    """The job that a file or a caller asks for; its work is a program, for functions are an app's own.

    Fields come as they are in TOML or JSON, and one that is None counts as left out.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if "name" not in given:
        raise Invalid("a job needs a name; name is missing")
    check = Check(KIND, given["name"])
    known = [option.name for option in PROGRAM]
    for name in given:
        if name not in known:
            guess = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            check.fail(f'there is no field "{name}"{guess}', code="unknown_field")
    if "argv" not in given:
        check.fail('outside of apps a job runs a program, so give argv, like ["pg_dump", "shop"]')
    return read_program(given, KIND)


def _read(check: Check, options: Mapping[str, object], among: Sequence[Option], **derived: object) -> JobSpec:
    _check_timing(check, {name for name, value in options.items() if value is not None})
    spec = read(JobSpec, check, options, own=_OWN, among=among, **derived)
    if spec.every is not None and spec.jitter >= spec.every:
        check.fail(f"jitter is {spec.jitter}, and it is due every {spec.every}; make jitter shorter")
    if spec.name in spec.after:
        check.fail("it comes after itself; name another job")
    return spec


def _check_timing(check: Check, given: set[str]) -> None:
    triggers = [f"{option}=" for option in ("cron", "every", "after") if option in given]
    if len(triggers) > 1:
        check.fail(f"both {triggers[0]} and {triggers[1]} given; choose one")
    if "tz" in given and "cron" not in given:
        check.fail("tz= without cron=; a time zone only matters to a cron expression: leave it out")
    for option in ("misfire", "jitter"):
        if option in given and not given & {"cron", "every"}:
            check.fail(f"{option}= without cron= or every=; it has no due times: leave it out")


def _cron(check: Check, text: object) -> str:
    if not isinstance(text, str):
        check.fail(f'cron is {text!r}; write an expression like "0 3 * * *"')
    try:
        return crons.normal(text)
    except ValueError as error:
        check.fail(f'cron "{text}" {error}')


def _zone(check: Check, name: object) -> str:
    return check.zone("tz", name)


def _after(check: Check, after: object) -> tuple[str, ...]:
    names = check.names("after", after)
    if not names:
        check.fail("after is empty; name a job, or leave it out")
    return names


def _misfire(check: Check, value: object) -> str:
    if not isinstance(value, str) or not _MISFIRE.fullmatch(value):
        check.fail(f'misfire is {value!r}; choose skip, once, all, or all with a limit, like "all(5)"')
    if value == "all(0)":
        check.fail('misfire is "all(0)"; write skip')
    return value


def _process(check: Check, value: Any) -> Mode:
    return Mode.PROCESS if check.flag("process", value) else Mode.WARM


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


_OWN: Own = {
    "cron": _cron,
    "tz": _zone,
    "after": _after,
    "misfire": _misfire,
    "process": _process,
    "argv": _argv,
}
