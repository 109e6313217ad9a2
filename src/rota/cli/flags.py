"""Flags for the options of a spec: each is made from its field, and its help is the text below it."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

import click

from rota.kit.text.docs import field_docs
from rota.kit.time import durations
from rota.model.spec.option import Option

F = TypeVar("F", bound=Callable[..., Any])
Completion = Callable[..., Any]

_WORDS: Mapping[Any, str] = {timedelta: "DURATION", int: "COUNT", dict[str, str]: "NAME=VALUE"}


def flags(
    spec: type, options: Sequence[Option], completions: Mapping[str, Completion] | None = None
) -> Callable[[F], F]:
    """Gives a command a flag for each of these options of a spec."""
    docs, completed = field_docs(spec), completions or {}

    def give(command: F) -> F:
        for option in reversed(options):
            described = text(option, docs.get(option.field, ""), options)
            command = click.option(
                flag(option),
                option.name,
                type=_type(option),
                metavar=word(option),
                multiple=is_repeated(option),
                help=_help(option, described),
                shell_complete=completed.get(option.name),
            )(command)
        return command

    return give


def given(options: Sequence[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values given with the flags of these options, as JSON fields."""
    found: dict[str, Any] = {}
    for option in options:
        value = values[option.name]
        if value not in (None, ()):
            found[option.name] = _pairs(flag(option), value) if option.type == dict[str, str] else value
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def flag(option: Option) -> str:
    """How an option is written on a command line; one that is repeated is in the singular."""
    name = option.name.removesuffix("s") if is_repeated(option) else option.name
    return f"--{name.replace('_', '-')}"


def word(option: Option) -> str | None:
    """The placeholder of its value; None: its choices are shown."""
    return None if choices(option) else option.said.word or _WORDS[option.type]


def is_repeated(option: Option) -> bool:
    """Is it given once for each of its values?"""
    return option.type in (dict[str, str], tuple[str, ...])


def text(option: Option, doc: str, options: Sequence[Option]) -> str:
    """What its field says, with the flags of other options where that names them."""
    spelled = {each.name: flag(each) for each in options}
    described = re.sub(r"(?<=`)\w+(?=`)", lambda name: spelled.get(name[0], name[0]), doc)
    return f"{described} May be repeated." if is_repeated(option) else described


def default(option: Option) -> str:
    """What it is if it is not given; nothing if that is nothing."""
    if isinstance(option.default, timedelta):
        return durations.render(option.default) if option.default else ""
    return "" if option.is_required or option.default in (None, (), {}) else str(option.default)


def choices(option: Option) -> list[str]:
    """The words that it may be; none: others may be, too."""
    kind = option.type
    return [str(each) for each in kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []


def _type(option: Option) -> Any:
    if words := choices(option):
        return click.Choice(words)
    return int if option.type is int else str


def _help(option: Option, described: str) -> str:
    shown = default(option)
    return described.replace("`", "") + (f"  [default: {shown}]" if shown else "")


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f'{option} "{text}" is not a pair; write NAME=VALUE')
        found[name] = value
    return found
