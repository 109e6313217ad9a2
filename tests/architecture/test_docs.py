"""What the documents say of the repository is so: links, make targets, options, exit codes, the shape of decisions."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from rota.cli.main import cli
from rota.model import errors
from tests.kit.process import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
DECISIONS = sorted((DOCS / "adr").glob("*.md"))
HEADINGS = ["Context", "Decision", "Price", "What we did not choose"]

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:")
MAKE_IN_TEXT = re.compile(r"`make ([a-z][\w-]*)")
MAKE_IN_FENCE = re.compile(r"^(?:\$ )?make ([a-z][\w-]*)", re.MULTILINE)
TARGET = re.compile(r"^([a-z][\w%-]*):", re.MULTILINE)
OPTION = re.compile(r"`(--?[a-z][a-z-]*|[A-Z]+\b)")
CODE = re.compile(r"^\| (\d+) \|", re.MULTILINE)
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|work|tmp|Users)/")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[Path]:
    """The files a page links to; links to the world outside and within the page are left out."""
    for target in LINK.findall(FENCED.sub("", page.read_text())):
        path = target.partition("#")[0]
        if path and not OUTSIDE.match(path):
            yield (page.parent / path).resolve()


def commands(group: click.Group, path: str = "rota") -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, groups left out."""
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {each}")
        elif command is not None:
            yield f"{path} {each}", command


def sections(page: Path) -> dict[str, str]:
    """A page's text by its second-level headings."""
    _, *parts = re.split(r"^## (.+)\n", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    lost = [str(target) for target in links(page) if not target.exists()]
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_make_target_exists(page: Path) -> None:
    targets = TARGET.findall((ROOT / "Makefile").read_text())
    known = re.compile("|".join(re.escape(target).replace("%", ".+") for target in targets))
    text = page.read_text()
    asked = {*MAKE_IN_TEXT.findall(text), *MAKE_IN_FENCE.findall("\n".join(FENCED.findall(text)))}
    assert not [target for target in sorted(asked) if not known.fullmatch(target)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_page_names_a_path_of_one_machine(page: Path) -> None:
    assert not MACHINE_PATH.findall(page.read_text())


def test_the_two_commands_of_the_readme_are_two() -> None:
    first = FENCED.search((ROOT / "README.md").read_text().partition("## Two commands")[2])
    assert first is not None
    assert first[0].splitlines()[1:-1] == ["make demo", "make test"]


def test_the_readme_is_short_and_shows_the_dashboard_in_a_small_picture() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) < 1500
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert (ROOT / picture).stat().st_size < 200_000
    for said in ("**Who it is for.**", "**Who it is not for.**", "**Maturity.**", "**Supported systems.**"):
        assert said in text.partition("## Two commands")[0]


def test_the_app_of_the_readme_can_be_loaded() -> None:
    first = FENCED.search((ROOT / "README.md").read_text().partition("## An app")[2])
    assert first is not None
    module: dict[str, Any] = {}
    exec("\n".join(first[0].splitlines()[1:-1]), module)
    declared = module["app"].summary()
    assert [each.name for each in (*declared.jobs, *declared.resources, *declared.services)] == [
        "report",
        "room",
        "till",
    ]


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    listed = {index, *links(index)}
    assert not [name(page) for page in DOCS.rglob("*.md") if page not in listed]


@pytest.mark.parametrize("page", DECISIONS, ids=name)
def test_a_decision_has_context_price_and_what_was_not_chosen(page: Path) -> None:
    assert list(sections(page)) == HEADINGS
    assert all(text.strip() for text in sections(page).values())


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    assert [page.read_text().split(".")[0] for page in DECISIONS] == [f"# {number}" for number in numbers]


@pytest.mark.parametrize(("path", "command"), list(commands(cli)), ids=lambda value: getattr(value, "name", value))
def test_the_reference_has_exactly_the_options_of_each_command(path: str, command: click.Command) -> None:
    params = [(param, spelling) for param in command.params for spelling in param.opts]
    options = {spelling.upper() if isinstance(param, click.Argument) else spelling for param, spelling in params}
    told = "\n".join(line for line in sections(DOCS / "reference/cli.md")[path].splitlines() if line.startswith("| `"))
    assert set(OPTION.findall(told)) == options


@pytest.mark.parametrize("page", [DOCS / "reference/cli.md", DOCS / "howto/run-a-node.md"], ids=name)
def test_the_exit_codes_are_those_of_the_errors(page: Path) -> None:
    families = [errors.RotaError, *errors.RotaError.__subclasses__()]
    told = [int(code) for code in CODE.findall(sections(page)["Exit codes"])]
    assert told == sorted({0, 130, *(family.exit_code for family in families)})
