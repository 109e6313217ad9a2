"""`rota up` as a process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kit.cli import ROTA
from tests.kit.node import APP
from tests.kit.process import Process
from tests.kit.waiting import eventually


@asynccontextmanager
async def fleet(folder: Path, *flags: object, app: str = APP) -> AsyncIterator[Process]:
    (folder / "app.py").write_text(app)
    argv = ["sh", "-c", f'cd "{folder}" && exec "$0" "$@"', ROTA, "up", "app.py", *flags]
    with Process(argv, folder / "up.out") as up:
        yield up


async def ready(up: Process) -> str:
    def told() -> list[str]:
        assert up.is_running, up.errors.read_text()
        return [line for line in up.lines() if line.startswith("ready")]

    return (await eventually(told, within=60))[0]
