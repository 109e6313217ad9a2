"""Every `rota` command in the documents is one that there is, with options that it has."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rota.cli.main import cli
from tests.kit.doc_commands import parse
from tests.kit.pages import ANYTHING, PROMPT, blocks
from tests.kit.process import ROOT

PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")])
ROTA = re.compile(r"(?:^|\| )(?:\.venv/bin/)?rota [a-z-]")
PICTURE = re.compile(r"\S {3,}[^# ]")
"""A line with columns: a list or a drawing, and no command."""

INNER = re.compile(r"\$\(([^()]*)\)")
INLINE = re.compile(r"(?<!`)`rota ([a-z][^`\n]*)`")
INDENTED = re.compile(r"^    (?=rota )(.+)$", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def called(line: str) -> Iterator[list[str]]:
    """The arguments of every `rota` that a shell would start for this line."""
    for inner in INNER.findall(line):
        yield from called(inner)
    lexer = shlex.shlex(INNER.sub("x", line), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word[0] in "|&;<>":
            yield from _after_rota(words)
            words = []
        else:
            words.append(word)


def _after_rota(words: list[str]) -> Iterator[list[str]]:
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    if words and words[0] in ("rota", ".venv/bin/rota"):
        yield words[1:]


def typed(page: Path) -> Iterator[str]:
    """The lines of a page that are typed into a shell: behind a prompt, or beginning with `rota`."""
    for block in blocks(page):
        if any(line.startswith(PROMPT) for line in block.text.splitlines()):
            yield from (command.typed for command in block.commands())
        else:
            joined = block.text.replace("\\\n", " ")
            yield from (line for line in joined.splitlines() if ROTA.search(line) and not PICTURE.search(line))
    yield from INDENTED.findall(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_of_a_page_parses(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_STORE", "memory://")
    wrong = []
    for line in typed(page):
        if ANYTHING in line:
            continue
        for arguments in called(line):
            try:
                parse(arguments)
            except click.ClickException as error:
                wrong.append(f"{line}: {error.format_message()}")
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_that_a_page_names_is_there(page: Path) -> None:
    wrong = []
    for line in INLINE.findall(page.read_text()):
        command: click.Command = cli
        for word in line.split():
            if not isinstance(command, click.Group) or not re.fullmatch(r"[a-z][a-z-]*", word):
                break
            inner = command.get_command(click.Context(command), word)
            if inner is None:
                wrong.append(line)
                break
            command = inner
        known = {spelling for param in command.params for spelling in (*param.opts, *param.secondary_opts)}
        wrong += [line for option in re.findall(r"(?<= )--[a-z][a-z-]*", line) if option not in {*known, "--help"}]
    assert not wrong
