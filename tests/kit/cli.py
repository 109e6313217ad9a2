"""Running `rota` as a user would."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.kit.process import ROOT

ROTA = ROOT / ".venv/bin/rota"


@dataclass(frozen=True)
class Answer:
    """What a command printed and returned."""

    code: int
    out: str
    err: str


def rota(
    *arguments: object, cwd: Path, environ: dict[str, str] | None = None, within: float = 90.0, stdin: str = ""
) -> Answer:
    """Run `rota` to its end; `stdin` is what it can read."""
    done = subprocess.run(
        [ROTA, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)
