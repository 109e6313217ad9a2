"""The HTTP door, asked without a socket."""

import json
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.compose.metrics import NodeFigures, registry
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http.door import door
from rota.fleet.core.access.gate import Access, Gate, known
from tests.kit.hand_clock import HandClock

TOKEN = "rota_a-token-of-tests"


GATE = Doorkeeper(Gate((known(TOKEN, Access.NODE),), "see: cat data/token"))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_fine(self) -> bool:
        """Is it no refusal? What is unwell says so in JSON of its own."""
        return self.status < 400 or b'"reasons"' in self.body

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == ("application/json" if self.is_fine else "application/problem+json")
        return json.loads(self.body)


async def ask(app: Starlette, path: str, method: str = "GET", accept: str = "") -> Answer:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = {"accept": accept, "host": "127.0.0.1:7700", "authorization": f"Bearer {TOKEN}"}
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "http_version": "1.1", "scheme": "http", "root_path": "",
        "server": ("127.0.0.1", 7700), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], told, b"".join(part["body"] for part in sent[1:]))


def made(health: HealthChecks | None = None, error: Exception | None = None) -> Starlette:
    def node() -> object:
        return {"id": "a", "since": datetime(2026, 1, 1, tzinfo=UTC)}

    async def fail(request: Request) -> Response:
        assert error is not None
        raise error

    clock = HandClock()
    more = [Route("/v1/fail", fail)]
    return door(health or HealthChecks(clock), registry(NodeFigures), node, gate=GATE, more=more, clock=clock)
