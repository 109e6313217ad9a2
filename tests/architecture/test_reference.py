"""The tables of the reference, and the diagrams of phases, are those that the code makes."""

import pytest

from scripts.reference import (
    DIAGRAM,
    EXPLANATION,
    FOLDER,
    diagrams,
    rewritten,
    single_tables,
    tables,
    with_table,
)


@pytest.mark.parametrize("page", tables())
def test_the_tables_of_a_page_follow_from_the_code(page: str) -> None:
    text = (FOLDER / page).read_text()
    assert rewritten(text, tables()[page]) == text, "run: make docs"


@pytest.mark.parametrize("page", diagrams())
def test_the_diagrams_of_a_page_follow_from_the_code(page: str) -> None:
    text = (EXPLANATION / page).read_text()
    assert rewritten(text, diagrams()[page], DIAGRAM) == text, "run: make docs"


@pytest.mark.parametrize("page", single_tables())
def test_the_tables_that_are_found_by_their_heading_follow_too(page: str) -> None:
    text = (FOLDER / page).read_text()
    for heading, rows in single_tables()[page].items():
        assert with_table(text, heading, rows) == text, "run: make docs"


def test_a_table_that_has_no_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="it has 1 tables, and there are 2"):
        rewritten("| a |\n|---|\n| `x` |\n", ["| `y` |\n", "| `z` |\n"])
    with pytest.raises(ValueError, match='it has 0 tables that begin with "b"'):
        with_table("| a |\n|---|\n| `x` |\n", "b", "| `y` |\n")


def test_what_stands_between_the_tables_stays() -> None:
    before = "# Page\n\n| a |\n|---|\n| `x` |\n| `y` |\n\nWords.\n"
    assert rewritten(before, ["| `z` |\n"]) == "# Page\n\n| a |\n|---|\n| `z` |\n\nWords.\n"
