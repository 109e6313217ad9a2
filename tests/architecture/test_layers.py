"""The contract about who may import whom leaves no module out."""

import configparser

from tests.kit.process import ROOT

SOURCE = ROOT / "src/rota"

FREE = {"rota", "rota.__main__"}
"""The shop window and the way in of `python -m rota`; everything else has its place in a layer."""


def layers() -> list[str]:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    text = contract["importlinter:contract:layers"]["layers"]
    return [name.strip() for line in text.splitlines() for name in line.replace("|", ":").split(":") if name.strip()]


def modules() -> list[str]:
    """Every module that has code of its own: a package whose `__init__` is its docstring alone has none."""
    names = []
    for path in SOURCE.rglob("*.py"):
        if path.name == "__init__.py" and "import" not in path.read_text():
            continue
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return sorted(names)


def test_every_module_has_its_place_in_a_layer() -> None:
    placed = layers()
    free = [
        name for name in modules() if name not in FREE and not any(f"{name}.".startswith(f"{each}.") for each in placed)
    ]
    assert not free, "give these a layer in .importlinter"
