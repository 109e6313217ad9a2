"""A service's table: all that its proxy must know of it. Pure.

It is plain data, made from what the app declares, and pushed whole whenever something changes. During a reload two
generations of an app are there at once; `merged` is the table used meanwhile: a cmd follows the new declaration as soon
as the workers of its group are of the new generation.
"""

from collections.abc import Mapping

import msgspec

from rota.services.core.frames import BOX, Layout
from rota.services.core.routing import ROUTER, ByField, Rule

BENCHMARK = (10, 50, 100, 500, 1000, 5000)
"""Milliseconds below which requests are counted, as the original does."""


class CmdRoute(msgspec.Struct, frozen=True):
    """How the requests of one cmd are handled."""

    group: int
    timeout: float | None = None
    """Seconds it may take from its arrival."""

    is_idempotent: bool = False


class Table(msgspec.Struct, frozen=True):
    """One service, as its proxy serves it."""

    service: str
    groups: dict[int, int]
    """Group → the generation whose workers get requests."""

    routes: dict[int, CmdRoute]
    rule: Rule | None = None
    """How groups are chosen, if not by cmd alone."""

    layout: Layout = BOX
    queue: int = 1000
    queue_bytes: int = 64 << 20
    max_frame: int = 1 << 20
    max_clients: int = 10_000
    client_timeout: float | None = None
    answers_failures: bool = True


def active(now: int, target: int, ready: Mapping[int, int], wanted: int) -> int:
    """The generation whose workers should have a group's requests: `target` when all of its workers are ready.

    If no other generation serves the group, some ready workers are enough. `now` is the one that has the requests so
    far, 0 if none has.
    """
    there = ready.get(target, 0)
    return target if there and (there >= wanted or not ready.get(now, 0)) else now


def merged(old: Table, new: Table, target: int) -> Table:
    """What holds while workers of generation `target` take over: each group, and what is routed to it, at its own time.

    A rule is about all groups, and changes when the last one has; until then equal fields go where they went. A new
    routing function may name any group of its generation, so it takes over when all of them are served. Frames of
    another layout can be read by one generation only, so then nothing changes before everything can.
    """
    if all(generation == target for generation in new.groups.values()):
        return new
    if old.layout != new.layout:
        return old
    has_flipped = {group for group, generation in new.groups.items() if generation == target} - {ROUTER}
    if isinstance(old.rule, ByField):
        has_flipped &= old.groups.keys()
    if new.groups.get(ROUTER) == target and new.groups.keys() <= old.groups.keys() | has_flipped:
        has_flipped.add(ROUTER)
    kept = {group: generation for group, generation in old.groups.items() if group not in has_flipped}
    moved = {cmd: route for cmd, route in new.routes.items() if route.group in has_flipped}
    # A cmd whose new group is not there yet stays where it is: the workers there know it in either generation.
    stayed = {cmd: route for cmd, route in old.routes.items() if cmd in new.routes or route.group in kept}
    return msgspec.structs.replace(
        new, groups=kept | dict.fromkeys(has_flipped, target), routes=stayed | moved, rule=old.rule
    )
