"""A service's table: all that its proxy must know of it. Pure.

It is plain data, made from what the app declares, and pushed whole whenever something changes. During a reload two
generations of an app are there at once; `merged` says what holds meanwhile: a cmd goes by the new declaration as soon
as the workers of its group are of the new generation.
"""

import msgspec

from rota.workloads.services.frames import BOX, Layout
from rota.workloads.services.routing import Rule

BENCHMARK = (10, 50, 100, 500, 1000, 5000)
"""Milliseconds below which requests are counted, as the original does."""


class Route(msgspec.Struct, frozen=True):
    """What becomes of a cmd."""

    group: int
    timeout: float | None = None
    """Seconds it may take from its arrival."""

    is_idempotent: bool = False


class Table(msgspec.Struct, frozen=True):
    """One service, as its proxy serves it."""

    service: str
    groups: dict[int, int]
    """Group → the generation whose workers get requests."""

    routes: dict[int, Route]
    rule: Rule | None = None
    """How groups are chosen, if not by cmd alone."""

    layout: Layout = BOX
    queue: int = 1000
    max_frame: int = 1 << 20
    max_clients: int = 10_000
    client_timeout: float | None = None
    answers_failures: bool = True


def merged(old: Table, new: Table, target: int) -> Table:
    """What holds while workers of generation `target` take over: each group, and what is routed to it, at its own time.

    A rule, being about all groups, changes when the last one has.
    """
    if all(generation == target for generation in new.groups.values()):
        return new
    has_flipped = {group for group, generation in new.groups.items() if generation == target}
    kept = {group: old.groups[group] for group in old.groups if group not in has_flipped}
    waiting = {group: new.groups[group] for group in has_flipped}
    moved = {cmd: route for cmd, route in new.routes.items() if route.group in has_flipped}
    stayed = {cmd: route for cmd, route in old.routes.items() if cmd not in moved and route.group in kept}
    return msgspec.structs.replace(new, groups={**kept, **waiting}, routes={**stayed, **moved}, rule=old.rule)
