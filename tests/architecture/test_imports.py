"""What importing Rota costs, and what it promises."""

import ast
import re
import subprocess
import sys

import rota
from tests.kit.process import ROOT
from tests.kit.source import each, modules

HEAVY = {"grpc", "google.protobuf", "sqlalchemy", "sqlite3", "asyncio", "rich", "click"}


def test_importing_rota_pulls_in_no_driver_and_no_loop() -> None:
    code = "import sys, rota; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert HEAVY & set(loaded) == set()


def test_the_promise_is_kept() -> None:
    assert len(set(rota.__all__)) == len(rota.__all__)
    for name in rota.__all__:
        assert hasattr(rota, name)


def test_only_the_clock_reads_time() -> None:
    """`datetime.now()` needs no import that the contract could forbid."""
    guilty = []
    for file in modules():
        if file.match("kit/time/clock.py"):
            continue
        for node in each(file, ast.Attribute):
            if node.attr in {"now", "utcnow", "today"}:
                value = node.value
                if isinstance(value, ast.Name) and value.id in {"datetime", "date"}:
                    guilty.append(f"{file}:{node.lineno}")
    assert guilty == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(file) for file, module in modules().items() if not ast.get_docstring(module)]
    assert silent == []


def test_no_test_module_is_imported_by_another() -> None:
    """What several need is in `tests/kit`. One show runs a table of tests as it is."""
    modules = r"^\s*(?:from|import) tests\.(?!kit)[\w.]*\.?(?:test_\w+|conftest)\b"
    taken = re.compile(modules + r"|^from tests\.[\w.]+ import test_", re.MULTILINE)
    folders = [ROOT / folder for folder in ("tests", "shows", "benchmarks")]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    guilty = [str(file.relative_to(ROOT)) for file in files if taken.search(file.read_text())]
    assert guilty == ["shows/safety.py"]
