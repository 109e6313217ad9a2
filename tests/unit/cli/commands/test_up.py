"""`rota up`: what is said of a fleet's start."""

import time
from typing import Any

import pytest

from rota.cli.commands import up
from rota.cli.terminal.screen import Screen


class SlowNode(up.NodeProcess):
    """A node that is ready when it has been looked at often enough."""

    def __init__(self, screen: Screen, looks: int) -> None:
        super().__init__(["--id", "n1", "--data", "nowhere"], screen, 31, up.SocketLender())
        self.looks = looks

    async def look(self) -> dict[str, Any] | None:
        self.looks -= 1
        return {"node": "n1", "leads": True, "is_ready": self.looks <= 0, "doors": {"http": "127.0.0.1:7700"}}


async def test_a_fleet_is_looked_at_until_it_is_ready_however_long_that_takes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "SLOW_LOOK", 0.0)
    screen = Screen()
    node = SlowNode(screen, looks=5)
    await up.report_when_ready([node], screen, began=time.monotonic(), patience=0.0)
    await screen.close()
    shown = capfd.readouterr()
    assert node.looks == 0
    assert "1 node, n1 leads" in shown.out
    assert shown.err.count("not ready") == 1
