"""Retention: the leader clears away the store's old history.

Once in a while it notes the newest revision, and compacts up to the one that was noted long enough ago. The notes are
in the store, so that history is cleared away however often the leader changes. Where they are lost, nothing is cleared
before a whole `keep` has passed: too much history is harmless, too little makes watchers start over.
"""

import asyncio
import logging
from datetime import timedelta

from rota.fleet.core.leading import history
from rota.fleet.leading.term import Term
from rota.model import codec, keys
from rota.model.config import RetentionConfig
from rota.model.errors import Unavailable, Unknown
from rota.model.history import HistoryNotes
from rota.store.port import Put
from rota.store.records import understood

log = logging.getLogger(__name__)


async def clear_away(term: Term, config: RetentionConfig) -> None:
    """Compact periodically, for as long as the term lasts."""
    while True:
        try:
            wait = await _visit(term, config)
        except (Unavailable, Unknown) as error:
            log.warning("history not cleared", extra={"why": str(error), "term": term.number})
            wait = config.every
        await asyncio.sleep(wait.total_seconds())


async def _visit(term: Term, config: RetentionConfig) -> timedelta:
    """Compact old history unless that was done recently; returns how long to wait until the next time."""
    store = term.store
    entry = await store.get(keys.HISTORY)
    known = understood(HistoryNotes, entry, log)
    notes, now = known.notes if known else (), await store.now()
    if wait := history.until_next(notes, now, config.every, config.keep):
        return wait
    newest = await store.revision()
    found = history.clearing(notes, newest, now, config.keep)
    if found.before is None and entry is not None and entry.modified == newest:
        return config.every  # nothing was written since: do not add a write to an idle fleet
    if found.before is not None:
        await store.compact(found.before)
        log.debug("history cleared", extra={"before": found.before, "term": term.number})
    # Last: a leader that dies before this leaves it to the next one, and compacting twice does no harm.
    await term.commit(Put(keys.HISTORY, codec.encode(HistoryNotes(notes=found.notes))))
    return history.until_next(found.notes, now, config.every, config.keep)
