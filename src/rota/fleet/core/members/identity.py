"""Fleet: does a node belong to the fleet whose store it has opened?

Two fleets on one store would merge: each would place its tasks on the other's nodes, which run other code under the
same names. So the store says whose it is. A fleet is known by the name that the `fleet` setting gives it, or else by
the name of its app. The token is no part of that: it may be changed while nodes run.

Pure. `fleet.members.identity` reads and writes the record.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

import msgspec

from rota.kit.record import replace
from rota.model.node import FleetRecord


class FleetClaim(msgspec.Struct, frozen=True):
    """What a node says of the fleet it belongs to."""

    fleet: str | None = None
    """The name that its settings give; None if they give none."""

    app: str | None = None
    """The name of its app; None if it runs none."""


class StoreFacts(msgspec.Struct, frozen=True):
    """What else the store says."""

    apps: frozenset[str] = frozenset()
    """Apps whose nodes were here before fleets had a record."""

    nodes: tuple[str, ...] = ()
    """Other nodes that are members now."""


class AdmittedNode(msgspec.Struct, frozen=True):
    """The node belongs here."""

    record: FleetRecord | None
    """What the record should say; None if nothing is known yet."""


class Stranger(msgspec.Struct, frozen=True):
    """The node belongs to another fleet."""

    why: str
    """Why, and what to do."""


Entrance: TypeAlias = AdmittedNode | Stranger


def enter(
    claim: FleetClaim, found: FleetRecord | None, around: StoreFacts, now: datetime, *, is_member: bool = False
) -> Entrance:
    """Whether a node may join. One that is a member already may come with a new app: it was reloaded."""
    if found is None:
        return AdmittedNode(_first(claim, around, now))
    if claim.fleet is not None and claim.fleet != found.name:
        if found.is_named or around.nodes or not _knows(found, claim.app):
            return Stranger(_other_name(claim.fleet, found, around))
        found = replace(found, name=claim.fleet, is_named=True)
    elif claim.fleet is None and not is_member and not _knows(found, claim.app):
        return Stranger(_other_app(claim.app, found))
    return AdmittedNode(_with_app(found, claim.app))


def _first(claim: FleetClaim, around: StoreFacts, now: datetime) -> FleetRecord | None:
    """The record of a fleet that has none; a node without app and name leaves that to others."""
    name = claim.fleet or claim.app
    if name is None:
        return None
    apps = around.apps | ({claim.app} if claim.app else set())
    return FleetRecord(name=name, apps=tuple(sorted(apps)), is_named=claim.fleet is not None, since=now)


def _knows(found: FleetRecord, app: str | None) -> bool:
    """Does the fleet know this app? A fleet that no app has joined accepts any."""
    return app is None or not found.apps or app in found.apps


def _with_app(found: FleetRecord, app: str | None) -> FleetRecord:
    if app is None or app in found.apps:
        return found
    return replace(found, apps=tuple(sorted({*found.apps, app})))


def _other_name(fleet: str, found: FleetRecord, around: StoreFacts) -> str:
    holds = f'the store holds the fleet "{found.name}", and this node belongs to the fleet "{fleet}"'
    if found.is_named or not around.nodes:
        return f"{holds}; give it a store or a namespace of its own, or correct fleet"
    return (
        f"{holds}; give it a store or a namespace of its own, or, if that fleet is to get this name, stop its nodes "
        f"first: {_listed(around.nodes)}"
    )


def _other_app(app: str | None, found: FleetRecord) -> str:
    return (
        f'the store holds the fleet "{found.name}" with the app {_listed(found.apps)}, and this node runs the app '
        f'"{app}"; give it a store or a namespace of its own, or, if the app has a new name, start the node once with '
        f"--fleet {found.name} (rota up: ROTA_FLEET={found.name})"
    )


def _listed(names: Iterable[str]) -> str:
    """The first few names."""
    first, *more = sorted(names)
    shown = ", ".join([first, *more[:4]])
    return shown if len(more) <= 4 else f"{shown} and {len(more) - 4} more"
