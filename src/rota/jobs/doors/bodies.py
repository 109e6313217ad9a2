"""What the bodies of requests on jobs and runs carry."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

import msgspec

from rota.doors.bodies import Body, Duration
from rota.jobs.core.spec import PROGRAM


def _job_fields() -> Iterator[tuple[str, Any] | tuple[str, Any, None]]:
    """A field for each option of a job that runs a program."""
    shown: Mapping[Any, Any] = {timedelta: Duration, tuple[str, ...]: list[str]}
    for option in PROGRAM:
        kind = shown.get(option.type, option.type)
        if option.name == "argv":
            yield option.name, kind
        else:
            yield option.name, kind | None, None


JobBody = msgspec.defstruct(
    "JobBody",
    _job_fields(),
    bases=(Body,),
    module=__name__,
    namespace={
        "__doc__": "A job that runs a program. A field that is null counts as left out.",
        "example": {"argv": ["backup", "--all"], "cron": "0 3 * * *", "timeout": "1h", "retries": 2},
    },
    frozen=True,
    kw_only=True,
)


class RunBody(Body, frozen=True, kw_only=True):
    """What a run is given."""

    example: ClassVar[dict[str, Any]] = {"payload": {"day": "2026-01-31"}}

    payload: Any = None
    """Any JSON value of at most 64 KiB; the function finds it in its run."""


class BackfillBody(Body, frozen=True, kw_only=True):
    """Which due times get runs."""

    example: ClassVar[dict[str, Any]] = {"first": "2026-01-01T00:00:00Z", "last": "2026-01-31T00:00:00Z"}

    first: datetime
    """The first due time that may get a run."""

    last: datetime
    """The last due time that may get a run."""

    force: bool = False
    """Also for due times that have a run already."""
