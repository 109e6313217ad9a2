"""What a user declares of a service and of its handlers. Pure.

A service listens; each request has a cmd, which says the handler and, through it, the group whose workers answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from rota.workloads.checks import Check

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


@dataclass(frozen=True, kw_only=True)
class ServiceSpec:
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

    max_frame: int
    """Bytes of the longest frame that is taken."""

    client_timeout: timedelta | None
    """A connection without a request for so long is closed."""

    auto_answer_on_fail: bool
    """Answer requests that fail; otherwise their clients hear nothing."""

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
        max_frame: object = 1 << 20,
        client_timeout: object = None,
        auto_answer_on_fail: object = True,
    ) -> Self:
        """The declaration, checked."""
        check = Check(KIND, name)
        spec = cls(
            name=check.name(name),
            hosts=_hosts(check, host),
            port=check.count("port", port, least=0, most=65535),
            tcp=check.flag("tcp", tcp),
            udp=check.flag("udp", udp),
            groups=_groups(check, groups),
            concurrency=check.count("concurrency", concurrency),
            timeout=check.duration_or_none("timeout", timeout),
            queue=check.count("queue", queue),
            max_frame=check.count("max_frame", max_frame, least=24),
            client_timeout=check.duration_or_none("client_timeout", client_timeout),
            auto_answer_on_fail=check.flag("auto_answer_on_fail", auto_answer_on_fail),
        )
        if not (spec.tcp or spec.udp):
            check.fail("it listens to neither tcp nor udp; switch one on")
        return spec


@dataclass(frozen=True, kw_only=True)
class HandlerSpec:
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


def _group_of(check: Check, service: ServiceSpec, group: object) -> int:
    known = ", ".join(map(str, service.groups))
    if group is None:
        if len(service.groups) > 1:
            check.fail(f"there are several groups; say which with group=, one of {known}")
        return next(iter(service.groups))
    if not isinstance(group, int) or isinstance(group, bool) or group not in service.groups:
        check.fail(f"group is {group!r}; the service has {known}: choose one, or add it to groups=")
    return group
