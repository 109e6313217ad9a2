"""`rota resources`: what the fleet is to keep covered.

It works on the fleet's store, as the API of a node does; no node needs to be asked, and none needs to be there.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from typing import Any, BinaryIO, TypeVar

import click
import msgspec

from rota.api import operations
from rota.api.schema import CHANGEABLE, ResourceView
from rota.api.watching import ResourceChange, watch_resources
from rota.cli import options, tables
from rota.cli.on_store import on_store
from rota.decide.declared import ORIGIN as DECLARED
from rota.decide.listing import ORIGIN as LISTED
from rota.decide.listing import TIMEOUT
from rota.decide.trouble import told, why_failing
from rota.kit import durations
from rota.kit.clock import SYSTEM
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, RotaError, Unknown
from rota.model.ids import Revision
from rota.model.resource import KindRecord, Listing, ResourceStatus, SyncRequest
from rota.store import Absent, At, Put, Store
from rota.store.follow import follow
from rota.workloads.checks import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

kind_argument = click.argument("kind", metavar="KIND")
id_argument = click.argument("id", metavar="ID")
version_option = click.option(
    "--version", type=click.IntRange(min=0), metavar="VERSION", help="Only if it is still at this version."
)


COMES_BACK = {
    DECLARED: "; rota.toml of the leader declares it and brings it back: take it out there",
    LISTED: "; its source lists it and brings it back: take it out there",
}
"""What to say of a resource that is deleted, by its origin."""

TIES = {
    "tag": "What others can name it by; may be repeated.",
    "prefer": "A label that its nodes had better have; may be repeated.",
    "near": "Only on nodes that hold a resource with this tag; may be repeated.",
    "apart": "Never beside a resource with this tag; may be repeated.",
    "prefer-near": "Rather on nodes that hold a resource with this tag; may be repeated.",
    "prefer-apart": "Rather not beside a resource with this tag; may be repeated.",
}
"""Options about other resources, and about labels that need not be."""


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
            click.option("--pin", metavar="NODE", help="The only node that may hold it."),
            *(
                click.option(f"--{name}", name.replace("-", "_"), multiple=True, metavar="NAME=VALUE", help=said)
                for name, said in TIES.items()
            ),
        )
    ):
        command = option(command)
    return command


@click.group()
def command() -> None:
    """Add, change and look at the resources that the fleet keeps covered."""


@command.command()
@kind_argument
@id_argument
@fields
@click.option("--no-wait", is_flag=True, help="Do not wait until the leader has placed it.")
@click.option(
    "--timeout", type=options.Duration(), default="10s", show_default=True, help="How long to wait for the leader."
)
@click.option("--key", metavar="TEXT", help="Names this request: repeated with the same key, it is done once.")
@options.store
@options.output
def add(
    kind: str, id: str, no_wait: bool, timeout: timedelta, key: str | None, store: str, output: str, **given: Any
) -> None:
    """Add a resource, and say which nodes hold it.

    The exit code is 6 if it was added but nobody placed it in time, and 5 if there is one of that name.

    Example: rota resources add room 21452505 --replicas 2 --spec lang=en
    """
    wanted = {"kind": kind, "id": id, **_fields(given)}
    wait = None if no_wait else timeout
    view = on_store(store, lambda open: operations.create_resource(open, SYSTEM, wanted, key=key, wait=wait))
    _tell(view, "added", output)
    if view.status is None and wait:
        raise Unknown(
            f"{view.name} is added, but nobody has placed it within {durations.render(wait)}; "
            f"ask again with: rota why {view.name}"
        )


@command.command()
@kind_argument
@id_argument
@fields
@click.option(
    "--unset",
    multiple=True,
    type=click.Choice(CHANGEABLE),
    metavar="FIELD",
    help="Put a field back to its default; may be repeated.",
)
@version_option
@options.store
@options.output
def update(
    kind: str, id: str, unset: tuple[str, ...], version: int | None, store: str, output: str, **given: Any
) -> None:
    """Change what is given of a resource; a new spec or new labels replace the old ones.

    Example: rota resources update room 21452505 --priority 5 --unset pin
    """
    changes = _fields(given)
    if twice := next((field for field in unset if field in changes), None):
        raise click.UsageError(f"{twice} is set and unset; choose one")
    changes |= dict.fromkeys(unset)
    view = on_store(store, lambda open: operations.update_resource(open, kind, id, changes, version=version))
    _tell(view, "updated", output)


@command.command()
@kind_argument
@id_argument
@version_option
@options.store
def rm(kind: str, id: str, version: int | None, store: str) -> None:
    """Delete a resource; the leader stops its tasks.

    Example: rota resources rm room 21452505
    """
    deleted = on_store(store, lambda open: operations.delete_resource(open, kind, id, version=version))
    click.echo(f"deleted {kind}/{id}{COMES_BACK.get(deleted.origin, '')}")


@command.command()
@kind_argument
@id_argument
@options.store
@options.output
def get(kind: str, id: str, store: str, output: str) -> None:
    """Show one resource and how it is covered.

    Example: rota resources get room 21452505 -o json
    """
    view = on_store(store, lambda open: operations.get_resource(open, kind, id))
    if output == "json":
        tables.show_json(view)
    else:
        for name, value in _about(view).items():
            click.echo(f"{name:<9} {value}")


@command.command()
@click.option("--kind", metavar="KIND", help="Only of this kind.")
@click.option("--prefix", metavar="TEXT", default="", help="Only those whose id begins so.")
@click.option("--pending", is_flag=True, help="Only those that have fewer tasks than they should.")
@click.option("-w", "--watch", is_flag=True, help="Go on with what changes, a line each, until interrupted.")
@options.store
@options.output
def ls(kind: str | None, prefix: str, pending: bool, watch: bool, store: str, output: str) -> None:
    """List the resources, in the order of kind and id.

    With --watch, -o json prints one object per line.

    Example: rota resources ls --pending
    """
    if watch:
        if pending:
            raise click.UsageError("--pending is about one moment; leave it out to watch")
        on_store(store, lambda open: _watch(open, kind, prefix, output))
        return
    found, now = on_store(store, lambda open: _all(open, kind, prefix, pending))
    if output == "json":
        tables.show_json(found)
        return
    headings = "KIND", "ID", "STATE", "TASKS", "RUNNING", "PRIORITY", "NODES", "WHY"
    tables.show(headings, [_row(view, now) for view in found], "no such resources; add one with: rota resources add")


@command.command()
@kind_argument
@click.option("--force", is_flag=True, help="Apply the list however much it drops.")
@click.option("--no-wait", is_flag=True, help="Do not wait for what comes of it.")
@click.option(
    "--timeout", type=options.Duration(), help="How long to wait; default: as long as the source may take, and 30s."
)
@options.store
@options.output
def sync(kind: str, force: bool, no_wait: bool, timeout: timedelta | None, store: str, output: str) -> None:
    """Have the source of a kind asked now, and say what came of it.

    The exit code is 2 if the kind has no source, 1 if the source gave no list or the list is held, and 6 if nothing
    came in time.

    Example: rota resources sync room --force
    """

    async def ask(open: Store) -> Listing | None:
        record = await _with_source(open, kind)
        asked = await _request(open, kind, force)
        longest = timeout or (record.source_timeout or TIMEOUT) + timedelta(seconds=30)
        return None if no_wait else await _outcome(open, kind, asked, longest)

    listing = on_store(store, ask)
    if listing is None:
        click.echo(f"asked for the list of {kind}")
        return
    if output == "json":
        tables.show_json(listing)
    if listing.error:
        raise RotaError(f"{kind}: its source gave no list on {listing.node}, the old one stays: {listing.error}")
    if listing.held:
        raise RotaError(
            f"{kind}: the list is held, the old one stays: {listing.why}; "
            "it is applied if the next one is the same, or now with --force"
        )
    if output != "json":
        counts = f"{listing.added} added, {listing.changed} changed, {listing.removed} removed"
        click.echo(f"{kind}: {listing.count} listed; {counts}{f'; {listing.why}' if listing.why else ''}")


async def _with_source(store: Store, name: str) -> KindRecord:
    """The kind; Invalid if there is none, or if nobody lists its resources."""
    known = {record.name: record for record in await operations.list_kinds(store)}
    record = known.get(name)
    if record is None:
        guess = did_you_mean(name, known) or (f"; there are {', '.join(sorted(known))}" if known else "")
        raise Invalid(f'no app of this fleet has a kind "{name}"{guess}')
    if record.source_every is None:
        raise Invalid(f'kind "{name}" has no source; declare one with @{name}.source(), or add resources yourself')
    return record


async def _request(store: Store, kind: str, force: bool) -> Revision:
    """Ask the leader; when that was written. A request that nobody took up yet loses nothing of its force."""
    key = keys.sync(kind)
    while True:
        entry = await store.get(key)
        wanted = SyncRequest(
            kind=kind, force=force or (entry is not None and codec.decode(SyncRequest, entry.value).force)
        )
        with suppress(Conflict):
            seen = At(key, entry.modified) if entry else Absent(key)
            return await store.commit(Put(key, codec.encode(wanted)), expect=[seen])


async def _outcome(store: Store, kind: str, asked: Revision, longest: timedelta) -> Listing:
    """What came of the first query since."""
    with suppress(TimeoutError):
        async with asyncio.timeout(longest.total_seconds()), aclosing(follow(store, keys.listing(kind))) as entries:
            async for entry in entries:
                listing = codec.decode(Listing, entry.value) if entry else None
                if listing is not None and listing.sync >= asked:
                    return listing
    raise Unknown(
        f"{kind}: nobody has listed them within {durations.render(longest)}; is there a leader, and a node whose app "
        "has the kind? Ask: rota status"
    )


async def _all(store: Store, kind: str | None, prefix: str, pending: bool) -> tuple[list[ResourceView], datetime]:
    """All pages, and the store's clock; what a newer Rota wrote is reported on stderr."""
    found: list[ResourceView] = []
    token: str | None = None
    while True:
        page = await operations.list_resources(
            store, kind=kind, prefix=prefix, pending=pending, limit=operations.MAX_PAGE, token=token
        )
        found += page.resources
        for name, why in page.not_understood.items():
            click.echo(f"rota: resource {name}: {why}", err=True)
        token = page.next
        if token is None:
            return found, await store.now()


async def _watch(store: Store, kind: str | None, prefix: str, output: str) -> None:
    """Print what there is, and then each change."""
    async with aclosing(watch_resources(store, kind=kind, prefix=prefix)) as batches:
        async for batch in batches:
            for change in batch:
                click.echo(msgspec.json.encode(change) if output == "json" else _line(change))


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


def _tell(view: ResourceView, done: str, output: str) -> None:
    if output == "json":
        tables.show_json(view)
    else:
        click.echo(f"{done} {view.name}, version {view.version}{_where(view)}")


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
    return view.kind, view.id, view.state, tasks, running, str(view.priority), _nodes(view), _remark(status, now)


def _remark(status: ResourceStatus | None, now: datetime) -> str:
    """Why it lacks tasks, and where tasks of it fail."""
    if status is None:
        return "not looked at yet"
    return "; ".join(filter(None, (status.pending, why_failing(status, now))))


def _about(view: ResourceView) -> dict[str, str]:
    status = view.status
    shown = {
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
        "given back": told(status.given_back) if status and status.given_back else "",
    }
    return {name: value for name, value in shown.items() if value}


def _nodes(view: ResourceView) -> str:
    assigned = view.status.AssignedNode if view.status else ""
    return ", ".join(each.partition("|")[0] for each in assigned.split(",")) if assigned else ""
