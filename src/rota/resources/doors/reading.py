"""Reading resources and their kinds from the store, as operations answer them."""

from collections.abc import Collection

import msgspec

from rota.doors.limits import MAX_PAGE
from rota.model import codec, keys
from rota.model.errors import Invalid, NotFound
from rota.model.ids import Revision
from rota.model.spec.checks import did_you_mean
from rota.resources.core.records import KindRecord, ResourceRecord, ResourceStatus
from rota.resources.doors.answers import ResourcePage, ResourceView
from rota.store.port import Entry, Store
from rota.store.records import understood


async def kind_record(store: Store, name: str) -> KindRecord:
    """The kind; Invalid names those there are."""
    entry = await store.get(keys.kind(name))
    if entry is not None:
        return codec.decode(KindRecord, entry.value)
    known = [entry.key.removeprefix(keys.KINDS) for entry in (await store.scan(keys.KINDS)).entries]
    if not known:
        raise Invalid(
            f'no app of this fleet has a kind "{name}", or any; start a node with an app that declares it',
            code="unknown_kind",
        )
    guess = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    raise Invalid(f'no app of this fleet has a kind "{name}"{guess}', code="unknown_kind")


async def resource_record(store: Store, kind: str, id: str) -> tuple[Entry, ResourceRecord]:
    entry = await store.get(keys.resource(kind, id))
    if entry is None:
        raise NotFound(
            f"there is no resource {kind}/{id}; see which there are with: rota resources ls", code="resource_not_found"
        )
    return entry, codec.decode(ResourceRecord, entry.value)


def view_of(record: ResourceRecord, version: Revision, status: Entry | None) -> ResourceView:
    """A resource as it is shown."""
    return ResourceView(
        kind=record.kind,
        id=record.id,
        uid=record.uid,
        version=version,
        created=record.created,
        origin=record.origin,
        spec=record.spec,
        priority=record.priority,
        replicas=record.replicas,
        cost=record.cost,
        labels=record.labels,
        pin=record.pin,
        tags=record.tags,
        affinity=record.affinity,
        status=None,
    ).with_status(status_of(status, record.uid))


def status_of(entry: Entry | None, uid: str) -> ResourceStatus | None:
    """The status, unless it is of an earlier resource of the same name, or of a newer Rota."""
    status = understood(ResourceStatus, entry)
    return status if status and uid == status.ID else None


class ResourceFilter(msgspec.Struct, frozen=True):
    """Which resources a list is to have."""

    kind: str | None
    prefix: str
    pending: bool
    limit: int

    @property
    def below(self) -> str:
        """How their names begin, kind and id."""
        return "" if self.kind is None else f"{self.kind}/{self.prefix}"

    @property
    def scanned(self) -> int:
        """How many to read at a time: no more than are wanted, unless most may turn out not to be."""
        return MAX_PAGE if self.pending or (self.prefix and self.kind is None) else self.limit

    def has(self, view: ResourceView) -> bool:
        """Is this one of them?"""
        return view.id.startswith(self.prefix) and (view.is_pending or not self.pending)


async def page_of(store: Store, wanted: ResourceFilter, token: str | None) -> ResourcePage:
    found: list[ResourceView] = []
    not_understood: dict[str, str] = {}
    at: Revision | None = None
    while True:
        after = keys.RESOURCES + token if token else None
        listing = await store.scan(keys.RESOURCES + wanted.below, after=after, limit=wanted.scanned, at=at)
        at = listing.revision
        statuses = await _statuses(store, wanted.below, token, listing.entries, at)
        for number, entry in enumerate(listing.entries, 1):
            token = entry.key.removeprefix(keys.RESOURCES)
            try:
                view = view_of(codec.decode(ResourceRecord, entry.value), entry.modified, statuses.get(token))
            except Invalid as error:
                not_understood[token] = str(error)
                continue
            if wanted.has(view):
                found.append(view)
            if len(found) == wanted.limit and (listing.more or number < len(listing.entries)):
                return ResourcePage(resources=tuple(found), revision=at, next=token, not_understood=not_understood)
        if not listing.more:
            return ResourcePage(resources=tuple(found), revision=at, not_understood=not_understood)


async def _statuses(
    store: Store, below: str, token: str | None, resources: Collection[Entry], at: Revision
) -> dict[str, Entry]:
    """The statuses of a page of resources, by name. Statuses lie in the same order, so a page or two has them."""
    found: dict[str, Entry] = {}
    last = max((entry.key.removeprefix(keys.RESOURCES) for entry in resources), default="")
    while resources:
        after = keys.RESOURCE_STATUS + token if token else None
        listing = await store.scan(keys.RESOURCE_STATUS + below, after=after, limit=len(resources), at=at)
        for entry in listing.entries:
            token = entry.key.removeprefix(keys.RESOURCE_STATUS)
            found[token] = entry
        if not listing.more or (token and token >= last):
            break
    return found
