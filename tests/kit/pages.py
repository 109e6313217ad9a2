"""The fenced blocks of the documents: what they show, and how they are run.

The words behind a fence's language say what a block is for. Readers of the page see none of them.

| fence | meaning |
|---|---|
| `python app.py` | a file: the block is written under that name |
| `console run` | commands, each behind `$ `, with what they print below them |
| `console until` | the same, but asked again until they print that: something takes its time |
| `console keep` | one command that runs until the page ends; what is shown must come |

A `…` stands for anything: alone on a line for any number of lines, within a line for any text. How wide the gaps are
does not count. All other blocks are only there to be read, and their commands to be parsed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

_FENCE = re.compile(r"^([ ]*)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
ANYTHING = "…"
PROMPT = "$ "


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    words: tuple[str, ...]
    """The language, and what it is for."""

    text: str

    @property
    def file(self) -> str | None:
        """The name under which it is written down."""
        return self.words[1] if len(self.words) == 2 and "." in self.words[1] else None

    @property
    def mode(self) -> str:
        """`run`, `until`, `keep`, or nothing if its commands are not run."""
        return self.words[1] if self.words[:1] == ("console",) and len(self.words) == 2 else ""

    def commands(self) -> Iterator["Command"]:
        """What is typed, with what is printed below it."""
        lines = _joined(self.text.splitlines())
        for place, line in enumerate(lines):
            if line.startswith(PROMPT):
                shown = takewhile(lambda each: not each.startswith(PROMPT), lines[place + 1 :])
                yield Command(line.removeprefix(PROMPT), tuple(shown))


@dataclass(frozen=True)
class Command:
    """One line that is typed."""

    typed: str
    shown: tuple[str, ...]

    def explains(self, printed: str) -> bool:
        """Is this what the page shows? Where it shows nothing, anything is."""
        return not self.shown or bool(_pattern(self.shown).fullmatch(_even(printed.splitlines())))

    def is_within(self, printed: str) -> bool:
        """Has all that the page shows come by now, whatever came between?"""
        return bool(_pattern((ANYTHING, *self.shown, ANYTHING)).fullmatch(_even(printed.splitlines())))


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = []
    for indent, info, text in _FENCE.findall(page.read_text()):
        lines = [line.removeprefix(indent) for line in text.splitlines(keepends=True)]
        found.append(Block(tuple(info.split()), "".join(lines)))
    return found


def _joined(lines: Sequence[str]) -> list[str]:
    """The lines, where one that ends in a backslash goes on in the next."""
    found: list[str] = []
    for line in lines:
        if found and found[-1].endswith("\\"):
            found[-1] = found[-1][:-1] + line.lstrip()
        else:
            found.append(line)
    return found


def _even(lines: Sequence[str]) -> str:
    """The lines with every gap one space wide, each with its end."""
    return "".join(f"{' '.join(line.split())}\n" for line in lines if line.strip())


def _pattern(shown: Sequence[str]) -> re.Pattern[str]:
    parts = []
    for line in shown:
        if line.strip() == ANYTHING:
            parts.append(r"(?:.*\n)*?")
        elif line.strip():
            parts.append(re.escape(" ".join(line.split())).replace(re.escape(ANYTHING), ".*") + "\n")
    return re.compile("".join(parts))
