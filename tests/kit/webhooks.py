"""A server that hooks can call: it writes down what it is told, and answers as the test says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Told:
    """One call."""

    id: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body["event"]["kind"])

    @property
    def subject(self) -> str:
        return str(self.body["event"]["subject"])


class Webhook:
    """Where a hook leads."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.status = 200
        self.url = ""

    def of(self, *kinds: str) -> list[tuple[str, str]]:
        """The kinds and subjects that it was told of, of some kinds."""
        return [(each.kind, each.subject) for each in self.told if each.kind in kinds]


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A server on the loopback, for as long as it is needed."""
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hook.told.append(Told(self.headers["idempotency-key"], json.loads(body)))
            self.send_response(hook.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}/told"
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield hook
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
