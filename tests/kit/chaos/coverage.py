"""Who hears the rooms, as the platform sees it: its log tells of each message to which connections it went."""

import json
from pathlib import Path


class Coverage:
    """Follows the platform's log; pieces of it, each once."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0
        self._listeners: dict[str, int] = {}

    def forget(self) -> None:
        """Let only what is said from now on count."""
        self._read = self._log.stat().st_size if self._log.exists() else 0
        self._listeners.clear()

    def heard(self, replicas: int) -> int:
        """How many rooms said something since then of which the last was heard by so many."""
        if self._log.exists():
            self._follow()
        return sum(count >= replicas for count in self._listeners.values())

    def _follow(self) -> None:
        with self._log.open("rb") as file:
            file.seek(self._read)
            piece = file.read()
        whole = piece.rpartition(b"\n")[0]
        self._read += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            if line.startswith(b'["sent"'):
                _, _, room, _, connections = json.loads(line)
                self._listeners[room] = len(connections)
