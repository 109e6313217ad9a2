"""Writing steps: what belongs together goes in one commit, and many go in one.

A `Step` is written whole or not at all. Steps are packed into commits as large as a store takes, and several commits
are under way at a time. If one of the steps in a commit conflicts, the others are written again without it; the caller
learns which steps were written, and decides the others again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rota.jobs.core.records import JobCursor, JobSuccess, RunRecord
from rota.jobs.fleet.view import JobsView, Live
from rota.model import codec, keys
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.store.port import Absent, At, Delete, Expect, Put, Store, Write

log = logging.getLogger(__name__)

WRITES, EXPECTATIONS, BYTES = 100, 120, 900_000
"""Limits of one commit; a store takes a little more."""

AT_ONCE = 8
"""Commits under way at a time."""

Record: TypeAlias = RunRecord | JobCursor | JobSuccess


@dataclass(frozen=True, eq=False)
class Step:
    """Writes that belong together."""

    writes: Mapping[Key, Record | None]
    """None deletes the key."""

    expect: Sequence[Expect]
    about: Any = field(default=None, repr=False)
    """A value of the caller's by which it recognizes the step."""


Heed: TypeAlias = Callable[[Mapping[Step, Revision]], None]


@dataclass(frozen=True, eq=False)
class _Packed:
    """A step, ready to be sent."""

    step: Step
    writes: Sequence[Write]
    size: int


class StepWriter:
    """Writes steps, and updates the view."""

    def __init__(self, store: Store, incarnation: At, view: JobsView) -> None:
        self.store = store
        self._incarnation, self._view = incarnation, view

    async def write(self, steps: Iterable[Step], heed: Heed = lambda _: None) -> dict[Step, Revision]:
        """The steps that were written, and at which revision; the others conflicted, or their outcome is unknown.

        `heed` is called with the steps of each commit as soon as it is made: others may still be under way.
        """
        written: dict[Step, Revision] = {}
        batches = list(_batches(map(_packed, steps)))
        if len(batches) == 1:  # the usual case, in which tasks would gain nothing
            written = await self._write(batches[0])
            heed(written)
        if len(batches) < 2:
            return written
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(batch: list[_Packed]) -> None:
            async with turns:
                done = await self._write(batch)
                written.update(done)
                heed(done)

        async with asyncio.TaskGroup() as commits:
            for batch in batches:
                commits.create_task(one(batch))
        return written

    async def _write(self, batch: list[_Packed]) -> dict[Step, Revision]:
        """The steps of a batch that were written."""
        while batch:
            try:
                revision = await self._commit(batch)
            except Conflict as conflict:
                left = [packed for packed in batch if not _touches(packed.step, conflict.keys)]
                log.debug("overtaken", extra={"steps": len(batch) - len(left)})
                if len(left) == len(batch):
                    break
                batch = left
            except (Unavailable, Unknown) as error:
                log.debug("not written", extra={"steps": len(batch), "why": str(error)})
                break
            else:
                for packed in batch:
                    for key, record in packed.step.writes.items():
                        if key.startswith(keys.JOBS_FOLLOWED) and not isinstance(record, JobSuccess):
                            self._view.wrote(key, record, revision)
                return {packed.step: revision for packed in batch}
        return {}

    async def _commit(self, batch: list[_Packed]) -> Revision:
        expect: dict[Key, Expect] = {self._incarnation.key: self._incarnation}
        for packed in batch:
            for each in packed.step.expect:
                expect[each.key] = each
        return await self.store.commit(*(write for packed in batch for write in packed.writes), expect=expect.values())


def at(key: Key, revision: Revision | None) -> Expect:
    """Expect a key at its known revision; None: that the key does not exist."""
    return Absent(key) if revision is None else At(key, revision)


def moved(live: Live, after: RunRecord, about: object = None, *also: Expect) -> Step:
    """A step to another state of a living run, under that state's key; it is about the old run, or `about`."""
    key = keys.live_run(live.run.id)
    writes: dict[Key, Record | None] = {key: None, keys.run(after.id): after} if after.is_over else {key: after}
    return Step(writes, (at(key, live.modified), *also), live if about is None else about)


def _packed(step: Step) -> _Packed:
    writes: list[Write] = []
    size = 0
    for key, record in step.writes.items():
        if record is None:
            writes.append(Delete(key))
        else:
            value = codec.encode(record)
            size += len(value)
            writes.append(Put(key, value))
    return _Packed(step, writes, size)


def _batches(steps: Iterable[_Packed]) -> Iterator[list[_Packed]]:
    """Groups of steps for one commit each: no key twice, and no more than a store takes."""
    batch: list[_Packed] = []
    touched: set[Key] = set()
    writes = expectations = size = 0
    for packed in steps:
        step = packed.step
        writes, expectations = writes + len(step.writes), expectations + len(step.expect)
        size += packed.size
        is_full = writes > WRITES or expectations > EXPECTATIONS or size > BYTES
        if batch and (is_full or not touched.isdisjoint(step.writes)):
            yield batch
            batch, touched = [], set()
            writes, expectations, size = len(step.writes), len(step.expect), packed.size
        batch.append(packed)
        touched.update(step.writes)
    if batch:
        yield batch


def _touches(step: Step, found: frozenset[Key]) -> bool:
    return any(each.key in found for each in step.expect)
