"""The README's section "By hand" does what it says, in a checkout of its own."""

import shutil
from pathlib import Path

from tests.kit.pages import blocks
from tests.kit.process import ROOT
from tests.kit.reader import Reader
from tests.kit.servers import free_port


def test_what_the_readme_says_by_hand_works_as_written(tmp_path: Path) -> None:
    service, http = str(free_port()), str(free_port())
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".rota"))
    app = tmp_path / "examples/02-first-app/app.py"
    app.write_text(app.read_text().replace("port=9900", f"port={service}"))
    run = [block for block in blocks(ROOT / "README.md") if block.mode]
    assert len(run) >= 4
    with Reader(tmp_path, {"7700": http}, {"ROTA_HTTP": f"127.0.0.1:{http}", "ROTA_GRPC": "127.0.0.1:0"}) as reader:
        for block in run:
            reader.follow(block)
    printed = (tmp_path / "kept1.out").read_text()
    assert "ERROR" not in printed
    assert "no log there" not in printed
