"""The node's journal: what happened, as a line in the log at once, and as an event in the store when there is one."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from rota.fleet.events.event_log import EventLog
from rota.model.event import KINDS

log = logging.getLogger(__name__)

Tell = Callable[..., None]
"""tell(kind, subject, **fields): something happened."""

LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
EARLY = 100
"""Events that are kept until there is a store to write them to; the newest count."""


class Journal:
    """Accepts events from the start of the node on, before there is a store."""

    def __init__(self) -> None:
        self._events: EventLog | None = None
        self._early: deque[tuple[str, str, dict[str, Any]]] = deque(maxlen=EARLY)

    def write_to(self, events: EventLog) -> None:
        """Write to this event log from now on, beginning with the events kept so far."""
        self._events = events
        while self._early:
            kind, subject, fields = self._early.popleft()
            events.record(kind, subject, **fields)

    def tell(self, kind: str, subject: str, **fields: Any) -> None:
        """Record an event; fields that are None are left out."""
        known = {name: value for name, value in fields.items() if value is not None}
        log.log(LEVELS[KINDS[kind].severity], kind.replace(".", " "), extra={"subject": subject, **known})
        if self._events is not None:
            self._events.record(kind, subject, **known)
        else:
            self._early.append((kind, subject, known))

    @property
    def dropped(self) -> dict[str, int]:
        """How many events were dropped, by reason."""
        return dict(self._events.dropped) if self._events else {}
