"""What the operations on resources answer, and how they read what they are asked.

`read_resource` and `read_changes` take fields as they come from JSON or a command line, about whose types nothing is
known, and return records or raise Invalid. Everything is JSON both ways; the answers are plain records, so that each
door can write them in its own form. Nothing here asks the store.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from rota.kit.record import replace
from rota.kit.time import durations
from rota.model.errors import Invalid
from rota.model.ids import NodeId, Revision
from rota.model.spec.checks import Check, did_you_mean
from rota.resources.core.records import (
    Affinity,
    CoverageState,
    KindRecord,
    ResourceRecord,
    ResourceStatus,
    WantedResource,
    state_of,
)
from rota.resources.core.spec import Resource

T = TypeVar("T", dict[str, Any], dict[str, str], Affinity)
LARGEST = 8 * 1024
"""Bytes of a spec, and of labels. The leader writes a hundred assignments in one commit, each with its spec."""

PRIORITY = 1_000_000
COST = 10_000
REPLICAS = 1000
CHANGEABLE = ("spec", "priority", "replicas", "cost", "labels", "pin", "tags", "affinity")
"""What may change in a resource's life, and what may be left out when it is made."""

FIELDS = ("kind", "id", *CHANGEABLE)


class ResourceView(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, its version, and how it is covered."""

    kind: str
    id: str
    uid: str
    version: Revision
    """The revision its record was last written at; what an update may expect."""

    created: datetime
    origin: str
    spec: dict[str, Any]
    priority: int
    replicas: int | None
    cost: int
    labels: dict[str, str]
    pin: NodeId | None
    tags: dict[str, str]
    affinity: Affinity
    status: ResourceStatus | None
    """None: no leader has looked at it yet."""

    state: CoverageState = CoverageState.UNSEEN
    """Whether its tasks are placed and run."""

    running: int | None = None
    """How many of its assigned tasks run, as far as nodes have reported that one fails; None: nobody knows yet."""

    def with_status(self, status: ResourceStatus | None) -> "ResourceView":
        """The same resource with this status."""
        return replace(self, status=status, state=state_of(status), running=status.running if status else None)

    @property
    def name(self) -> str:
        """Kind and id."""
        return f"{self.kind}/{self.id}"

    @property
    def is_pending(self) -> bool:
        """Has it fewer tasks than it should, as far as is known?"""
        return self.status is None or self.status.assigned < self.status.replicas


class ResourcePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some resources in the order of kind and id."""

    resources: tuple[ResourceView, ...]
    """The resources of this page."""

    revision: Revision
    """What they were read at."""

    next: str | None = None
    """The token to go on with; None: there are no more."""

    not_understood: dict[str, str] = msgspec.field(default_factory=dict)
    """Records that a newer Rota wrote, by kind and id, with what is wrong."""


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of resource, as an app declares it. Durations are written like `90s`."""

    name: str
    app: str
    replicas: int
    exclusive: bool
    runs_alone: bool
    silent_after: str
    start_within: str
    labels: dict[str, str]
    source_every: str | None
    source_timeout: str | None
    schema: dict[str, Any] | None
    no_schema: str
    affinity: Affinity


def kind_view(record: KindRecord) -> KindView:
    """A kind as it is shown."""
    return KindView(
        name=record.name,
        app=record.app,
        replicas=record.replicas,
        exclusive=record.exclusive,
        runs_alone=record.runs_alone,
        silent_after=durations.render(record.silent_after),
        start_within=durations.render(record.start_within),
        labels=record.labels,
        source_every=durations.render(record.source_every) if record.source_every else None,
        source_timeout=durations.render(record.source_timeout) if record.source_timeout else None,
        schema=record.schema,
        no_schema=record.no_schema,
        affinity=record.affinity,
    )


class KindPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some kinds of resources, in the order of the name."""

    kinds: tuple[KindView, ...]
    """The kinds of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""


def read_resource(fields: Mapping[str, object]) -> WantedResource:
    """The resource that these fields ask for; a field that is None counts as left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    kind, id = given.get("kind"), given.get("id")
    if "kind" not in given or "id" not in given:
        raise Invalid(f"a resource needs a kind and an id; {'kind' if kind is None else 'id'} is missing")
    check = Check(Check("kind", kind).name(kind), id)
    _only(check, given, FIELDS)
    if isinstance(id, str) and not id.isprintable():  # such as what is no Unicode at all, from a command line
        check.fail("an id holds printable characters only; choose another")
    spec = given.get("spec", {})
    if not isinstance(spec, dict):
        check.fail(f"spec is {_shown(spec)}; it must be an object, with the fields of its kind")
    priority = check.count("priority", given.get("priority", 0), least=-PRIORITY, most=PRIORITY)
    own = {name: given.get(name) for name in ("labels", "tags", "affinity")}
    with suppress(TypeError):  # it is not JSON, and parsing it says so
        _bounded(check, "spec", spec)  # before a large one is gone through
    parsed = Resource.parse(kind=str(kind), id=id, priority=priority, spec=spec, **own)
    return WantedResource(
        kind=parsed.kind,
        id=parsed.id,
        spec=parsed.spec,
        priority=parsed.priority,
        replicas=check.count("replicas", given["replicas"], most=REPLICAS) if "replicas" in given else None,
        cost=check.count("cost", given.get("cost", 1), most=COST),
        labels=_bounded(check, "labels", parsed.labels),
        pin=NodeId(check.text("pin", given["pin"])) if "pin" in given else None,
        tags=_bounded(check, "tags", parsed.tags),
        affinity=_bounded(check, "affinity", parsed.affinity),
    )


def read_changes(record: ResourceRecord, changes: Mapping[str, object]) -> ResourceRecord:
    """The record with some fields changed; None puts one back to its default."""
    check = Check(record.kind, record.id)
    if not changes:
        check.fail(f"nothing is to change; give at least one of {', '.join(CHANGEABLE)}")
    for name in ("kind", "id"):
        if name in changes:
            check.fail(f"{name} never changes; delete this resource and make another")
    _only(check, changes, CHANGEABLE)
    before = {name: getattr(record, name) for name in FIELDS}
    wanted = read_resource({**before, **changes})
    return replace(record, **{name: getattr(wanted, name) for name in CHANGEABLE})


def _only(check: Check, given: Mapping[str, object], known: tuple[str, ...]) -> None:
    """Raises Invalid naming the first unknown field."""
    for name in given:
        if name not in known:
            guess = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            check.fail(f'there is no field "{name}"{guess}', code="unknown_field")


def _bounded(check: Check, name: str, value: T) -> T:
    size = len(msgspec.json.encode(value))
    if size > LARGEST:
        check.fail(f"{name} has {size} bytes; at most {LARGEST} are kept with it: store the rest elsewhere and name it")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
