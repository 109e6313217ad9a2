"""Hooks: what the fleet does when something happens, and what is still to be delivered."""

from datetime import datetime, timedelta

import msgspec

from rota.model.codec import stored
from rota.model.event import Event
from rota.model.ids import NodeId, Revision


@stored()
class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """Call a URL or run a command for each event of some kinds."""

    name: str
    """The name of the hook."""

    events: list[str]
    """Kinds of events; `*` stands for anything."""

    url: str = ""
    """What is called; empty if a command is run."""

    command: list[str] = msgspec.field(default_factory=list)
    """The command, run on the node that delivers the event; empty if a URL is called."""

    timeout: timedelta = timedelta(seconds=10)
    """How long one try may take."""

    retries: int = 5
    """How many retries it gets."""

    per_minute: int = 60
    """How many events it takes in a minute; more than that wait."""

    enabled: bool = True
    """Is it on? While it is off, events are not kept for it."""

    created: datetime
    """When it was made."""


@stored()
class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to one hook."""

    hook: str
    event: Event
    due: datetime
    """When to try it, by the store's clock; during an attempt, when another node may take it for lost."""

    attempts: int = 0
    by: NodeId | None = None
    """The node that tried it last."""

    @property
    def id(self) -> str:
        """The same at every attempt, so that a receiver recognises a repeat."""
        return f"{self.event.id}/{self.hook}"


class HookFailure(msgspec.Struct, frozen=True):
    """Why a try to deliver failed."""

    why: str
    """Why, for every caller that may read hooks: it contains no output of the hook or of what it called."""

    output: str = ""
    """The end of what a command printed, where there may be a secret; for admins."""


@stored()
class HookStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a hook's deliveries."""

    delivered: int = 0
    """Events that were delivered."""

    failed: int = 0
    """Given up after all tries."""

    last: str = ""
    """The id of the event that came to an end last."""

    last_at: datetime | None = None
    """When that was."""

    error: str = ""
    """Why that one was given up; empty if it was delivered."""

    output: str = ""
    """The end of what its command printed then; shown to admins alone."""


@stored()
class HookCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where events have been looked at for hooks. It only grows."""

    revision: Revision
    paces: dict[str, datetime] = msgspec.field(default_factory=dict)
    """By hook, when its pace lets it have taken all its deliveries."""
