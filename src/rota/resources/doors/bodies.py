"""What the bodies of requests on resources carry."""

from typing import Any, ClassVar

import msgspec

from rota.doors.bodies import Body


class NameBody(msgspec.Struct, frozen=True, kw_only=True):
    """A resource by its name alone; other fields are ignored."""

    example: ClassVar[dict[str, Any]] = {"name": "task-1"}

    name: str
    """The id of the resource."""


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """An empty object."""


class SyncBody(Body, frozen=True, kw_only=True):
    """How the source of a kind is asked."""

    example: ClassVar[dict[str, Any]] = {"force": False}

    force: bool = False
    """Apply the list however much it drops."""

    no_wait: bool = False
    """Answer at once, before the source is asked."""
