"""Move the tree to a folder for each kind: `python scripts/move_tree.py` reads scripts/move_tree.txt.

It is run once, on a clean tree; it stays in the history so that a branch from before can be moved the same way. Files
are moved with `git mv`; imports, dotted names, paths and names in backticks follow; the tests' folders mirror the new
tree.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/rota"
TABLE = ROOT / "scripts/move_tree.txt"
SELF = {"scripts/move_tree.py", "scripts/move_tree.txt", "CHANGELOG.md"}


def read_table() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Old module → new one; old package → the package that inherits its `__init__`; old test file → new one."""
    modules: dict[str, str] = {}
    packages: dict[str, str] = {}
    tests: dict[str, str] = {}
    for line in TABLE.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        left, _, rest = line.partition(":")
        for word in rest.split():
            if left == "packages":
                old, new = word.split("=")
                packages[f"rota.{old}"] = f"rota.{new}"
            elif left.startswith("tests/"):
                old, _, new = word.partition("=")
                tests[f"tests/unit/{old}.py"] = f"{left}/{new or old.rsplit('/')[-1]}.py"
            elif word.startswith("="):
                modules[f"rota.{word[1:]}"] = f"rota.{left}"
            else:
                old, _, new = word.partition("=")
                modules[f"rota.{old}"] = f"rota.{left}.{new or old.rsplit('.')[-1]}"
    return modules, packages, tests


MODULES, PACKAGES, TESTS = read_table()


def moved(name: str) -> str | None:
    """The new dotted name of a module or of something in a moved package; None if it stays."""
    parts = name.split(".")
    for size in range(len(parts), 1, -1):
        head = ".".join(parts[:size])
        if head in MODULES:
            return MODULES[head] + name[len(head) :]
    return PACKAGES.get(name)


def file_of(module: str) -> Path:
    return SOURCE.joinpath(*module.split(".")[1:])


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True, cwd=ROOT).stdout


OLD_FILES: set[str] = set()


def note_old_modules() -> None:
    for path in SOURCE.rglob("*.py"):
        parts = ["rota", *path.relative_to(SOURCE).with_suffix("").parts]
        OLD_FILES.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def is_module(name: str) -> bool:
    return name in OLD_FILES


def move(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    git("mv", str(old), str(new))


def move_modules() -> None:
    for old, new in MODULES.items():
        path, target = file_of(old), file_of(new)
        if path.with_suffix(".py").exists():
            move(path.with_suffix(".py"), target.with_suffix(".py"))
        elif path.is_dir():
            move(path, target)
        else:
            print("no such module:", old, file=sys.stderr)
    for old, new in PACKAGES.items():
        move(file_of(old) / "__init__.py", file_of(new) / "__init__.py")
    for init in sorted(SOURCE.rglob("__init__.py"), reverse=True):
        folder = init.parent
        if not [each for each in folder.iterdir() if each.name not in {"__init__.py", "__pycache__"}]:
            git("rm", "-q", str(init))
    make_packages(SOURCE, '"""TODO"""\n')


def make_packages(top: Path, text: str) -> None:
    """Every folder with modules below it is a package."""
    for path in list(top.rglob("*.py")):
        for folder in path.relative_to(top.parent).parents:
            if folder.parts and not (init := top.parent / folder / "__init__.py").exists():
                init.write_text(text)


def new_tests() -> dict[str, str]:
    """Old path of a test of a module → the path beside which the module is now."""
    unit = ROOT / "tests/unit"
    found = dict(TESTS)
    for path in sorted(unit.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name in found or path.name == "__init__.py" or not path.name.startswith("test_"):
            continue
        parts = path.relative_to(unit).with_suffix("").parts
        module = ".".join(["rota", *parts[:-1], parts[-1].removeprefix("test_")])
        new = moved(module)
        if new and is_module(module):
            *folders, last = new.split(".")[1:]
            found[name] = "/".join(["tests/unit", *folders, f"test_{last}.py"])
    return found


def move_tests(tests: dict[str, str]) -> None:
    for old, new in tests.items():
        if not (ROOT / old).exists():
            print("no such test:", old, file=sys.stderr)
        elif old != new:
            if (ROOT / new).exists():
                print("there already:", old, new, file=sys.stderr)
            move(ROOT / old, ROOT / new)
    unit = ROOT / "tests/unit"
    for init in sorted(unit.rglob("__init__.py"), key=lambda each: -len(each.parts)):
        if not [each for each in init.parent.iterdir() if each.name not in {"__init__.py", "__pycache__"}]:
            git("rm", "-q", "-f", str(init))
            shutil.rmtree(init.parent, ignore_errors=True)
    make_packages(unit, "")


def rewrite_imports(text: str) -> str:
    """The same text with its `from rota… import …` pointing at the new places."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.splitlines(keepends=True)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module and n.level == 0]
    for node in sorted(nodes, key=lambda each: -each.lineno):
        module = node.module or ""
        if module.split(".")[0] != "rota":
            continue
        groups: dict[str, list[str]] = defaultdict(list)
        changed = False
        for alias in node.names:
            full = f"{module}.{alias.name}"
            if is_module(full):
                target = moved(full)
                if target is None:
                    groups[module].append(_alias(alias.name, alias.asname))
                    continue
                changed = True
                package, _, base = target.rpartition(".")
                groups[package].append(_alias(base, alias.asname or (alias.name if base != alias.name else None)))
            else:
                target = moved(module)
                changed |= target is not None
                groups[target or module].append(_alias(alias.name, alias.asname))
        if not changed:
            continue
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        indent = " " * node.col_offset
        old = "".join(lines[first : last + 1])
        assert lines[first][: node.col_offset].strip() == "", old
        comments = [line[line.index("#") :].rstrip() for line in old.splitlines() if "#" in line]
        comment = "  " + comments[0] if comments else ""
        new = "".join(
            f"{indent}from {package} import {', '.join(names)}{comment}\n" for package, names in groups.items()
        )
        lines[first : last + 1] = [new]
    return "".join(lines)


def _alias(name: str, asname: str | None) -> str:
    return f"{name} as {asname}" if asname and asname != name else name


DOTTED = re.compile(r"(?<![\w/.-])rota(?:\.[a-z_][a-z_0-9]*)+")
SLASHED = re.compile(
    r"(?<![\w.-])((?:src/)?rota/[a-z_0-9/]+|(?:api|committers|control|decide|kit|model|node|rpc|cli|sim|compose|sdk|store|workloads)/[a-z_0-9/]+)(\.py)?(?![\w])"
)
TICKED = re.compile(
    r"`((?:api|committers|control|decide|kit|model|node|rpc|cli|sim|compose|sdk|store|workloads)(?:\.[a-z_][a-z_0-9]*)+)((?:\.[A-Za-z_]\w*)?(?:\(\))?)`"
)
QUOTED = re.compile(r"from (rota(?:\.\w+)+) import (\w+(?:, \w+)*)")
SEEN: dict[str, str] = {}


def quoted(match: re.Match[str]) -> str:
    """An import of modules in a program that stands in a string."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in match[2].split(", "):
        target = moved(full) if is_module(full := f"{match[1]}.{name}") else None
        package, _, base = target.rpartition(".") if target else (match[1], "", name)
        groups[package].append(_alias(base, name))
    return "; ".join(f"from {package} import {', '.join(names)}" for package, names in groups.items())


def rewrite_names(text: str, tests: dict[str, str]) -> str:
    """Dotted names, paths, and names in backticks."""

    def dotted(match: re.Match[str]) -> str:
        name = match[0]
        parts = name.split(".")
        for size in range(len(parts), 1, -1):
            head = ".".join(parts[:size])
            if head in MODULES or (is_module(head) and moved(head)):
                return (moved(head) or head) + name[len(head) :]
        return name

    def slashed(match: re.Match[str]) -> str:
        path = match[1]
        prefix = "src/rota/" if path.startswith("src/rota/") else "rota/" if path.startswith("rota/") else ""
        inner = path.removeprefix(prefix).rstrip("/")
        name = "rota." + inner.replace("/", ".")
        if not is_module(name) or (new := moved(name)) is None:
            return match[0]
        if (not match[2] and name in WAS_FILE) or (name in PACKAGES and prefix == "rota/"):
            return match[0]
        result = (
            prefix
            + new.removeprefix("rota.").replace(".", "/")
            + (match[2] or "")
            + ("/" if path.endswith("/") else "")
        )
        SEEN[match[0]] = result
        return result

    def ticked(match: re.Match[str]) -> str:
        name = "rota." + match[1]
        parts = name.split(".")
        for size in range(len(parts), 1, -1):
            head = ".".join(parts[:size])
            is_named = head in MODULES or (len(parts) == size and head in PACKAGES)
            if is_module(head) and is_named and len(parts) - size <= 1:
                result = "`" + (moved(head) or "").removeprefix("rota.") + name[len(head) :] + match[2] + "`"
                SEEN[match[0]] = result
                return result
        return match[0]

    text = QUOTED.sub(quoted, text)
    text = DOTTED.sub(dotted, text)
    text = SLASHED.sub(slashed, text)
    text = TICKED.sub(ticked, text)
    for old, new in tests.items():
        if old != new and (old in text or "tests.unit" in text):
            text = re.sub(rf"(?<![\w/]){re.escape(old)}", new, text)
            dots = old.removesuffix(".py").replace("/", ".")
            text = re.sub(rf"(?<![\w.]){re.escape(dots)}(?!\w)", new.removesuffix(".py").replace("/", "."), text)
            package, _, base = dots.rpartition(".")
            to, _, name = new.removesuffix(".py").replace("/", ".").rpartition(".")
            text = re.sub(rf"(?<![\w.])from {re.escape(package)} import {base}\b", f"from {to} import {name}", text)
    return text


WAS_FILE: set[str] = set()


def check_table() -> None:
    """No new name begins with an old one, or names would be moved twice."""
    for new in {*MODULES.values(), *PACKAGES.values()}:
        parts = new.split(".")
        heads = {".".join(parts[:size]) for size in range(2, len(parts) + 1)}
        if again := heads & ({*MODULES} | {*PACKAGES}):
            raise SystemExit(f"{new} would be moved again, by {again}")


def main() -> None:
    check_table()
    note_old_modules()
    for path in SOURCE.rglob("*.py"):
        if path.name != "__init__.py":
            WAS_FILE.add(".".join(["rota", *path.relative_to(SOURCE).with_suffix("").parts]))
    tests = new_tests()
    move_modules()
    move_tests(tests)
    for name in git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        path = ROOT / name
        if name in SELF or not path.is_file() or path.is_symlink() or path.stat().st_size > 3_000_000:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        new = rewrite_imports(text) if path.suffix == ".py" else text
        new = rewrite_names(new, tests)
        if new != text:
            path.write_text(new)
    for old, new in sorted(SEEN.items()):
        print(old, "->", new)


if __name__ == "__main__":
    main()
