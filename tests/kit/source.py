"""The source of Rota, read and parsed once in a process."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from tests.kit.process import ROOT

T = TypeVar("T", bound=ast.AST)

SOURCE = ROOT / "src/rota"


@cache
def modules() -> Mapping[Path, ast.Module]:
    """What every file of Rota says, by its path below the repository; generated code is left out."""
    files = (file for file in sorted(SOURCE.rglob("*.py")) if "pb" not in file.parts)
    return {file.relative_to(ROOT): ast.parse(text(file.relative_to(ROOT))) for file in files}


@cache
def text(file: Path) -> str:
    """A file of the repository."""
    return (ROOT / file).read_text()


@cache
def nodes(file: Path) -> Mapping[type[ast.AST], list[ast.AST]]:
    """Everything in a module of Rota, at whatever depth, by what it is."""
    found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(modules()[file]):
        found[type(node)].append(node)
    return found


def each(file: Path, *kinds: type[T]) -> Iterator[T]:
    """The nodes of a module that are of some kinds."""
    for kind in kinds:
        yield from nodes(file).get(kind, ())  # type: ignore[misc]
