"""`make show-house`: is the tree cut by kind, small and plain? A script over the tree, and what must not change.

`RECORD=1 PARTS=stories make show-house` writes down the digests that later runs compare with.
"""

import ast
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

from rota.sim.run import SCENARIOS, run_seeds
from shows.report import Line, show
from tests.kit.process import ROOT

SOURCE = ROOT / "src/rota"
STORIES = ROOT / "shows/house_stories.json"
WALKS = ROOT / "docs/explanation/walks.md"

KINDS: Mapping[str, str] = {
    "jobs": r"jobs?|runs?|cron|attempts?|executor|seat(s|ing)",
    "services": r"services?|proxy|proxies|admin\w*",
    "streams": r"streams?|streaming|letters|lending|lent",
    "resources": r"resources?|coverage|assignments?",
    "relay": r"relays?|relaying|outbox|emitting|dedup",
}
"""For each kind the words that make a module its own: the name of the module or of a folder that it is in, or a word of
either between underlines."""

SHARED = {"sdk", "client", "web", "stage", "sim", "compose"}
"""Folders where a kind has a part by right, beside its own."""

PORTS = {"outputs", "sinks", "sources", "store", "link"}
"""Ports: they belong to no kind, though some have one user."""

TOOLS = {"kit"}
"""Tools that know no kind: a word of theirs is another thing, as the standard streams of a process."""

WALKED: Mapping[str, int] = {"message": 3, "request": 1, "record": 3, "due time": 6}
"""For each walk how many changes of top-level folder it may have."""

SEEDS = 23
"""Seeds of each scenario, more than 200 together."""


@cache
def modules() -> Mapping[Path, ast.Module]:
    """Every module of Rota by its path below `src/rota`, but for generated ones."""
    files = sorted(file for file in SOURCE.rglob("*.py") if not file.name.endswith(("_pb2.py", "_pb2_grpc.py")))
    return {file.relative_to(SOURCE): ast.parse(file.read_bytes()) for file in files}


def folders_of_each_kind() -> Iterator[Line]:
    """A kind is in its own folder, and in few others. What is in another kind's folder is that kind's."""
    for kind, words in KINDS.items():
        named = re.compile(rf"(?:.*[/_])?(?:{words})(?:[/_.].*)?")
        others = KINDS.keys() - {kind} | PORTS | TOOLS
        files = [
            path
            for path in modules()
            if path.name != "__init__.py"
            and (path.parts[0] == kind or (path.parts[0] not in others and named.fullmatch(str(path.with_suffix("")))))
        ]
        folders = Counter(path.parts[0] for path in files)
        elsewhere = [str(path) for path in files if path.parts[0] not in {kind} | SHARED]
        by_right = sorted(folders.keys() & SHARED)
        figure = f"{folders[kind]} files in {kind}/" + (f", by right in {', '.join(by_right)}" if by_right else "")
        yield Line(
            not elsewhere,
            f"{kind}: in its own folder",
            figure + (f", elsewhere {len(elsewhere)}: {', '.join(elsewhere)}" if elsewhere else ""),
        )


def changes_along_the_walks() -> Iterator[Line]:
    """How often each of the four walks goes from one top-level folder to another."""
    text = WALKS.read_text() if WALKS.exists() else ""
    walks = dict(re.findall(r"^## [^\n]*?(message|request|record|due time)[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    for name, most in WALKED.items():
        tops = [path.split("/")[0] for path in re.findall(r"`([\w/]+\.py)`", walks.get(name, ""))]
        changes = sum(one != other for one, other in pairwise(tops))
        is_ok = bool(tops) and changes <= most
        yield Line(
            is_ok, f"the walk of a {name}: changes of folder, goal {most}", str(changes) if tops else "not written"
        )


def names_and_sizes() -> Iterator[Line]:
    """One name for one thing; nothing too long to be read at once."""
    nodes = [(path, node) for path, module in modules().items() for node in ast.walk(module)]
    classes = [(path, node) for path, node in nodes if isinstance(node, ast.ClassDef)]
    names = Counter(node.name for _, node in classes)
    twice = [name for name, count in names.most_common() if count > 1]
    worst = ", ".join(f"{name} {names[name]}" for name in twice[:6])
    yield Line(len(twice) <= 20, "class names used more than once, goal 20", f"{len(twice)} of {len(names)} ({worst})")
    levels = Counter(path.parent for path in modules() if path.name != "__init__.py")
    wide = [f"{folder} {count}" for folder, count in levels.most_common() if count > 15]
    yield Line(
        not wide, "folders with more than 15 modules at one level, goal 0", f"{len(wide)} ({', '.join(wide[:6])})"
    )
    long = [f"{node.name} {_lines(node)}" for _, node in classes if _lines(node) > 300]
    yield Line(len(long) <= 3, "classes over 300 lines, goal 0, short above 3", f"{len(long)} ({', '.join(long)})")
    functions = [node for _, node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tall = [f"{node.name} {_lines(node)}" for node in functions if _lines(node) > 60]
    median = statistics.median(map(_lines, functions))
    yield Line(not tall, "functions over 60 lines, goal 0", f"{len(tall)} ({', '.join(tall)}); median {median:.0f}")
    lines = sum(len((SOURCE / path).read_bytes().splitlines()) for path in modules())
    yield Line(lines <= 76_000, "lines of src, goal 74,000, short above 76,000", f"{lines:,}")


def _lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def stories_are_the_same() -> Iterator[Line]:
    """The digests of simulated fleets, beside those that were written down before anything moved."""
    told = {name: [verdict.digest for verdict in run_seeds(range(SEEDS), name)] for name in SCENARIOS}
    if os.environ.get("RECORD"):
        STORIES.write_text(json.dumps(told, indent=0) + "\n")
    before: Mapping[str, list[str]] = json.loads(STORIES.read_text())
    for name, digests in told.items():
        other = [seed for seed, pair in enumerate(zip(digests, before[name], strict=True)) if len(set(pair)) > 1]
        yield Line(
            not other, f"{name}: the stories of {SEEDS} seeds are the same", f"{len(other)} differ {other or ''}"
        )


def what_importing_rota_costs() -> Iterator[Line]:
    """Milliseconds of an import, without those of Python itself, and how many modules it loads."""
    took = statistics.median(_seconds("import rota") - _seconds("pass") for _ in range(7)) * 1000
    count = "import sys; before = len(sys.modules); import rota; print(len(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", count], check=True, capture_output=True, text=True).stdout.strip()
    yield Line(took < 100, "`import rota`, goal under 100 ms", f"{took:.0f} ms, {loaded} modules")


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    show(
        [
            folders_of_each_kind,
            changes_along_the_walks,
            names_and_sizes,
            stories_are_the_same,
            what_importing_rota_costs,
        ]
    )
