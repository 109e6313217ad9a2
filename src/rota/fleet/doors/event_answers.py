"""The answers of operations on events."""

import msgspec

from rota.model.event import Event
from rota.model.ids import Revision


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events, the newest last."""

    events: tuple[Event, ...]
    """The events of this page."""

    revision: Revision
    """The revision of the store that they were read at; a watch can go on after it."""

    next: str | None = None
    """The token of the page with older events; null: there are none."""
