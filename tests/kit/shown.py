"""The fleet that the browser tests look at."""

import json
from dataclasses import dataclass
from typing import Any

from tests.kit.doors import Door
from tests.kit.fleet import Fleet

TOKEN = "rota_a-token-of-the-dashboards-tests"


@dataclass(frozen=True)
class Shown:
    """The fleet that is shown, and the door of its first node."""

    fleet: Fleet
    door: Door
    log: str
    """What the stream reads."""

    @property
    def first(self) -> str:
        """The name of the node whose dashboard is open."""
        return self.fleet.nodes["a"].name

    @property
    def second(self) -> str:
        """The other node."""
        return self.fleet.nodes["b"].name


def ask(shown: Shown, method: str, path: str, body: object = None) -> Any:
    """What the API says."""
    status, text = shown.door.http(method, path, body)
    assert status < 300, text
    return json.loads(text) if text else None
