"""Real servers, shared by the tests of one run."""

from contextlib import ExitStack
from pathlib import Path

from tests.kit.servers import Server


class ServerPool:
    """Servers by kind and part, each started when first asked for."""

    def __init__(self, base: Path, stack: ExitStack) -> None:
        self._base, self._stack = base, stack
        self._running: dict[tuple[type[Server], str], Server] = {}

    def get(self, kind: type[Server], part: str) -> Server:
        """The running server of a kind that plays a part; tests of one part share it."""
        if (kind, part) not in self._running:
            base = self._base / f"{kind.__name__}-{part}"
            base.mkdir(exist_ok=True)  # it may have failed to start for the test before
            self._running[kind, part] = self._stack.enter_context(kind(base))
        server = self._running[kind, part]
        if not server.is_running:  # it crashed under the test before, which says so; the others need not suffer for it
            server.start()
        return server
