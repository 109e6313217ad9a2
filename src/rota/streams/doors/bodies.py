"""What the bodies of requests on streams carry."""

from typing import Any, ClassVar

import msgspec

from rota.doors.bodies import Body


class ScaleBody(Body, frozen=True, kw_only=True):
    """How many task groups a stream has."""

    example: ClassVar[dict[str, Any]] = {"tasks": 4}
    refusals: ClassVar[dict[str, str]] = {
        "tasks": "tasks is missing; say how many, or null for as many as are declared"
    }

    tasks: int | None
    """From 1 to 10,000; null: as many as are declared."""


class HandOffBody(Body, frozen=True, kw_only=True):
    """Which groups end and publish now."""

    example: ClassVar[dict[str, Any]] = {"groups": [0]}
    refusals: ClassVar[dict[str, str]] = {
        "groups": "groups must be a list of numbers, like [0, 1]; leave it out for all"
    }

    groups: list[int] = msgspec.field(default_factory=list)
    """The numbers of the groups; none: all of them."""


class ResetBody(Body, frozen=True, kw_only=True):
    """Where a stream goes on."""

    example: ClassVar[dict[str, Any]] = {"to": "latest", "backfill": True}

    to: str | None = None
    """`earliest`, `latest` or a time; null: where a new stream would begin."""

    backfill: bool = False
    """Is what is left out read by another stream, into the same output?"""


class ResetOffsetsBody(Body, frozen=True, kw_only=True):
    """Where partitions go on."""

    example: ClassVar[dict[str, Any]] = {"offsets": {"0": 120, "1": "earliest"}}
    refusals: ClassVar[dict[str, str]] = {
        "offsets": 'offsets must be an object from partitions to places, like {"0": 120, "1": "earliest"}'
    }

    offsets: dict[str, int | str]
    """Partition → an offset, `earliest`, `latest` or a time."""
