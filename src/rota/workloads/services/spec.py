"""What a user declares of a service and of its handlers. Pure.

A service listens; each request has a cmd, which says the handler and, through it, the group whose workers answer.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Self

import msgspec

from rota.model.errors import Invalid
from rota.workloads.checks import Check
from rota.workloads.services.admin_spec import AdminSpec
from rota.workloads.services.frames import BOX, Layout, wire
from rota.workloads.services.parcels import LARGEST_FRAME
from rota.workloads.services.routing import ByField, ByRange, ByWorker, Rule

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
"""Each hook, in the order they run, and what it is called with."""


class ServiceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A listener and its groups of workers."""

    name: str
    hosts: tuple[str, ...]
    port: int
    """0: any free one."""

    tcp: bool
    udp: bool
    groups: dict[int, int]
    """Group → how many workers."""

    concurrency: int
    """Requests a worker answers at a time."""

    timeout: timedelta | None
    """How long a request may take from its arrival, unless its handler says otherwise."""

    queue: int
    """Requests that may wait per group."""

    queue_bytes: int
    """Bytes of requests that may wait per group."""

    max_frame: int
    """Bytes of the longest frame that is taken."""

    client_timeout: timedelta | None
    """A connection without a request for so long is closed."""

    auto_answer_on_fail: bool
    """Answer requests that fail; otherwise their clients hear nothing."""

    layout: Layout
    """How its frames look."""

    rule: Rule | None
    """How requests find their group, if their handlers do not say it."""

    max_clients: int
    """Connections at a time."""

    proxies: int
    """Processes that serve its sockets; each has its share of every group's workers."""

    all_out_first: bool
    """On a reload, do all old workers of a group end before the first new one starts?"""

    admin: AdminSpec | None
    """Where the original control tool reaches it, if it may."""

    @classmethod
    def parse(
        cls,
        *,
        name: object,
        port: object,
        host: object = "127.0.0.1",
        tcp: object = True,
        udp: object = False,
        groups: object = None,
        concurrency: object = 1,
        timeout: object = None,
        queue: object = 1000,
        queue_bytes: object = 64 << 20,
        max_frame: object = 1 << 20,
        client_timeout: object = None,
        auto_answer_on_fail: object = True,
        frame: object = BOX,
        route: object = None,
        max_clients: object = 10_000,
        proxies: object = 1,
        all_out_first: object = False,
        admin: object = None,
        admin_username: object = None,
        admin_password: object = None,
    ) -> Self:
        """The declaration, checked."""
        check = Check(KIND, name)
        layout = _layout(check, frame)
        known = _groups(check, groups)
        spec = cls(
            name=check.name(name),
            hosts=_hosts(check, host),
            port=check.count("port", port, least=0, most=65535),
            tcp=check.flag("tcp", tcp),
            udp=check.flag("udp", udp),
            groups=known,
            concurrency=check.count("concurrency", concurrency),
            timeout=check.duration_or_none("timeout", timeout),
            queue=check.count("queue", queue),
            queue_bytes=check.count("queue_bytes", queue_bytes),
            max_frame=check.count("max_frame", max_frame, least=24, most=LARGEST_FRAME),
            client_timeout=check.duration_or_none("client_timeout", client_timeout),
            auto_answer_on_fail=check.flag("auto_answer_on_fail", auto_answer_on_fail),
            layout=layout,
            rule=_rule(check, route, layout, known),
            max_clients=check.count("max_clients", max_clients),
            proxies=check.count("proxies", proxies, most=64),
            all_out_first=check.flag("all_out_first", all_out_first),
            admin=AdminSpec.parse(check, admin=admin, username=admin_username, password=admin_password),
        )
        for group, count in spec.groups.items():
            if count < spec.proxies:
                check.fail(
                    f"group {group} has {count} workers for {spec.proxies} proxies; each proxy needs one of its own"
                )
        if not (spec.tcp or spec.udp):
            check.fail("it listens to neither tcp nor udp; switch one on")
        if spec.admin and spec.tcp and spec.admin.address in [(host, spec.port) for host in spec.hosts]:
            check.fail(f"admin is {spec.admin}, where its clients are served; choose another port")
        return spec


class HandlerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers one cmd, and how."""

    cmd: int
    group: int
    timeout: timedelta | None
    """How long its requests may take; None: as the service says."""

    idempotent: bool
    """May a request whose worker was lost run again?"""

    is_async: bool

    @classmethod
    def parse(
        cls,
        *,
        service: ServiceSpec,
        cmd: object,
        group: object = None,
        timeout: object = None,
        idempotent: object = False,
        is_async: bool,
    ) -> Self:
        """The declaration, checked against its service."""
        check = Check(KIND, service.name)
        number = check.count("cmd", cmd, least=-(1 << 31), most=(1 << 31) - 1)
        check = check.about(f"cmd {number}")
        return cls(
            cmd=number,
            group=_group_of(check, service, group),
            timeout=check.duration_or_none("timeout", timeout),
            idempotent=check.flag("idempotent", idempotent),
            is_async=is_async,
        )


def _hosts(check: Check, host: object) -> tuple[str, ...]:
    hosts = host if isinstance(host, list | tuple) else [host]
    if not hosts:
        check.fail("host is empty; write an address, like 127.0.0.1")
    return tuple(check.text("host", each) for each in hosts)


def _groups(check: Check, groups: object) -> dict[int, int]:
    if groups is None:
        return {1: 1}
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


def _rule(check: Check, route: object, layout: Layout, groups: Mapping[int, int]) -> Rule | None:
    match route:
        case None | ByWorker():
            return None
        case ByField(field=field):
            if field not in (names := [each.name for each in layout.fields]):
                check.fail(f"route: its frames have no field {field!r}; they have {', '.join(names)}")
            return route
        case ByRange(ranges=ranges):
            for first, last, group in ranges:
                if group not in groups:
                    check.fail(f"route: cmds {first}-{last} go to group {group}, which it does not have")
            return route
        case _:
            if not callable(route):
                check.fail(f"route is {route!r}; write rota.ByField, rota.ByRange or a function of a request")
            return ByWorker()


def _group_of(check: Check, service: ServiceSpec, group: object) -> int:
    known = ", ".join(map(str, service.groups))
    if group is None:
        if len(service.groups) > 1 and service.rule is None:
            check.fail(f"there are several groups; say which with group=, one of {known}")
        return next(iter(service.groups))
    if not isinstance(group, int) or isinstance(group, bool) or group not in service.groups:
        check.fail(f"group is {group!r}; the service has {known}: choose one, or add it to groups=")
    return group
