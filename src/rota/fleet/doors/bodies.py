"""What the bodies of requests on nodes, their services, hooks and tokens carry."""

from typing import Any, ClassVar

import msgspec

from rota.doors.bodies import Body
from rota.fleet.core.access.token import Access


class DrainBody(Body, frozen=True, kw_only=True):
    """Why a node is drained, and by when."""

    example: ClassVar[dict[str, Any]] = {"why": "kernel update", "deadline": "10m"}

    why: str | None = None
    """The reason, for people: at most 200 printable characters."""

    deadline: str | None = None
    """How long tasks may take to move; what is still there afterwards is stopped. A duration; null: no deadline."""


class SlotsBody(Body, frozen=True, kw_only=True):
    """How many slots a node has."""

    example: ClassVar[dict[str, Any]] = {"slots": 20}
    refusals: ClassVar[dict[str, str]] = {
        "slots": 'node "{node}": nothing is to change; give slots, or null for as many as its settings say'
    }

    slots: int | None
    """From 0 to 1,000,000; null: as the node's settings say."""


class ClearBody(Body, frozen=True, kw_only=True):
    """Which requests are dropped."""

    example: ClassVar[dict[str, Any]] = {"groups": [1]}
    refusals: ClassVar[dict[str, str]] = {"groups": "groups must be a list of numbers; leave it out for all groups"}

    groups: list[int] | None = None
    """The groups whose waiting requests are dropped; null: all groups."""


class ResizeBody(Body, frozen=True, kw_only=True):
    """How many workers a group has."""

    example: ClassVar[dict[str, Any]] = {"group": 1, "count": 4}

    group: int
    """The number of the group."""

    count: int
    """How many workers it has until the next reload."""


class HookBody(Body, frozen=True, kw_only=True):
    """A hook that is to be made: either `url` or `command`."""

    example: ClassVar[dict[str, Any]] = {"name": "pager", "events": ["node.*"], "url": "https://example.org/rota"}

    name: str
    events: list[str]
    url: str | None = None
    command: list[str] | None = None
    timeout: str | None = None
    """How long one try may take, from 100ms to 5m. A duration; null: 10s."""

    retries: int | None = None
    per_minute: int | None = None
    enabled: bool | None = None


class EnableHookBody(Body, frozen=True, kw_only=True):
    """Whether a hook is on."""

    example: ClassVar[dict[str, Any]] = {"enabled": False}
    refusals: ClassVar[dict[str, str]] = {
        "enabled": 'hook "{name}": enabled must be true or false, and is all that can change'
    }

    enabled: bool
    """Is it on?"""


class TokenBody(Body, frozen=True, kw_only=True):
    """A token that is to be made."""

    example: ClassVar[dict[str, Any]] = {"name": "web", "role": "operate", "expires_in": "90d"}

    name: str
    role: Access
    """What it allows; not more than the caller's own token does."""

    expires_in: str | None = None
    """How long it is valid. A duration; null: until it is revoked."""


class RotateBody(Body, frozen=True, kw_only=True):
    """How a token is replaced."""

    example: ClassVar[dict[str, Any]] = {"keep_old": "1h"}

    keep_old: str | None = None
    """How long the token before is accepted too. A duration; null: not at all."""

    expires_in: str | None = None
    """How long the new one is valid. A duration; null: as long as the one before was."""


class LabelsBody(Body, frozen=True, kw_only=True):
    """Labels that a node gets and loses."""

    example: ClassVar[dict[str, Any]] = {"labels": {"zone": "b", "gpu": None}}
    is_needed: ClassVar[bool] = True

    labels: dict[str, str | None] = msgspec.field(default_factory=dict)
    """By name; null takes a label away, also one of the node's settings. What is not named stays."""

    reset: bool = False
    """Undo first all that was set before, so that only the node's settings count."""
