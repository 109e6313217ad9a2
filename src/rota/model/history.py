"""The store's history: how old its revisions are."""

from dataclasses import dataclass
from datetime import datetime

from rota.model.ids import Revision


@dataclass(frozen=True, kw_only=True)
class HistoryNote:
    """Which revision was the newest at some time of the store's clock."""

    at: datetime
    revision: Revision


@dataclass(frozen=True, kw_only=True)
class HistoryNotes:
    """Some of them, the oldest first: a store does not tell how old its history is."""

    notes: tuple[HistoryNote, ...]
