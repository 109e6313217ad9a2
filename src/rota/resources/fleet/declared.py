"""Declared resources: the leader keeps those in the store that its own settings declare.

They are compared when a term begins, when the settings were read again, and whenever a resource or a kind changes: what
is deleted of them comes back. If nodes have different files, the leader's counts. A leader without any file leaves the
stored ones alone.

One that its kind does not take is logged and left as it is; the others are written.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing

from rota.fleet.leading.term import Term
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Denied, Invalid, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.resources.core.declared import ORIGIN, ResourceDiff, differ
from rota.resources.core.fit import check_replicas, check_spec
from rota.resources.core.records import KindRecord, ResourceRecord, WantedResource, record_of
from rota.store.follow import follow_all
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Write
from rota.store.records import understood

log = logging.getLogger(__name__)

WRITES = 50
"""Writes in one commit: specs and labels may be large."""

RETRY = 0.5
"""Seconds to wait for a store that is away."""

Tell = Callable[..., None]
Read = Callable[[], Sequence[WantedResource] | None]
"""The resources that the settings declare; None if there is no file. Invalid or Denied if it cannot be read."""


class Declarations:
    """The resources that this node's settings declare, as they were read last."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.wanted = read()
        self.changed = asyncio.Event()

    def read_again(self, tell: Tell) -> None:
        """Take in what the file says now; one that cannot be read changes nothing."""
        try:
            self.wanted = self._read()
        except (Invalid, Denied) as error:
            tell("config.failed", "resources", why=str(error))
        else:
            self.changed.set()


async def keep_declared(term: Term, declared: Declarations, clock: Clock, tell: Tell) -> None:
    """Keep the stored resources as declared until the term ends."""
    while declared.wanted is None:
        declared.changed.clear()
        await declared.changed.wait()
    await _DeclaredSync(term, declared, clock, tell).run()


class _DeclaredSync:
    """What is stored, kept true, and what it lacks, written."""

    def __init__(self, term: Term, declared: Declarations, clock: Clock, tell: Tell) -> None:
        self._term, self._declared, self._clock, self._tell = term, declared, clock, tell
        self._seen: dict[Key, dict[str, Entry]] = {}
        self._logged: set[str] = set()

    async def run(self) -> None:
        news = self._declared.changed
        async with asyncio.TaskGroup() as parts:
            for prefix in (keys.RESOURCES, keys.KINDS):
                parts.create_task(self._follow(prefix), name=f"declared: {prefix}")
            while True:
                await news.wait()
                news.clear()
                if len(self._seen) == 2:  # both were read
                    await self._apply()

    async def _follow(self, prefix: Key) -> None:
        async with aclosing(follow_all(self._term.store, prefix)) as coming:
            async for new in coming:
                if new.is_whole:
                    self._seen[prefix] = {}
                for change in new.changes:
                    name = change.key.removeprefix(prefix)
                    if change.entry is None:
                        self._seen[prefix].pop(name, None)
                    else:
                        self._seen[prefix][name] = change.entry
                self._declared.changed.set()

    async def _apply(self) -> None:
        if self._declared.wanted is None:  # the file is gone: no resources are declared any more
            return
        stored, misfits = self._stored(), self._misfits()
        wanted = [each for each in self._declared.wanted or () if each.name not in misfits]
        found = differ({name: record for name, record in stored.items() if name not in misfits}, wanted)
        for name, why in misfits.items():
            self._say_once(name, why)
        for name in found.left:
            self._say_once(
                name,
                "it was not added by a file, and stays unchanged; delete it, or remove it from the file",
            )
        changes = list(self._changes(found))
        try:
            for start in range(0, len(changes), WRITES):
                batch = changes[start : start + WRITES]
                await self._term.commit(*(write for write, _ in batch), expect=[expect for _, expect in batch])
        except (Conflict, Unavailable, Unknown) as error:
            log.debug("declared resources not written yet", extra={"why": str(error), "term": self._term.number})
            await asyncio.sleep(RETRY)
            self._declared.changed.set()
        else:
            if changes:
                counts = {"added": len(found.add), "changed": len(found.change), "removed": len(found.remove)}
                log.info("declared resources written", extra={**counts, "term": self._term.number})

    def _stored(self) -> dict[str, ResourceRecord]:
        """Those that came from settings, and those that have a declared name; others do not matter here."""
        declared = {each.name for each in self._declared.wanted or ()}
        found = {}
        for name, entry in self._seen[keys.RESOURCES].items():
            record = understood(ResourceRecord, entry)
            if record is not None and (record.origin == ORIGIN or name in declared):
                found[name] = record
            elif name in declared:  # a newer Rota wrote it: leave it to nodes of that version
                kind, _, id = name.partition("/")
                found[name] = ResourceRecord(uid="", kind=kind, id=id, created=self._clock.wall(), origin="unknown")
        return found

    def _misfits(self) -> dict[str, str]:
        """Declared resources that their kind does not take, and why."""
        kinds: Mapping[str, KindRecord | None] = {
            name: understood(KindRecord, entry) for name, entry in self._seen[keys.KINDS].items()
        }
        found = {}
        for each in self._declared.wanted or ():
            if kind := kinds.get(each.kind):
                try:
                    check_replicas(kind, each.id, each.replicas)
                    check_spec(kind, each.id, each.spec)
                except Invalid as error:
                    found[each.name] = str(error)
        return found

    def _say_once(self, name: str, why: str) -> None:
        if f"{name}: {why}" not in self._logged:
            self._logged.add(f"{name}: {why}")
            self._tell("config.failed", name, why=why)

    def _changes(self, found: ResourceDiff) -> Iterator[tuple[Write, Expect]]:
        for each in found.add:
            key = keys.resource(each.kind, each.id)
            record = record_of(each, secrets.token_hex(16), self._clock.wall(), ORIGIN)
            yield Put(key, codec.encode(record)), Absent(key)
        for record in found.change:
            key = keys.resource(record.kind, record.id)
            yield Put(key, codec.encode(record)), At(key, self._revision(record))
        for record in found.remove:
            key = keys.resource(record.kind, record.id)
            yield Delete(key), At(key, self._revision(record))

    def _revision(self, record: ResourceRecord) -> Revision:
        return self._seen[keys.RESOURCES][f"{record.kind}/{record.id}"].modified
