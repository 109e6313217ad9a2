"""An episode: a wait that lasts so long that an event reports it, until it is over.

The leader writes the record in one commit with the event that reports the wait, and deletes it in one commit with the
event that reports its end: so each is reported once, whichever node leads.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from rota.model.codec import stored


class Wait(StrEnum):
    """What kind of thing waits."""

    RESOURCE = "resource"
    """A resource lacks tasks."""

    STREAM = "stream"
    """The output of a stream is far behind its source."""

    RUN = "run"
    """A run of a job gets no node."""


@stored()
class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """Something waits, and the event that says so is written."""

    wait: Wait
    subject: str
    since: datetime
    """When it began, by the store's clock, as the leader of that time saw it."""
