"""Keeping the jobs that a node's app and file declare, and removing those that no app declares any more."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rota.jobs.core.declared import DeclarationOwner, differ, undeclared
from rota.jobs.core.records import JobRecord, JobSpec, Origin
from rota.jobs.fleet import verbs
from rota.model import keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable, Unknown
from rota.model.ids import Key, NodeId
from rota.model.node import NodeStatus
from rota.store.port import Store
from rota.store.records import understood

log = logging.getLogger(__name__)

PACE = 1.0
"""Seconds between two checks."""

EVERY = 60.0
"""Seconds between two checks for jobs that no app declares any more, and between retries of refused ones."""

Tell = Callable[..., None]
Declared = Callable[[], tuple[DeclarationOwner, Sequence[JobSpec]] | None]
"""The owner of the declarations, and the jobs; None if there are no declarations."""


@dataclass
class Written:
    """What a node declared last, kept from one session to the next.

    A node that lost its session has not loaded anything: other nodes may run a newer version by now, which takes
    precedence.
    """

    declared: object = None
    incarnation: Key | None = None
    """The incarnation of the store that it was written to."""


async def keep_declared_jobs(
    store: Store, node: NodeId, incarnation: Key, declared: Declared, tell: Tell, written: Written
) -> None:
    """Write what is declared, now and whenever that changes, until cancelled.

    Declarations that `written` has already replace nothing; a job that is gone from the store is added again. A refused
    job is retried every `EVERY` seconds, because the present owner may give up its name.
    """
    warned: set[tuple[str, str]] = set()
    looked_at, left = None, 0.0
    while True:
        now = declared()
        if now is not None and (now != looked_at or left <= 0):
            is_new = (now, incarnation) != (written.declared, written.incarnation)
            try:
                refused = await _write(store, node, *now, is_new=is_new)
            except (Conflict, Unavailable, Unknown) as error:
                log.debug("jobs not written", extra={"node": node, "why": str(error)})
            else:
                for name, why in refused.items():
                    if (name, why) not in warned:
                        warned.add((name, why))
                        tell("job.refused", name, why=why)
                written.declared, written.incarnation = now, incarnation
                looked_at, left = now, EVERY if refused else math.inf
        await asyncio.sleep(PACE)
        left -= PACE


async def _write(
    store: Store, node: NodeId, owner: DeclarationOwner, jobs: Sequence[JobSpec], *, is_new: bool
) -> Mapping[str, str]:
    """Write the jobs that differ; returns the refused jobs, and why."""
    found = differ(await _stored(store), jobs, owner, is_new=is_new)
    refused = dict(found.refused)
    app = owner.name if owner.origin is Origin.APP else ""
    for job in found.put:
        try:
            await verbs.put_job(store, job, owner.origin, node, app=app)
        except Invalid as error:
            refused[job.name] = str(error)
    for name in found.remove:
        try:
            await verbs.delete_job(store, name)
        except NotFound:
            continue
    return refused


class Undeclared:
    """Removes jobs that no app declares, once two checks in a row have found them so."""

    def __init__(self, store: Store, tell: Tell) -> None:
        self._store, self._tell = store, tell
        self._before: set[str] = set()

    async def run(self) -> None:
        """Check periodically, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.look()
            except (Conflict, NotFound, Unavailable, Unknown) as error:
                log.debug("undeclared jobs not removed", extra={"why": str(error)})

    async def look(self) -> None:
        """Check, and remove what the previous check found too."""
        stored = await _stored(self._store)
        entries = (await self._store.scan(keys.STATUS)).entries
        statuses = [status for entry in entries if (status := understood(NodeStatus, entry, log))]
        found = undeclared(stored, [(status.app, status.jobs) for status in statuses])
        for name in found & self._before:
            await verbs.delete_job(self._store, name)
            self._tell("job.removed", name, app=stored[name].app)
        self._before = found - self._before


async def _stored(store: Store) -> dict[str, JobRecord]:
    entries = (await store.scan(keys.JOBS)).entries
    found = {entry.key.removeprefix(keys.JOBS): understood(JobRecord, entry, log) for entry in entries}
    return {name: record for name, record in found.items() if record is not None}
