"""`rota resources`: what the fleet is to keep covered.

Each verb reaches the fleet through the doors of a node or through the store; through the store no node needs to run.
"""

from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, BinaryIO, TypeVar, cast

import click
import msgspec

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import FleetClient, ask, every, on_fleet
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.cli.verbs import Verbs
from rota.kit.time import durations
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Invalid, RotaError, Unknown
from rota.resources.core.declared import ORIGIN as DECLARED
from rota.resources.core.listing import ORIGIN as LISTED
from rota.resources.core.records import ResourceStatus
from rota.resources.core.trouble import sentence, why_failing
from rota.resources.doors import operations as resource_operations
from rota.resources.doors.answers import CHANGEABLE, ResourceView
from rota.resources.doors.syncing import sync_source
from rota.views.watching import ResourceChange, watch_resources

F = TypeVar("F", bound=Callable[..., Any])

kind_argument = click.argument("kind", metavar="KIND", shell_complete=names.kinds)
some_argument = click.argument("kind", metavar="KIND", shell_complete=names.resources)


def named(kind_argument: Callable[[F], F]) -> Callable[[F], F]:
    """KIND and ID, or KIND/ID in one word, as `rota why` and the tables write it."""

    def decorate(command: F) -> F:
        @wraps(command)
        def run(*args: Any, kind: str, id: str | None, **given: Any) -> Any:
            if id is None:
                kind, slash, id = kind.partition("/")
                if not slash or not id:
                    raise click.UsageError(f"write the kind and the id, like {kind or 'room'}/21452505")
            return command(*args, kind=kind, id=id, **given)

        return kind_argument(click.argument("id", metavar="[ID]", required=False)(cast(F, run)))

    return decorate


version_option = click.option(
    "--version", type=click.IntRange(min=0), metavar="VERSION", help="Only if it is still at this version."
)


COMES_BACK = {
    DECLARED: "; rota.toml of the leader declares it and brings it back: take it out there",
    LISTED: "; its source lists it and brings it back: take it out there",
}
"""What to say of a resource that is deleted, by its origin."""

TIES = {
    "tag": "A tag that other resources can refer to; may be repeated.",
    "prefer": "A label that its nodes should have if possible; may be repeated.",
    "near": "Only on nodes that hold a resource with this tag; may be repeated.",
    "apart": "Never beside a resource with this tag; may be repeated.",
    "prefer-near": "If possible on nodes that hold a resource with this tag; may be repeated.",
    "prefer-apart": "If possible not beside a resource with this tag; may be repeated.",
}
"""Options about other resources, and about preferred labels."""


def fields(command: F) -> F:
    """The options that say what a resource is like."""
    for option in reversed(
        (
            click.option(
                "--spec",
                "specs",
                multiple=True,
                metavar="NAME=VALUE",
                help="A field of its spec, as text; NAME:=VALUE for JSON, such as depth:=3. May be repeated.",
            ),
            click.option("--json", "file", type=click.File("rb"), help="The spec as a JSON object; - is stdin."),
            click.option("--replicas", type=int, metavar="COUNT", help="Tasks for this one, not as its kind says."),
            click.option("--priority", type=int, metavar="NUMBER", help="Higher is covered first."),
            click.option("--cost", type=int, metavar="COUNT", help="Slots that each of its tasks takes."),
            click.option(
                "--label",
                "labels",
                multiple=True,
                metavar="NAME=VALUE",
                help="What its nodes must be labelled with; may be repeated.",
            ),
            click.option("--pin", metavar="NODE", shell_complete=names.nodes, help="The only node that may hold it."),
            *(
                click.option(f"--{name}", name.replace("-", "_"), multiple=True, metavar="NAME=VALUE", help=said)
                for name, said in TIES.items()
            ),
        )
    ):
        command = option(command)
    return command


@click.group(cls=Verbs)
def command() -> None:
    """Add, change and look at the resources that the fleet keeps covered."""


@command.command()
@named(kind_argument)
@fields
@click.option("--no-wait", is_flag=True, help="Do not wait until the leader has placed it.")
@click.option(
    "--timeout", type=options.Duration(), default="10s", show_default=True, help="How long to wait for the leader."
)
@click.option(
    "--key", metavar="TEXT", help="Idempotency key: a request repeated with the same key is carried out once."
)
@options.fleet
@options.output(Shape.OBJECT)
def add(
    kind: str, id: str, no_wait: bool, timeout: timedelta, key: str | None, fleet: FleetTarget, **given: Any
) -> None:
    """Add a resource, and print which nodes hold it.

    The exit code is 6 if it was added but not placed in time, and 5 if the name is taken.

    Example: rota resources add room 21452505 --replicas 2 --spec lang=en
    """
    wanted = {"kind": kind, "id": id, **_fields(given)}
    wait = None if no_wait else timeout
    view = ask(fleet, resource_operations.create_resource, SYSTEM, wanted, key=key, wait=wait)
    _show(view, "added")
    if view.status is None and wait:
        raise Unknown(
            f"{view.name} is added, but was not placed within {durations.render(wait)}; "
            f"ask again with: rota why {view.name}"
        )


@command.command()
@named(some_argument)
@fields
@click.option(
    "--unset",
    multiple=True,
    type=click.Choice(CHANGEABLE),
    metavar="FIELD",
    help="Put a field back to its default; may be repeated.",
)
@version_option
@options.fleet
@options.output(Shape.OBJECT)
def update(kind: str, id: str, unset: tuple[str, ...], version: int | None, fleet: FleetTarget, **given: Any) -> None:
    """Change fields of a resource; a new spec or new labels replace the old ones.

    Example: rota resources update room 21452505 --priority 5 --unset pin
    """
    changes = _fields(given)
    if twice := next((field for field in unset if field in changes), None):
        raise click.UsageError(f"{twice} is set and unset; choose one")
    changes |= dict.fromkeys(unset)
    view = ask(fleet, resource_operations.update_resource, kind, id, changes, version=version)
    _show(view, "updated")


@command.command()
@named(some_argument)
@version_option
@options.fleet
@options.output(Shape.OBJECT)
def rm(kind: str, id: str, version: int | None, fleet: FleetTarget) -> None:
    """Delete a resource; the leader stops its tasks.

    Example: rota resources rm room 21452505
    """
    deleted = ask(fleet, resource_operations.delete_resource, kind, id, version=version)
    tables.answer(tables.deleted(f"{kind}/{id}") | {"origin": deleted.origin})
    tables.say(f"deleted {kind}/{id}{COMES_BACK.get(deleted.origin, '')}")


@command.command()
@named(some_argument)
@options.fleet
@options.output(Shape.OBJECT)
def get(kind: str, id: str, fleet: FleetTarget) -> None:
    """Show one resource and how it is covered.

    Example: rota resources get room 21452505 -o json
    """
    view = ask(fleet, resource_operations.get_resource, kind, id)
    tables.answer(view)
    tables.facts(_about(view))


@command.command()
@click.option("--kind", metavar="KIND", shell_complete=names.kinds, help="Only of this kind.")
@click.option("--prefix", metavar="TEXT", default="", help="Only those whose id starts with this.")
@click.option("--pending", is_flag=True, help="Only those that have fewer tasks than they should.")
@click.option("-w", "--watch", is_flag=True, help="Then print each change, a line each, until interrupted.")
@options.fleet
@options.output(Shape.LIST, lines_with="--watch")
def ls(kind: str | None, prefix: str, pending: bool, watch: bool, fleet: FleetTarget) -> None:
    """List the resources, in the order of kind and id.

    Example: rota resources ls --pending
    """
    if watch:
        if pending:
            raise click.UsageError("--pending is about one moment; leave it out to watch")
        on_fleet(fleet, lambda open: _watch(open, kind, prefix))
        return
    found, now = on_fleet(fleet, lambda open: _all(open, kind, prefix, pending))
    headings = "RESOURCE", "STATE", "TASKS", "RUNNING", "PRIORITY", "NODES", "WHY"
    empty = "no such resources; add one with: rota resources add"
    tables.listed(found, headings, lambda view: _row(view, now), empty)


@command.command()
@kind_argument
@click.option("--force", is_flag=True, help="Apply the list even if it drops many resources.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the result.")
@click.option(
    "--timeout", type=options.Duration(), help="How long to wait; default: as long as the source may take, and 30s."
)
@options.fleet
@options.output(Shape.OBJECT)
def sync(kind: str, force: bool, no_wait: bool, timeout: timedelta | None, fleet: FleetTarget) -> None:
    """Query the source of a kind now, and report the result.

    The exit code is 2 if the kind has no source, 1 if the source returned no valid list or the list is held, and 6 if
    there was no result in time.

    Example: rota resources sync room --force
    """

    listing = ask(fleet, sync_source, kind, force=force, no_wait=no_wait, wait=timeout)
    if listing is None:
        tables.answer({"kind": kind, "asked": True})
        tables.say(f"asked for the list of {kind}")
        return
    tables.answer(listing)
    if listing.error:
        raise RotaError(f"{kind}: its source gave no list on {listing.node}, the old one stays: {listing.error}")
    if listing.held:
        raise RotaError(
            f"{kind}: the list is held, the old one stays: {listing.why}; "
            "it is applied if the next one is the same, or now with --force"
        )
    counts = f"{listing.added} added, {listing.changed} changed, {listing.removed} removed"
    tables.say(f"{kind}: {listing.count} listed; {counts}{f'; {listing.why}' if listing.why else ''}")


async def _all(fleet: FleetClient, kind: str | None, prefix: str, pending: bool) -> tuple[list[ResourceView], datetime]:
    """All pages, and the store's clock; what a newer Rota wrote is reported on stderr."""
    asked = {"kind": kind, "prefix": prefix, "pending": pending}
    return await every(fleet, "resource", resource_operations.list_resources, **asked), await fleet.now()


async def _watch(fleet: FleetClient, kind: str | None, prefix: str) -> None:
    """Print what there is, and then each change."""
    async with aclosing(fleet.each(watch_resources, kind=kind, prefix=prefix)) as batches:
        async for batch in batches:
            for change in batch:
                tables.line(change)
                tables.say(_line(change))


def _line(change: ResourceChange) -> str:
    view = change.resource
    if view is None:
        return f"{change.what:<7} {change.why or f'at revision {change.resume}; what changes follows'}"
    tasks = f"{view.state}, {view.status.assigned}/{view.status.replicas} tasks" if view.status else "not looked at yet"
    return f"{change.what:<7} {view.name}: {tasks}{_where(view)}"


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields that were given."""
    found = {name: given[name] for name in ("replicas", "priority", "cost", "pin") if given[name] is not None}
    if given["file"] is not None or given["specs"]:
        found["spec"] = {**_spec(given["file"]), **dict(_pair(text, "--spec", typed=True) for text in given["specs"])}
    if given["labels"]:
        found["labels"] = dict(_pair(text, "--label") for text in given["labels"])
    if given["tag"]:
        found["tags"] = dict(_pair(text, "--tag") for text in given["tag"])
    ties = {name.replace("-", "_"): name for name in TIES if name != "tag"}
    if any(given[field] for field in ties):
        found["affinity"] = {
            field: dict(_pair(text, f"--{name}") for text in given[field])
            for field, name in ties.items()
            if given[field]
        }
    return found


def _spec(file: BinaryIO | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"--json: the file is not a JSON object: {error}") from None


def _pair(text: str, option: str, *, typed: bool = False) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f'{option} "{text}" is not a pair; write NAME=VALUE')
    if not (typed and name.endswith(":")):
        return name, value
    try:
        return name[:-1], msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(
            f'{option} "{text}": the value is not JSON: {error}; for text write NAME=VALUE'
        ) from None


def _show(view: ResourceView, done: str) -> None:
    tables.answer(view)
    tables.say(f"{done} {view.name}, version {view.version}{_where(view)}")


def _where(view: ResourceView) -> str:
    """Who holds it, and why not more do, as the end of a sentence."""
    nodes = f"; on {_nodes(view)}" if _nodes(view) else ""
    pending = f"; pending: {view.status.pending}" if view.status and view.status.pending else ""
    fails = "".join(f"; fails on {node}: {why}" for node, why in ((view.status and view.status.failing) or {}).items())
    return nodes + pending + fails


def _row(view: ResourceView, now: datetime) -> tuple[str, ...]:
    status = view.status
    tasks = f"{status.assigned}/{status.replicas}" if status else "?"
    running = "?" if view.running is None else str(view.running)
    return view.name, view.state, tasks, running, str(view.priority), _nodes(view), _remark(status, now)


def _remark(status: ResourceStatus | None, now: datetime) -> str:
    """Why it lacks tasks, and where tasks of it fail."""
    if status is None:
        return "not looked at yet"
    return "; ".join(filter(None, (status.pending, why_failing(status, now))))


def _about(view: ResourceView) -> dict[str, str]:
    status = view.status
    return {
        "resource": view.name,
        "uid": view.uid,
        "version": str(view.version),
        "created": f"{view.created:%Y-%m-%d %H:%M:%S} UTC by {view.origin}",
        "priority": str(view.priority),
        "replicas": "as its kind says" if view.replicas is None else str(view.replicas),
        "cost": str(view.cost),
        "labels": tables.pairs(view.labels),
        "pin": view.pin or "",
        "tags": tables.pairs(view.tags),
        "affinity": "; ".join(
            f"{name} {tables.pairs(pairs)}" for name, pairs in msgspec.structs.asdict(view.affinity).items() if pairs
        ),
        "spec": msgspec.json.encode(view.spec).decode(),
        "state": view.state,
        "tasks": f"{status.assigned} of {status.replicas}" if status else "not looked at yet",
        "running": "" if view.running is None else str(view.running),
        "failing": "; ".join(f"on {node}: {why}" for node, why in ((status.failing or {}) if status else {}).items()),
        "nodes": _nodes(view),
        "pending": status.pending if status else "",
        "given back": sentence(status.given_back) if status and status.given_back else "",
    }


def _nodes(view: ResourceView) -> str:
    assigned = view.status.AssignedNode if view.status else ""
    return ", ".join(each.partition("|")[0] for each in assigned.split(",")) if assigned else ""
