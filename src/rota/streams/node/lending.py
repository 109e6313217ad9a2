"""Lending the store to workers of streams: each may use what belongs to its own stream, and nothing else."""

import asyncio
from typing import Any

from rota.model import keys
from rota.model.ids import LeaseId
from rota.runtime.crew.worker import Worker
from rota.store.port import Store
from rota.streams.node.lent import Lender
from rota.streams.pipe import AskStore, StoreSaid, stream_of


class Lending:
    """The agent's side: a lender for each worker that asks."""

    def __init__(self) -> None:
        self.store: Store | None = None
        """What is lent; None while there is none."""

        self.lease: LeaseId | None = None
        """The lease for workers' statuses: that of this node's session."""

        self._lenders: dict[int, Lender] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def registered(self, worker: Worker) -> None:
        """Do nothing: a lender is made when the worker first asks."""

    def draining(self, worker: Worker) -> None:
        """Do nothing: a draining worker may need the store until it ends."""

    def said(self, worker: Worker, message: Any) -> None:
        """Answer a worker's request to the store."""
        if isinstance(message, AskStore) and worker.brief.role == "stream":
            if worker.id not in self._lenders:
                self._lenders[worker.id] = self._lender(worker)
            self._lenders[worker.id].heard(message.frame)

    def ended(self, worker: Worker, why: str) -> None:
        """Drop the worker's lender and its open requests."""
        if (lender := self._lenders.pop(worker.id, None)) is not None:
            closing = asyncio.get_running_loop().create_task(lender.close(), name="lender")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _lender(self, worker: Worker) -> Lender:
        assert worker.brief.order is not None
        stream = stream_of(worker.brief.order)
        return Lender(
            lambda: self.store,
            lambda: self.lease,
            keys.stream_prefixes(stream),
            lambda frame: worker.send(StoreSaid(frame)),
        )
