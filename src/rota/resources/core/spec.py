"""What a user declares of a resource kind, of its source, and of one resource. Pure.

`ResourceSpec` says how every resource of a kind is covered, and its fields are the options; `SourceSpec` where the list
of them comes from; `Resource` is one of them, as a source, the API or a file gives it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Self

import msgspec

from rota.model import adapters
from rota.model.spec.checks import Check, did_you_mean
from rota.model.spec.option import DERIVED, Said
from rota.model.spec.reading import Own, read
from rota.resources.core.records import NO_AFFINITY, Affinity, KindRecord

KIND = "resource"
SINKS = ("amqp", "amqps", "kafka", "file", "stdout", "memory")
"""Where emitted messages may go."""


class ResourceSpec(KindRecord, frozen=True, kw_only=True):
    """A kind of resource as its app declares it: what the store keeps of it, and what only the app's node knows."""

    sink: str | None = None
    """URL of where messages go; None: where the node's configuration says."""

    is_async: Annotated[bool, DERIVED]

    def record(self, app: str) -> KindRecord:
        """What the store keeps of it, as a kind of that app."""
        kept = {name: getattr(self, name) for name in KindRecord.__struct_fields__}
        return KindRecord(**{**kept, "app": app})


def read_kind(options: Mapping[str, object], *, is_async: bool) -> ResourceSpec:
    """The kind that an app declares with these options."""
    check = Check(KIND, options.get("name"))
    runs_alone = bool(options.get("exclusive")) or not is_async
    spec = read(ResourceSpec, check, options, own=_OWN, is_async=is_async, runs_alone=runs_alone)
    if spec.exclusive and spec.replicas > 1:
        check.fail(f"it is exclusive, and replicas is {spec.replicas}; an exclusive resource has one task: choose one")
    return spec


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the list of a kind's resources comes from."""

    every: Annotated[timedelta, Said(least=timedelta(seconds=1))] = timedelta(minutes=30)
    """How long until it is asked again."""

    timeout: timedelta = timedelta(seconds=60)
    """How long it may take to list them."""

    is_async: Annotated[bool, DERIVED]


def read_source(kind: str, options: Mapping[str, object], *, is_async: bool) -> SourceSpec:
    """The source that an app declares for a kind."""
    return read(SourceSpec, Check("source of resource", kind), options, is_async=is_async)


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
    """Tags that other resources can name in their affinity."""

    affinity: Affinity = NO_AFFINITY
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    """What its function is given. JSON."""

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


def _sink(check: Check, value: object) -> str:
    return check.url("sink", value, SINKS, adapters.SINKS)


_OWN: Own = {"sink": _sink, "affinity": parse_affinity}


def _plain(check: Check, spec: Mapping[str, object]) -> dict[str, Any]:
    """The spec as JSON would bring it back, so that a test sees what a fleet sees."""
    try:
        plain: dict[str, Any] = msgspec.to_builtins(spec, str_keys=True)
        msgspec.json.encode(plain)
    except TypeError as error:
        check.fail(f"its fields must be plain data that JSON can hold ({error})")
    return plain
