"""What a user declares of a resource kind, of its source, and of one resource. Pure.

`ResourceSpec` says how every resource of a kind is covered; `SourceSpec` where the list of them comes from; `Resource`
is one of them, as a source, the API or a file gives it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

import msgspec

from rota.model import adapters
from rota.model.resource import NO_AFFINITY, Affinity
from rota.workloads.checks import Check, did_you_mean

KIND = "resource"
SINKS = ("amqp", "amqps", "kafka", "file", "stdout", "memory")
"""Where emitted messages may go."""


class ResourceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of resource."""

    name: str
    replicas: int
    """Tasks that hold each resource, on distinct nodes."""

    exclusive: bool
    """Never two tasks of one resource at a time: stop, confirm, start."""

    silent_after: timedelta
    """A task without a sign of life for so long is placed again."""

    start_within: timedelta
    """How long a task may take to its first sign of life."""

    sink: str | None
    """URL of where messages go; None: where the node's configuration says."""

    labels: dict[str, str]
    """What a node must be labelled with to hold such a task."""

    affinity: Affinity
    is_async: bool

    @property
    def runs_alone(self) -> bool:
        """Does each task have a process of its own?"""
        return self.exclusive or not self.is_async

    @classmethod
    def parse(
        cls,
        *,
        name: object,
        replicas: object = 1,
        exclusive: object = False,
        silent_after: object = "30s",
        start_within: object = "30s",
        sink: object = None,
        labels: object = None,
        affinity: object = None,
        is_async: bool,
    ) -> Self:
        """The declaration, checked."""
        check = Check(KIND, name)
        spec = cls(
            name=check.name(name),
            replicas=check.count("replicas", replicas),
            exclusive=check.flag("exclusive", exclusive),
            silent_after=check.duration("silent_after", silent_after, least=timedelta(seconds=1)),
            start_within=check.duration("start_within", start_within, least=timedelta(seconds=1)),
            sink=check.url_or_none("sink", sink, SINKS, adapters.SINKS),
            labels=check.labels("labels", labels),
            affinity=parse_affinity(check, affinity),
            is_async=is_async,
        )
        if spec.exclusive and spec.replicas > 1:
            check.fail(f"it is exclusive, and replicas is {replicas}; an exclusive resource has one task: choose one")
        return spec


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the list of a kind's resources comes from."""

    every: timedelta
    """How long until it is asked again."""

    timeout: timedelta
    """How long it may take to list them."""

    is_async: bool

    @classmethod
    def parse(cls, *, kind: str, every: object = "30m", timeout: object = "60s", is_async: bool) -> Self:
        """The declaration, checked."""
        check = Check("source of resource", kind)
        return cls(
            every=check.duration("every", every, least=timedelta(seconds=1)),
            timeout=check.duration("timeout", timeout),
            is_async=is_async,
        )


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to keep covered."""

    kind: str
    id: str
    priority: int = 0
    """Higher is covered first when there are too few slots."""

    replicas: int | None = None
    """Tasks for this one; None: as its kind says."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What its nodes must be labelled with, beside what its kind says."""

    tags: dict[str, str] = msgspec.field(default_factory=dict)
    """What others can name it by in their affinity."""

    affinity: Affinity = NO_AFFINITY
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    """What its function is told about it. JSON."""

    @classmethod
    def parse(
        cls,
        *,
        kind: str,
        id: object,
        priority: object = 0,
        replicas: object = None,
        labels: object = None,
        tags: object = None,
        affinity: object = None,
        spec: Mapping[str, object],
    ) -> Self:
        """The resource, checked; its spec is left to `decode` of its kind."""
        check = Check(kind, id)
        if not isinstance(id, str) or not id:
            check.fail(f"the id is {id!r}; it must be a str that is not empty")
        if len(id.encode()) > 200 or not id.isprintable() or "/" in id:
            check.fail('an id has at most 200 bytes, all printable, and no "/"; choose another')
        if not isinstance(priority, int) or isinstance(priority, bool):
            check.fail(f"priority is {priority!r}; it must be a whole number")
        return cls(
            kind=kind,
            id=id,
            priority=priority,
            replicas=None if replicas is None else check.count("replicas", replicas),
            labels=check.labels("labels", labels),
            tags=check.labels("tags", tags),
            affinity=parse_affinity(check, affinity),
            spec=_plain(check, spec),
        )


def parse_affinity(check: Check, value: object) -> Affinity:
    """What is asked of the nodes beyond what they must have, checked: an Affinity, or a dict of its fields."""
    if value is None or isinstance(value, Affinity):
        return value or NO_AFFINITY
    if not isinstance(value, Mapping):
        check.fail(f'affinity is {value!r}; write a dict, like {{"apart": {{"customer": "acme"}}}}')
    known = Affinity.__struct_fields__
    for name in value:
        if name not in known:
            guess = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            check.fail(f'affinity has no field "{name}"{guess}')
    return Affinity(**{name: check.labels(f"affinity: {name}", pairs) for name, pairs in value.items()})


def _plain(check: Check, spec: Mapping[str, object]) -> dict[str, Any]:
    """The spec as JSON would bring it back, so that a test sees what a fleet sees."""
    try:
        plain: dict[str, Any] = msgspec.to_builtins(spec, str_keys=True)
        msgspec.json.encode(plain)
    except TypeError as error:
        check.fail(f"its fields must be plain data that JSON can hold ({error})")
    return plain
