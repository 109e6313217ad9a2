"""An app in data: what the agent, which never imports a user's code, must know of it.

The loader makes one from the app it imported and sends it up as JSON; `decode(encode(summary)) == summary`. Both ends
are of one Rota, so there is no version in it.
"""

from datetime import timedelta

import msgspec

from rota.model.errors import Invalid
from rota.model.job import JobSpec
from rota.model.stream import kind_of
from rota.workloads.resources.spec import ResourceSpec
from rota.workloads.services.admin_spec import AdminSpec
from rota.workloads.services.frames import BOX, Layout
from rota.workloads.services.routing import Rule
from rota.workloads.streams.spec import StreamSpec

PATIENCE = timedelta(seconds=30)
"""Of a stream's kind. The leader goes by what the tasks say themselves."""


class ServiceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A listener."""

    name: str
    hosts: tuple[str, ...]
    port: int
    tcp: bool
    udp: bool
    groups: dict[str, int]
    """Group → how many workers."""

    routes: dict[str, str]
    """Cmd → group."""

    timeouts: dict[str, timedelta]
    """Cmd → how long its requests may take; those without a limit are left out."""

    idempotent: tuple[int, ...]
    """Cmds whose requests may run again when their worker was lost."""

    concurrency: int
    queue: int
    max_frame: int
    client_timeout: timedelta | None
    auto_answer_on_fail: bool
    layout: Layout = BOX
    rule: Rule | None = None
    queue_bytes: int = 64 << 20
    max_clients: int = 10_000
    proxies: int = 1
    all_out_first: bool = False
    has_loop: bool = False
    """Do its workers have an event loop? (A handler of its own is async.)"""

    admin: AdminSpec | None = None
    """Where the original control tool reaches it, if it may."""


class AppSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an app declares."""

    name: str
    start: str
    """How its workers are made: `fork` or `spawn`."""

    resources: tuple[ResourceSpec, ...] = ()
    services: tuple[ServiceSummary, ...] = ()
    jobs: tuple[JobSpec, ...] = ()
    commands: tuple[JobSpec, ...] = ()
    streams: tuple[StreamSpec, ...] = ()

    @property
    def kinds(self) -> tuple[ResourceSpec, ...]:
        """What the leader places tasks of: kinds of resources, and streams, whose groups are resources too."""
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
