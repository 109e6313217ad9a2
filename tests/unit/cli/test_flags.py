"""Flags that are made from the options of a spec."""

from datetime import timedelta
from typing import Annotated

import click
import msgspec
import pytest
from click.testing import CliRunner

from rota.cli import flags
from rota.jobs.core.records import OnLost
from rota.model.spec.option import DERIVED, Said, options_of


class Kettle(msgspec.Struct, frozen=True, kw_only=True):
    """What is declared of a kettle."""

    after: Annotated[tuple[str, ...], Said(word="CUP")] = ()
    """Cups that come first, within `boil_for` of each other."""

    boil_for: timedelta = timedelta(minutes=3)
    """How long it boils."""

    cups: int | None = None
    """How many."""

    on_lost: OnLost = OnLost.RETRY
    """When it is gone: `retry` or `fail`."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What it is called."""

    serial: Annotated[str, DERIVED] = ""
    """Nobody says this."""


KETTLE = options_of(Kettle)


@click.command()
@flags.flags(Kettle, KETTLE)
def boil(**values: object) -> None:
    click.echo(msgspec.json.encode(flags.given(KETTLE, values)))


def test_the_flags_are_those_of_the_options_and_their_help_is_the_text_below_the_field() -> None:
    told = " ".join(CliRunner().invoke(boil, ["--help"]).output.split())
    assert "--after CUP Cups that come first, within --boil-for of each other. May be repeated." in told
    assert "--boil-for DURATION How long it boils. [default: 3m]" in told
    assert "--cups COUNT How many. --on-lost" in told
    assert "--on-lost [retry|fail] When it is gone: retry or fail. [default: retry]" in told
    assert "--label NAME=VALUE What it is called. May be repeated." in told
    assert "serial" not in told


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], {}),
        (["--cups", "2", "--boil-for", "1m"], {"cups": 2, "boil_for": "1m"}),
        (["--after", "a", "--after", "b", "--on-lost", "fail"], {"after": ["a", "b"], "on_lost": "fail"}),
        (["--label", "a=b", "--label", "c=d=e"], {"labels": {"a": "b", "c": "d=e"}}),
    ],
)
def test_what_is_given_comes_as_in_json(words: list[str], given: dict[str, object]) -> None:
    assert msgspec.json.decode(CliRunner().invoke(boil, words).output) == given


def test_a_pair_without_a_name_is_refused() -> None:
    done = CliRunner().invoke(boil, ["--label", "=b"])
    assert (done.exit_code, '--label "=b" is not a pair; write NAME=VALUE' in done.output) == (2, True)
