"""Hints name commands and options that there are: in every text of the program, and the own ones in each command's."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import rota
from rota.cli.main import COMMANDS, cli
from tests.kit import source
from tests.kit.commands import LEAVES
from tests.kit.process import ROOT

SOURCE = Path(rota.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
CALLED = re.compile(r"\brota ((?:[a-z][a-z-]*\b(?![.\w]) ?)+)")
ARGV = re.compile(r"--[a-z-]+=?")
"""What one process of Rota gives another, and no text."""

KNOWN = {"--help", "--version"} | {
    spelling for _, command in LEAVES for each in command.params for spelling in (*each.opts, *each.secondary_opts)
}


def texts(file: Path) -> Iterator[str]:
    """Every text of a module but argv, the options of processes that only Rota starts, and what only we read."""
    tree = source.modules().get(file.relative_to(ROOT)) or ast.parse(file.read_text())
    if any(isinstance(node, ast.Import) and node.names[0].name == "argparse" for node in ast.walk(tree)):
        return
    documented = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef) and node.body)
    docstrings = {id(node.body[0].value) for node in documented if isinstance(node.body[0], ast.Expr)}
    parts = docstrings | {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr():
                text = "".join(
                    part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "…"
                    for part in node.values
                )
            case ast.Constant(value=str(text)) if id(node) not in parts:
                pass
            case _:
                continue
        if not ARGV.fullmatch(text.rstrip("…")):
            yield text


def found(words: list[str]) -> tuple[click.Command, list[str]] | None:
    """The command that words begin with, and the words behind it; None if they are a sentence, like "rota needs"."""
    command: click.Command = cli
    for at, word in enumerate(words):
        inner = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if inner is None:
            return None if at == 0 else (command, words[at:])
        command = inner
    return command, []


def options(command: click.Command) -> set[str]:
    """The options of a command, or of those of a group."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        inner = (command.get_command(context, name) for name in command.list_commands(context))
        return set().union(*(options(each) for each in inner if each is not None))
    return {"--help", *(spelling for each in command.params for spelling in (*each.opts, *each.secondary_opts))}


def hints(text: str) -> Iterator[tuple[click.Command | None, str]]:
    """The options that a text names, each with the command that is called before it in the same sentence."""
    for sentence in re.split(r"[;:,)]\s|\.\s|\n", text):
        begins = [match for match in CALLED.finditer(sentence) if found(match[1].split())]
        for option in OPTION.finditer(sentence):
            before = [match for match in begins if match.start() < option.start()]
            called = found(before[-1][1].split()) if before else None
            yield called[0] if called else None, option[0]


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_hint_names_an_option_that_there_is(file: Path) -> None:
    wrong = [
        (option, text)
        for text in texts(file)
        for command, option in hints(text)
        if option not in (KNOWN if command is None else options(command))
    ]
    assert not wrong


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_hints_at_its_own_options(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    wrong = [
        (option, text)
        for text in texts(SOURCE / COMMANDS[name][0].replace(".", "/") / f"{name}.py")
        for called, option in hints(text)
        if called is None and option not in options(command)
    ]
    assert not wrong


def test_a_hint_at_what_there_is_not_is_found() -> None:
    assert list(hints("choose another with --nosuch")) == [(None, "--nosuch")]
    ((command, option),) = hints("try again: rota jobs rm report --force; or leave it")
    assert command is not None
    assert (command.name, option in options(command)) == ("rm", False)
