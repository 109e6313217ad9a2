"""What a terminal would obey is shown instead of sent, wherever others wrote it."""

import ast
from pathlib import Path

import pytest

from rota import cli
from rota.cli.main import report
from rota.cli.terminal import tables
from rota.kit.text.plain import Colours, plain
from rota.model.errors import Invalid

EVIL = "a\x1b]0;PWN\x07\x1b[31mb\x9b2J\rc\u202ed"
SHOWN = "a\\x1b]0;PWN\\x07\\x1b[31mb\\x9b2J\\rc\\u202ed"
LOCAL = {"completion", "log", "main", "tables", "up"}
"""Commands that print what was made here, or records byte by byte; `main` has the errors, which it makes plain."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, SHOWN),
        ("line\nline", "line\\nline"),
        ("你好，\u3000世界 \u00a0 é 👩‍👧", "你好，\u3000世界 \u00a0 é 👩‍👧"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters_are_written_out_and_all_other_text_stays(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_tables_lines_and_errors_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(("NAME",), [(EVIL,)], "none")
    tables.say(f"{EVIL}\nmore")
    report(Invalid(EVIL))
    said = capsys.readouterr()
    assert said.out == f"NAME\n{SHOWN}\n{SHOWN}\nmore\n"
    assert said.err == f"rota: {SHOWN}\n"


def test_commands_print_what_a_fleet_said_only_by_way_of_the_tables() -> None:
    """`click.echo` sends whatever it is given; what is left of it prints JSON, bytes or texts of our own."""
    found = set()
    for file in Path(cli.__file__).parent.glob("*.py"):
        if file.stem in LOCAL:
            continue
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "click.echo":
                text = ast.unparse(call.args[0]) if call.args else ""
                if "msgspec.json" not in text:
                    found.add(f"{file.name}: {text}")
    assert not found


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_output_keeps_its_colours_and_nothing_else_however_it_comes(size: int) -> None:
    data = "ok \x1b[1;31mred\x1b[0m\tend\r\n\x1b[2J\x1b]0;PWN\x07你".encode() + b"\xff\x1b["
    colours = Colours()
    shown = b"".join(colours.take(data[at : at + size]) for at in range(0, len(data), size)) + colours.end()
    expected = "ok \x1b[1;31mred\x1b[0m\tend\r\n\\x1b[2J\\x1b]0;PWN\\x07你\ufffd\\x1b[\x1b[0m"
    assert shown.decode() == expected
