"""A fleet of one node that commands reach through its doors, with a token for each role."""

import contextlib
import io
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from rota.cli.main import main
from tests.kit.cli import Answer
from tests.kit.doors import Door
from tests.kit.node import APP, NodeUnderTest

ROLES = ("view", "operate", "admin")


@dataclass(frozen=True)
class DoorFleetUnderTest:
    """A node that leads and works, and how commands reach it."""

    node: NodeUnderTest
    url: str
    folder: Path
    """An empty one, from which nothing is found by itself."""

    def environ(self, role: str = "admin") -> dict[str, str]:
        """The variables by which a command finds the fleet, with a token of that role, and without any store."""
        return {
            "ROTA_SERVER": self.url,
            "ROTA_TOKEN": f"file:{self.folder / role}",
            "XDG_CONFIG_HOME": str(self.folder),
        }

    def ask(self, *words: object, role: str = "admin", **more: str) -> Answer:
        """Run a command with a token of that role."""
        return here(*words, cwd=self.folder, environ={**self.environ(role), **more})


def here(*words: object, cwd: Path, environ: Mapping[str, str]) -> Answer:
    """Run a command in this process: dozens of new ones would take minutes on a busy machine."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, environ),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main([str(word) for word in words])
    code = ended.value.code
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Answer(code if isinstance(code, int) else 0, *texts)


@asynccontextmanager
async def door_fleet(folder: Path, app: str = APP) -> AsyncIterator[DoorFleetUnderTest]:
    """The fleet while it runs; its files are in `folder`."""
    with NodeUnderTest(folder / "node", "--role", "both", app=app) as node:
        await node.ready()
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        door = await Door.of(node)
        for role in ROLES:
            status, answer = door.http("POST", "/v1/tokens", {"name": f"a-{role}", "role": role})
            assert status == 201, answer
            (elsewhere / role).touch(mode=0o600)
            (elsewhere / role).write_text(json.loads(answer)["token"])
        yield DoorFleetUnderTest(node, f"http://{door.address}", elsewhere)
