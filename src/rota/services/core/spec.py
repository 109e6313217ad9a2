"""What a user declares of a service and of its handlers. Pure.

A service listens; each request has a cmd, which says the handler and, through it, the group whose workers answer.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

import msgspec

from rota.model.errors import Invalid
from rota.model.spec.checks import Check
from rota.model.spec.option import DERIVED, Said, options_of
from rota.model.spec.reading import Own, read
from rota.services.core.admin_spec import ADMIN_OPTIONS, AdminSpec
from rota.services.core.frames import BOX, Layout, wire
from rota.services.core.parcels import LARGEST_FRAME
from rota.services.core.routing import ByField, ByRange, ByWorker, Rule

KIND = "service"

HOOKS: Mapping[str, tuple[str, ...]] = {
    "start_worker": (),
    "open_conn": (),
    "before_first_request": ("request",),
    "before_request": ("request",),
    "after_request": ("request", "error"),
    "before_response": ("request", "reply"),
    "after_response": ("request", "reply"),
    "close_conn": (),
    "stop_worker": (),
}
"""Each hook, in the order they run, and its arguments."""


class HandlerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The handler of one cmd, and its options."""

    cmd: Annotated[int, DERIVED]
    """The number of the request."""

    group: int
    """The group whose workers answer it."""

    timeout: timedelta | None = None
    """How long its requests may take; None: as the service says."""

    idempotent: bool = False
    """May a request whose worker was lost run again?"""

    is_async: Annotated[bool, DERIVED]


class ServiceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A listener and its groups of workers."""

    name: str
    """The name of the service."""

    port: Annotated[int, Said(least=0, most=65535)]
    """0: any free one."""

    hosts: Annotated[tuple[str, ...], Said(option="host")] = ("127.0.0.1",)
    """The addresses where it listens."""

    tcp: bool = True
    """Does it listen to TCP?"""

    udp: bool = False
    """Does it listen to UDP?"""

    groups: dict[int, int] = msgspec.field(default_factory=lambda: {1: 1})
    """Group → how many workers."""

    concurrency: int = 1
    """Requests a worker answers at a time."""

    timeout: timedelta | None = None
    """How long a request may take from its arrival, unless its handler says otherwise."""

    queue: int = 1000
    """Requests that may wait per group."""

    queue_bytes: int = 64 << 20
    """Bytes of requests that may wait per group."""

    max_frame: Annotated[int, Said(least=24, most=LARGEST_FRAME)] = 1 << 20
    """Bytes of the longest frame that is taken."""

    client_timeout: timedelta | None = None
    """A connection that sends no request for this time is closed."""

    auto_answer_on_fail: bool = True
    """Answer requests that fail; otherwise their clients hear nothing."""

    layout: Annotated[Layout, Said(option="frame")] = BOX
    """How its frames look."""

    rule: Annotated[Rule | None, Said(option="route")] = None
    """How requests find their group, if their handlers do not say it."""

    max_clients: int = 10_000
    """Connections at a time."""

    proxies: Annotated[int, Said(most=64)] = 1
    """Processes that serve its sockets; each has its share of every group's workers."""

    all_out_first: bool = False
    """On a reload, do all old workers of a group end before the first new one starts?"""

    admin: Annotated[AdminSpec | None, DERIVED] = None
    """Where the original control tool reaches it, if it may."""

    handlers: Annotated[tuple[HandlerSpec, ...], DERIVED] = ()
    """What it answers, once the whole app is declared."""

    has_loop: Annotated[bool, DERIVED] = False
    """Do its workers have an event loop? (A handler of its own is async.)"""

    def timeout_of(self, handler: HandlerSpec) -> timedelta | None:
        """How long requests of a handler may take; None: there is no limit."""
        return handler.timeout or self.timeout


OPTIONS = (*(option.name for option in options_of(ServiceSpec)), *ADMIN_OPTIONS)
"""The options of a service."""


def read_service(options: Mapping[str, object]) -> ServiceSpec:
    """The service that an app declares with these options."""
    check = Check(KIND, options.get("name"))
    check.options(options, OPTIONS)
    own = {name: value for name, value in options.items() if name not in ADMIN_OPTIONS}
    admin = AdminSpec.parse(check, **{name: options.get(name) for name in ADMIN_OPTIONS})
    spec = read(ServiceSpec, check, own, own=_OWN, admin=admin)
    _check_rule(check, spec)
    for group, count in spec.groups.items():
        if count < spec.proxies:
            check.fail(f"group {group} has {count} workers for {spec.proxies} proxies; each proxy needs one of its own")
    if not (spec.tcp or spec.udp):
        check.fail("it listens to neither tcp nor udp; switch one on")
    if spec.admin and spec.tcp and spec.admin.address in [(host, spec.port) for host in spec.hosts]:
        check.fail(f"admin is {spec.admin}, where its clients are served; choose another port")
    return spec


def read_handler(service: ServiceSpec, cmd: object, options: Mapping[str, object], *, is_async: bool) -> HandlerSpec:
    """What an app declares, with these options, to answer a cmd of the service."""
    check = Check(KIND, service.name)
    number = check.count("cmd", cmd, least=-(1 << 31), most=(1 << 31) - 1)
    own: Own = {"group": lambda check, group: _group_of(check, service, group)}
    said = {"group": None, **options}
    return read(HandlerSpec, check.about(f"cmd {number}"), said, own=own, cmd=number, is_async=is_async)


def _hosts(check: Check, host: object) -> tuple[str, ...]:
    hosts = host if isinstance(host, list | tuple) else [host]
    if not hosts:
        check.fail("host is empty; write an address, like 127.0.0.1")
    return tuple(check.text("host", each) for each in hosts)


def _groups(check: Check, groups: object) -> dict[int, int]:
    if not isinstance(groups, Mapping) or not groups:
        check.fail(f"groups is {groups!r}; write how many workers each group has, like {{1: 8, 2: 2}}")
    for group in groups:
        if not isinstance(group, int) or isinstance(group, bool):
            check.fail(f"groups has the group {group!r}; groups are whole numbers")
    return {group: check.count(f"groups[{group}]", count) for group, count in groups.items()}


def _layout(check: Check, frame: object) -> Layout:
    if not isinstance(frame, Layout):
        check.fail(f"frame is {frame!r}; write rota.BOX, rota.MAPLE_TASK or a rota.Layout of your own")
    try:
        wire(frame)
    except Invalid as error:
        check.fail(str(error))
    return frame


def _rule(check: Check, route: object) -> Rule:
    if isinstance(route, ByField | ByRange):
        return route
    if not callable(route):
        check.fail(f"route is {route!r}; write rota.ByField, rota.ByRange or a function of a request")
    return ByWorker()


def _check_rule(check: Check, spec: ServiceSpec) -> None:
    match spec.rule:
        case ByField(field=field):
            if field not in (names := [each.name for each in spec.layout.fields]):
                check.fail(f"route: its frames have no field {field!r}; they have {', '.join(names)}")
        case ByRange(ranges=ranges):
            for first, last, group in ranges:
                if group not in spec.groups:
                    check.fail(f"route: cmds {first}-{last} go to group {group}, which it does not have")


def _group_of(check: Check, service: ServiceSpec, group: object) -> int:
    known = ", ".join(map(str, service.groups))
    if group is None:
        if len(service.groups) > 1 and service.rule is None:
            check.fail(f"there are several groups; say which with group=, one of {known}")
        return next(iter(service.groups))
    if not isinstance(group, int) or isinstance(group, bool) or group not in service.groups:
        check.fail(f"group is {group!r}; the service has {known}: choose one, or add it to groups=")
    return group


_OWN: Own = {"host": _hosts, "groups": _groups, "frame": _layout, "route": _rule}
