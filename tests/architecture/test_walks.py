"""The walks through the code name files and functions that exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.kit.process import ROOT

SOURCE = ROOT / "src/rota"
TEXT = (ROOT / "docs/explanation/walks.md").read_text()
STEP = re.compile(r"`([\w/]+\.py)`\s+with\s+`([\w.]+)`")
FILE = re.compile(r"`([\w/]+\.py)`")
METHOD = re.compile(r"`([A-Z_]\w+\.\w+)`")
WALKS = ("An emitted message", "A request", "A record", "A due time")


@cache
def defined(path: Path) -> frozenset[str]:
    """Functions, classes and methods that a module defines."""
    return frozenset(_names(ast.parse(path.read_bytes())))


def _names(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            inside = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            yield from (f"{node.name}.{each.name}" for each in inside)


@pytest.mark.parametrize(("file", "name"), STEP.findall(TEXT))
def test_each_step_names_a_function_that_its_file_defines(file: str, name: str) -> None:
    assert name in defined(SOURCE / file)


def test_each_file_has_its_function_beside_it() -> None:
    assert len(FILE.findall(TEXT)) == len(STEP.findall(TEXT))


def test_methods_that_are_named_without_a_file_are_those_of_a_file_on_the_walks() -> None:
    files = {SOURCE / file for file in FILE.findall(TEXT)}
    known = set().union(*map(defined, files))
    assert set(METHOD.findall(TEXT)) <= known


def test_there_are_four_walks() -> None:
    assert tuple(re.findall(r"^## (.+)$", TEXT, re.MULTILINE)) == WALKS
