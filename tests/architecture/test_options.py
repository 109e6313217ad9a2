"""An option is declared once, as a field of its spec: every place where it can be said, or is shown, has it."""

import inspect
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from rota import App
from rota.cli import flags, settings
from rota.doors.http import openapi
from rota.doors.http import routes as resources
from rota.jobs.cli.jobs import ADDED, command
from rota.jobs.core.records import JobRecord, JobSpec, Origin
from rota.jobs.core.spec import FUNCTION, PROGRAM, read_function, read_job
from rota.jobs.doors import bodies
from rota.jobs.doors.answers import spec_of
from rota.kit.text.docs import field_docs
from rota.model import codec
from rota.model.spec.option import Option, options_of
from rota.resources.core.spec import ResourceSpec, SourceSpec, read_kind, read_source
from rota.sdk.declared import ResourceKind
from rota.sdk.service import Service
from rota.services.core.spec import OPTIONS, HandlerSpec, ServiceSpec, read_handler, read_service
from rota.streams.core.spec import StreamSpec
from scripts.reference import FOLDER
from tests.kit.process import ROOT

BESIDE_ARGV = pytest.mark.parametrize("option", [pytest.param(option, id=option.name) for option in ADDED])
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SAMPLES = {"cron": "@daily", "tz": "Asia/Shanghai", "misfire": "skip", "jitter": "1s"}
"""Values of options that take no other text or duration."""

NEEDED = {"name": "x", "port": 1, "cmd": 1, "argv": ["true"], "source": "log:///in", "sink": "memory://"}
"""Values of options that must be given."""

NEEDS = {"tz": {"cron": "0 3 * * *"}, "misfire": {"every": "1h"}, "jitter": {"every": "1h"}}
"""What makes sense only together."""


def sample(option: Option) -> Any:
    """A value that is not the default, as JSON and TOML have it."""
    if choices := flags.choices(option):
        return choices[-1]
    of_types = {str: "x", int: 7, bool: True, timedelta: "2h", dict[str, str]: {"a": "b"}, tuple[str, ...]: ["x"]}
    return SAMPLES.get(option.name, of_types[option.type])


def job_with(option: Option) -> dict[str, Any]:
    """A job outside of apps, with that option."""
    return {"name": "backup", "argv": ["true"], **NEEDS.get(option.name, {}), option.name: sample(option)}


def names(options: Sequence[Option]) -> set[str]:
    return {option.name for option in options}


def parameters(method: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What a decorator's options are called."""
    found = inspect.signature(method).parameters
    return {name: each for name, each in found.items() if name not in ("self", "function")}


# Every kind


def read_stream(options: dict[str, Any]) -> StreamSpec:
    return StreamSpec.parse(**options, is_async=True)


def read_on(options: dict[str, Any]) -> HandlerSpec:
    said = {name: value for name, value in options.items() if name != "cmd"}
    return read_handler(read_service({"name": "x", "port": 0}), options["cmd"], said, is_async=True)


@pytest.mark.parametrize(
    ("method", "options", "read"),
    [
        pytest.param(App.resource, names(options_of(ResourceSpec)), partial(read_kind, is_async=True), id="resource"),
        pytest.param(
            ResourceKind.source, names(options_of(SourceSpec)), partial(read_source, "x", is_async=True), id="source"
        ),
        pytest.param(App.service, set(OPTIONS), read_service, id="service"),
        pytest.param(Service.on, {"cmd", *names(options_of(HandlerSpec))}, read_on, id="handler"),
        pytest.param(App.job, names(FUNCTION), read_function, id="job"),
        pytest.param(App.command, names(PROGRAM), read_job, id="command"),
        pytest.param(App.stream, names(options_of(StreamSpec)), read_stream, id="stream"),
    ],
)
def test_a_decorator_has_the_options_of_its_spec_with_the_same_defaults(
    method: Callable[..., Any], options: set[str], read: Callable[[dict[str, Any]], Any]
) -> None:
    known = parameters(method)
    assert known.keys() == options
    defaults = {name: each.default for name, each in known.items() if each.default is not each.empty}
    least = {name: NEEDED[name] for name, each in known.items() if name == "name" or each.default is each.empty}
    assert read({**defaults, **least}) == read(least)


@pytest.mark.parametrize("spec", [JobSpec, ResourceSpec, SourceSpec, ServiceSpec, HandlerSpec, StreamSpec])
def test_every_field_of_a_spec_has_a_text(spec: type[msgspec.Struct]) -> None:
    assert not {option.field for option in options_of(spec)} - field_docs(spec).keys()


# Jobs outside of apps


@BESIDE_ARGV
def test_an_option_of_a_job_is_stored_and_shown_as_it_was_asked_for(option: Option) -> None:
    job = read_job(job_with(option))
    record = JobRecord(spec=job, origin=Origin.API, since=NOON, at=NOON)
    assert codec.decode(JobRecord, codec.encode(record)) == record
    assert getattr(job, option.field) != option.default
    assert option.name in spec_of(job)
    assert read_job({"name": job.name, **spec_of(job)}) == job


@BESIDE_ARGV
def test_a_file_takes_it(option: Option, tmp_path: Path) -> None:
    lines = [f"{name} = {toml(value)}" for name, value in job_with(option).items()]
    (tmp_path / "rota.toml").write_text("\n".join(["[[jobs]]", *lines]))
    assert settings.jobs(environ={}, folder=tmp_path) == (read_job(job_with(option)),)


@BESIDE_ARGV
def test_rota_jobs_add_has_a_flag_for_it(option: Option) -> None:
    fields = {name: value for name, value in job_with(option).items() if name not in ("name", "argv")}
    words = [word for each in ADDED if each.name in fields for word in written(each, fields[each.name])]
    add = command.get_command(click.Context(command), "add")
    assert add is not None
    assert flags.given(ADDED, add.make_context("add", ["backup", *words, "--", "true"]).params) == fields


def test_bodies_over_http_have_the_options_of_a_program() -> None:
    assert set(bodies.JobBody.__struct_fields__) == names(PROGRAM)
    schema = openapi.describe(resources.table())["components"]["schemas"]["JobBody"]
    assert schema["properties"].keys() == names(PROGRAM)
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("page", "options"),
    [
        pytest.param(FOLDER / "api.md", PROGRAM, id="api.md"),
        pytest.param(FOLDER / "cli.md", ADDED, id="cli.md"),
        pytest.param(ROOT / "docs/howto/write-an-app.md", FUNCTION, id="write-an-app.md"),
    ],
)
def test_the_pages_have_every_option(page: Path, options: Sequence[Option]) -> None:
    text = page.read_text()
    spelled = {flags.flag(each) if page.name == "cli.md" else each.name for each in options} - {"name"}
    assert not [each for each in spelled if not re.search(rf"^\|[^|]*`{each}[ `]", text, re.MULTILINE)]


def toml(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(each)}" for name, each in value.items()) + " }"
    return msgspec.json.encode(value).decode()


def written(option: Option, value: Any) -> list[str]:
    """What says so on a command line."""
    pairs = [f"{name}={each}" for name, each in value.items()] if isinstance(value, dict) else value
    values = pairs if isinstance(pairs, list) else [pairs]
    return [word for each in values for word in (flags.flag(option), str(each))]
