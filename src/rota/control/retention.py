"""Retention: the leader clears away the store's old history.

Once in a while it notes the newest revision, and compacts up to the one it noted long enough ago. A new leader begins
with an empty memory, so nothing is cleared before a whole `keep` has passed in its term: too much history is harmless,
too little makes watchers start over.
"""

import asyncio
import logging
from collections import deque

from rota.control.term import Term
from rota.kit.clock import Clock
from rota.model.config import RetentionConfig
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Instant, Revision

log = logging.getLogger(__name__)


class History:
    """Which revision was the newest at which time."""

    def __init__(self) -> None:
        self._notes: deque[tuple[Instant, Revision]] = deque()

    def note(self, now: Instant, revision: Revision) -> None:
        """Remember the newest revision."""
        self._notes.append((now, revision))

    def older_than(self, when: Instant) -> Revision | None:
        """The newest revision that is older than `when`, given out once."""
        found = None
        while self._notes and self._notes[0][0] <= when:
            found = self._notes.popleft()[1]
        return found


async def clear_away(term: Term, config: RetentionConfig, clock: Clock) -> None:
    """Compact again and again, for as long as the term lasts."""
    history = History()
    while True:
        await asyncio.sleep(config.every.total_seconds())
        try:
            now = clock.monotonic()
            history.note(now, await term.store.revision())
            before = history.older_than(Instant(now - config.keep.total_seconds()))
            if before is not None:
                await term.store.compact(before)
                log.debug("history cleared", extra={"before": before, "term": term.number})
        except (Unavailable, Unknown) as error:
            log.warning("history not cleared", extra={"why": str(error), "term": term.number})
