"""What tasks save: the newest state of each, written at most once a second, under its epoch.

Saving hands the state over and returns; a newer state replaces one that is not written yet. The write expects the
task's assignment at its epoch, so a task that was placed elsewhere meanwhile cannot overwrite what its successor saved.
When a task or the node stops in order, what is left is written before its assignment is given back.
"""

import asyncio
import logging
from typing import Any

import msgspec

from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, Unavailable, Unknown
from rota.model.ids import NodeId, Revision
from rota.resources.core.records import SavedState
from rota.resources.pipe import Save
from rota.runtime.crew.worker import Worker
from rota.store.port import At, Put, Store

log = logging.getLogger(__name__)

PACE = 1.0
"""Seconds from one round of writing to the next."""


class Saves:
    """The newest states of this node's tasks. A Witness of the crew."""

    def __init__(self) -> None:
        self._newest: dict[str, Save] = {}
        self._unwritten: set[str] = set()

    def newest(self, task: str, epoch: int) -> bytes | None:
        """What a task saved last under this epoch, written or not: its copy in another worker begins with that."""
        save = self._newest.get(task)
        return save.state if save is not None and save.epoch == epoch else None

    def has_unwritten(self, task: str) -> bool:
        """Is there something left to write for it?"""
        return task in self._unwritten

    def forget_all_but(self, tasks: set[str]) -> None:
        """Drop the states of tasks that this node no longer has, once they were written or refused."""
        for task in self._newest.keys() - tasks - self._unwritten:
            del self._newest[task]

    async def write(self, store: Store, node: NodeId) -> None:
        """Write what is saved, until cancelled."""
        while True:
            await asyncio.sleep(PACE)
            await self.flush(store, node)

    async def flush(self, store: Store, node: NodeId) -> None:
        """Write what is there now."""
        for task in sorted(self._unwritten):
            save = self._newest.get(task)
            if save is None:  # another flush was faster
                continue
            try:
                await store.commit(_put(save), expect=[At(keys.assignment(node, task), Revision(save.epoch))])
            except Invalid as error:
                log.error("not saved", extra={"task": task, "epoch": save.epoch, "why": str(error)})
            except Conflict:
                log.info("not saved", extra={"task": task, "epoch": save.epoch, "why": "it was placed elsewhere"})
            except (Unavailable, Unknown) as error:
                log.debug("not saved yet", extra={"task": task, "why": str(error)})
                return
            # Only now: meanwhile the assignment must not be given back, nor the state forgotten.
            if self._newest.get(task) is save:
                self._unwritten.discard(task)

    # A Witness of the crew

    def said(self, worker: Worker, message: Any) -> None:
        """A task may have saved something."""
        if isinstance(message, Save):
            known = self._newest.get(message.task)
            if known is None or known.epoch <= message.epoch:
                self._newest[message.task] = message
                self._unwritten.add(message.task)

    def registered(self, worker: Worker) -> None:
        """Nothing to do."""

    def draining(self, worker: Worker) -> None:
        """Nothing to do."""

    def ended(self, worker: Worker, why: str) -> None:
        """What it saved stays."""


def _put(save: Save) -> Put:
    state = msgspec.json.decode(save.state, type=dict[str, Any])
    return Put(keys.SAVED + save.task, codec.encode(SavedState(epoch=save.epoch, state=state)))
