"""A caller of the HTTP door with a body, headers and a store, without a socket."""

import json
from collections.abc import MutableMapping
from typing import Any

from starlette.applications import Starlette

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.watches import Watches
from rota.store import Store
from tests.kit.hand_clock import HandClock
from tests.kit.http_door import GATE, TOKEN, Answer
from tests.kit.relay_records import count

CLOCK = HandClock()


JSON = {"content-type": "application/json"}


class Caller:
    """Somebody who asks the door."""

    def __init__(self, app: Starlette, token: str = TOKEN) -> None:
        self._app = app
        self._usual = {"host": "127.0.0.1:7700", "authorization": f"Bearer {token}"}

    async def __call__(
        self, method: str, path: str, content: object = None, *, headers: dict[str, str] | None = None
    ) -> Answer:
        body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
        told = JSON if headers is None and content is not None else headers or {}
        return await self.send(method, path, [body], told)

    async def send(self, method: str, path: str, parts: list[bytes], headers: dict[str, str]) -> Answer:
        """Ask with a body in parts."""
        coming = iter(
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts, 1)
        )
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return next(coming, {"type": "http.disconnect"})

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        bare, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": bare, "raw_path": bare.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in (self._usual | headers).items()],
            "http_version": "1.1",
            "scheme": "http", "root_path": "", "server": ("127.0.0.1", 7700), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        await self._app(scope, receive, send)
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], told, b"".join(part["body"] for part in sent[1:]))

    async def refused(self, status: int, method: str, path: str, content: object = None, **more: Any) -> str:
        """The sentence of a refusal."""
        answer = await self(method, path, content, **more)
        assert answer.status == status, answer.body
        said = answer.json
        assert (said["status"], said["type"]) == (status, f"urn:rota:error:{said['code']}")
        sentence = said["error"]
        assert isinstance(sentence, str)
        assert said["detail"] == sentence
        return sentence


def opened(store: Store | None) -> Caller:
    routes = resources.routes(NodeBackend(lambda: store, CLOCK, Watches(), count))
    return Caller(door(HealthChecks(CLOCK), registry(NodeFigures), dict, gate=GATE, more=routes, clock=CLOCK))
