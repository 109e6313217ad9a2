"""The store's history: how old its revisions are."""

from datetime import datetime

import msgspec

from rota.model.codec import stored
from rota.model.ids import Revision


class HistoryNote(msgspec.Struct, frozen=True, kw_only=True):
    """Which revision was the newest at some time of the store's clock."""

    at: datetime
    revision: Revision


@stored()
class HistoryNotes(msgspec.Struct, frozen=True, kw_only=True):
    """Some notes, the oldest first: a store does not record how old its history is."""

    notes: tuple[HistoryNote, ...]
