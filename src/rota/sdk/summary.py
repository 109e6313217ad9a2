"""An app as data: what the agent, which never imports a user's code, must know about it.

The loader makes one from the app it imported and sends it up as JSON; `decode(encode(summary)) == summary`. Both ends
are of one Rota, so there is no version in it.
"""

from datetime import timedelta

import msgspec

from rota.jobs.core.records import JobSpec
from rota.model.errors import Invalid
from rota.resources.core.spec import ResourceSpec
from rota.services.core.spec import ServiceSpec
from rota.streams.core.records import kind_of
from rota.streams.core.spec import StreamSpec

PATIENCE = timedelta(seconds=30)
"""Of a stream's kind. The leader follows what the tasks report themselves."""


class AppSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an app declares."""

    name: str
    start: str
    """How its workers are made: `fork` or `spawn`."""

    resources: tuple[ResourceSpec, ...] = ()
    services: tuple[ServiceSpec, ...] = ()
    jobs: tuple[JobSpec, ...] = ()
    commands: tuple[JobSpec, ...] = ()
    streams: tuple[StreamSpec, ...] = ()

    @property
    def kinds(self) -> tuple[ResourceSpec, ...]:
        """The kinds whose tasks the leader places: kinds of resources, and streams, whose groups are resources too."""
        return (*self.resources, *map(_kind_of_stream, self.streams))


def _kind_of_stream(stream: StreamSpec) -> ResourceSpec:
    return ResourceSpec(
        name=kind_of(stream.name),
        replicas=stream.replicas,
        is_async=stream.is_async,
        runs_alone=True,
        silent_after=PATIENCE,
        start_within=PATIENCE,
        labels=stream.labels,
    )


def encode(summary: AppSummary) -> bytes:
    """The summary as JSON."""
    return msgspec.json.encode(summary)


def decode(data: bytes) -> AppSummary:
    """The summary in `data`."""
    try:
        return msgspec.json.decode(data, type=AppSummary)
    except msgspec.MsgspecError as error:
        raise Invalid(f"this is no summary of an app ({error}); is the loader of the same Rota as the agent?") from None
