"""Asking the sources of the app what there should be: in an executor, like attempts. A Witness of the crew."""

import asyncio
import itertools
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from rota.jobs.core.records import Outcome, RunOrder, RunState
from rota.jobs.node.attempts import Running, SourceEnded
from rota.jobs.node.endings import Endings
from rota.jobs.node.open_attempts import OpenAttempts
from rota.jobs.node.seating import Seating
from rota.jobs.pipe import Listed
from rota.kit.time import durations
from rota.model.errors import RotaError
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.worker import Worker
from rota.runtime.pipes.brief import Attempt

TICK = 0.5
"""Seconds between tries while a query is refused."""

_encode = msgspec.msgpack.Encoder().encode


class SourceFailed(RotaError):
    """A source gave no list; the message says why."""


class SourceQueries:
    """The sources that are asked now."""

    def __init__(self, crew: Crew, open_attempts: OpenAttempts, seating: Seating, endings: Endings) -> None:
        self._crew, self._open, self._seating, self._endings = crew, open_attempts, seating, endings
        self._numbers = itertools.count(1)
        self._asking: dict[int, Running] = {}

    async def ask(self, kind: str, timeout: timedelta) -> bytes:
        """What the source of a kind lists, as JSON; SourceFailed if nothing comes in time."""
        number, refused = next(self._numbers), ""
        answer: asyncio.Future[tuple[str, bytes]] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                # An executor may become free in time, and the app may get that source by a reload.
                while True:
                    refused = self._begin(kind, number, partial(self._ended, number, answer))
                    if not refused:
                        break
                    await asyncio.sleep(TICK)
                error, result = await answer
        except TimeoutError:
            raise SourceFailed(refused or f"it took longer than {durations.render(timeout)}") from None
        finally:
            if running := self._asking.get(number):  # a source holds nothing that it would have to put in order
                self._endings.stop(running, RunState.INTERRUPTED, "the list is no longer needed", grace=0.0)
        if error:
            raise SourceFailed(error)
        return result

    def _begin(self, kind: str, number: int, ended: SourceEnded) -> str:
        """Have a source asked; the reason if that is refused, else nothing."""
        loaded = self._crew.generations.app
        kinds = loaded.app.resources if loaded else ()
        if not any(each.name == kind and each.source_every is not None for each in kinds):
            return f'this node\'s app has no source of resource "{kind}"'
        if why := self._open.full(1.0):
            return why
        order = RunOrder(run=f"source:{kind}", attempt=number, epoch=0, job="")
        running = Running(order, None, 1.0, _encode(Attempt(order.run, number, "", source=kind)), ended)
        self._asking[number] = running
        self._open.take_up(running)
        self._seating.give()
        return ""

    def _ended(self, number: int, answer: "asyncio.Future[tuple[str, bytes]]", error: str, result: bytes) -> None:
        del self._asking[number]
        if not answer.done():
            answer.set_result((error, result))

    # Witness

    def registered(self, worker: Worker) -> None:
        """An executor that comes is given what waits."""

    def draining(self, worker: Worker) -> None:
        """What it has not begun is given to another."""

    def said(self, worker: Worker, message: Any) -> None:
        """A source may have been asked."""
        if isinstance(message, Listed) and (running := self._asking.get(message.attempt)):
            state = RunState.FAILED if message.error else RunState.SUCCEEDED
            self._open.end(running, Outcome(state=state, error=message.error), message.result)

    def ended(self, worker: Worker, why: str) -> None:
        """What it had begun has failed; `run_workers` says so."""
