"""A sketch: a fleet described in a file, to see in the simulator how it would behave.

`read` makes a `Sketch` of the text of a TOML file, or says what is wrong with it. What a sketch leaves out has the
default of a new fleet. `sim.tryout` runs it. Pure.
"""

import tomllib
from datetime import timedelta
from typing import Any

import msgspec

from rota.kit.time import durations
from rota.model.errors import Invalid
from rota.model.spec.checks import Check
from rota.resources.core.records import Affinity

LARGEST = 200
"""Nodes at most: each of them is simulated with all that it does."""


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes that are alike: `name`, or `name-1` and so on if there are several."""

    name: str
    count: int = 1
    slots: int = 16
    executors: int = 2
    labels: dict[str, str] = msgspec.field(default_factory=dict)

    def names(self) -> list[str]:
        """Each of them."""
        return [self.name] if self.count == 1 else [f"{self.name}-{number}" for number in range(1, self.count + 1)]


class ResourceGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resources of one kind that are alike."""

    name: str
    count: int = 1
    replicas: int = 1
    cost: int = 1
    priority: int = 0
    exclusive: bool = False
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class SketchedStream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream: its number of task groups, each with its replicas."""

    name: str
    tasks: int = 1
    replicas: int = 2
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class SketchedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job with its period, and how long a run of it takes."""

    name: str
    every: str = "1m"
    takes: str = "1s"
    concurrency: int | None = 1

    @property
    def seconds(self) -> float:
        """How long a run takes."""
        return durations.parse(self.takes).total_seconds()


class Sketch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fleet, and what it is to do."""

    lasts: str = "5m"
    """How much virtual time is simulated."""

    lease_ttl: str = "10s"
    rebalance: int = 0
    """Moves a minute to balance the nodes; 0: none."""

    nodes: list[NodeGroup]
    resources: list[ResourceGroup] = msgspec.field(default_factory=list)
    streams: list[SketchedStream] = msgspec.field(default_factory=list)
    jobs: list[SketchedJob] = msgspec.field(default_factory=list)

    @property
    def length(self) -> timedelta:
        """How much is simulated."""
        return durations.parse(self.lasts)

    @property
    def ttl(self) -> timedelta:
        """How long a silent node keeps what it has."""
        return durations.parse(self.lease_ttl)

    def node_names(self) -> list[str]:
        """All nodes."""
        return [name for group in self.nodes for name in group.names()]


def read(text: str, source: str) -> Sketch:
    """The sketch in a file's text; Invalid says what is wrong with it, and where."""
    try:
        found: dict[str, Any] = tomllib.loads(text)
        sketch = msgspec.convert(found, Sketch)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Invalid(f"{source}: {error}; docs/howto/try-a-fleet-in-the-simulator.md shows how to write it") from None
    try:
        _check(sketch)
    except (Invalid, ValueError) as error:
        raise Invalid(f"{source}: {error}") from None
    return sketch


def _check(sketch: Sketch) -> None:
    for kind, drawn in (("node", sketch.nodes), ("resource", sketch.resources), ("stream", sketch.streams)):
        for each in drawn:
            _check_part(Check(kind, each.name), each)
    for job in sketch.jobs:
        Check("job", job.name).name(job.name)
        durations.parse(job.every)
        durations.parse(job.takes)
    for wanted in sketch.resources:
        if unknown := wanted.affinity.keys() - set(Affinity.__struct_fields__):
            known = ", ".join(Affinity.__struct_fields__)
            Check("resource", wanted.name).fail(f'affinity "{min(unknown)}" is unknown; there are {known}')
    names = sketch.node_names()
    if twice := {name for name in names if names.count(name) > 1}:
        raise Invalid(f'node "{min(twice)}" is there twice; give the groups different names')
    if not 1 <= len(names) <= LARGEST:
        raise Invalid(f"there are {len(names)} nodes; draw 1 to {LARGEST}")
    if not timedelta(seconds=10) <= sketch.length <= timedelta(hours=2):
        raise Invalid(f"lasts is {sketch.lasts}; write 10s to 2h")
    if not timedelta(seconds=2) <= sketch.ttl <= timedelta(minutes=10):
        raise Invalid(f"lease_ttl is {sketch.lease_ttl}; write 2s to 10m")


def _check_part(check: Check, part: NodeGroup | ResourceGroup | SketchedStream) -> None:
    check.name(part.name)
    for option in ("count", "replicas", "cost", "tasks"):
        if hasattr(part, option):
            check.count(option, getattr(part, option))
