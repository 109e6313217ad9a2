"""Running one resource task inside a worker.

`run_task` and `run_sync_task` hand the user's function its task and turn whatever it does (return, raise, be cancelled,
call sys.exit) into one `Outcome`. A worker is never taken down by one of its tasks.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from rota.model.errors import Invalid
from rota.workloads.context import Message, Stopping, SyncTask, Task
from rota.workloads.resources.spec import ResourceSpec

log = logging.getLogger(__name__)

LARGEST = 256 * 1024
"""Bytes of a saved state, as JSON; a commit of the store takes 1 MiB."""


@dataclass(frozen=True)
class Outcome:
    """How a task ended."""

    was_asked: bool
    error: str = ""


class Kind(Protocol):
    """A declared resource: its function, and how its fields are read."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def spec(self) -> ResourceSpec: ...
    def decode(self, fields: dict[str, Any], id: str | None = None) -> object: ...


class Order(Protocol):
    """Which task it is."""

    @property
    def task(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def slot(self) -> int: ...
    @property
    def spec(self) -> bytes: ...
    @property
    def saved(self) -> bytes: ...


Save = Callable[[bytes], None]
"""Hands a state, as JSON, to whoever keeps it."""


class Life:
    """Signs of life of one task: what it emitted, and what it said of itself. One blocked in `emit` is alive."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._born = now()
        self._last: float | None = None
        self._emitting = 0

    def sign(self) -> None:
        """It lives."""
        self._last = self._now()

    @contextmanager
    def emitting(self) -> Iterator[None]:
        """It waits for somebody to take its messages."""
        self._emitting += 1
        try:
            yield
        finally:
            self._emitting -= 1
            self.sign()

    def complaint(self, start_within: float, silent_after: float) -> str:
        """Why it is to be taken for dead, or nothing."""
        if self._emitting:
            return ""
        silent = self._now() - (self._born if self._last is None else self._last)
        if self._last is None:
            return f"no sign of life within {start_within:g} s of its start" if silent > start_within else ""
        return f"no sign of life for {silent:.0f} s" if silent > silent_after else ""


class WorkerDoor:
    """The door of a task in a worker. There is no relay yet."""

    def __init__(self, life: Life, save: Callable[[bytes], None]) -> None:
        self._life, self._save = life, save

    async def emit(self, messages: list[Message]) -> None:
        """Wait for a relay to take the messages, as for a sink that is down; nothing is dropped."""
        with self._life.emitting():
            log.warning("emit waits", extra={"why": "there is no relay yet, so messages have no way out"})
            await asyncio.Event().wait()

    def alive(self) -> None:
        self._life.sign()

    async def save(self, state: dict[str, Any]) -> None:
        self._life.sign()
        data = msgspec.json.encode(state)
        if len(data) > LARGEST:
            raise Invalid(f"the state to save has {len(data)} bytes; at most {LARGEST} are kept: save less")
        self._save(data)


async def run_task(kind: Kind | None, order: Order, life: Life, save: Save, started: Callable[[], None]) -> Outcome:
    """Run an async task until it ends or is cancelled; `started` is called when its first step is done."""
    telling: asyncio.Handle | None = None
    try:
        function, fields = _prepared(kind, order, WorkerDoor(life, save))
        task = Task(**fields)
        telling = asyncio.get_running_loop().call_soon(started)
        await function(task)
    except asyncio.CancelledError:
        me = asyncio.current_task()
        was_asked = me is not None and me.cancelling() > 0
        return Outcome(was_asked, "" if was_asked else "it raised CancelledError by itself")
    except (KeyboardInterrupt, SystemExit) as error:
        return Outcome(False, f"it called for the end of the process ({type(error).__name__})")
    except Exception as error:
        log.exception("task failed", extra={"task": order.task, "epoch": order.epoch})
        return Outcome(False, f"{type(error).__name__}: {error}")
    finally:
        if telling is not None:
            telling.cancel()
    return Outcome(False)


def run_sync_task(
    kind: Kind | None, order: Order, life: Life, save: Save, stopping: Stopping, started: Callable[[], None]
) -> Outcome:
    """Run a sync task until it returns; `stopping` asks it to."""
    try:
        function, fields = _prepared(kind, order, WorkerDoor(life, save))
        task = SyncTask(**fields, call=_here, stopping=stopping)
        started()
        function(task)
    except SystemExit:
        return Outcome(False, "it called for the end of the process (SystemExit)")
    except Exception as error:
        log.exception("task failed", extra={"task": order.task, "epoch": order.epoch})
        return Outcome(False, f"{type(error).__name__}: {error}")
    return Outcome(stopping.is_set())


def limits(kind: Kind) -> tuple[float, float]:
    """Seconds that a task may take to its first sign of life, and from one to the next."""
    return kind.spec.start_within.total_seconds(), kind.spec.silent_after.total_seconds()


def _prepared(kind: Kind | None, order: Order, door: WorkerDoor) -> tuple[Callable[..., Any], dict[str, Any]]:
    if kind is None:
        raise LookupError(f'the app has no resource "{order.kind}"; declare it, or remove what was made of it')
    fields = msgspec.json.decode(order.spec, type=dict[str, Any])
    return kind.function, {
        "id": order.task,
        "resource": order.resource,
        "slot": order.slot,
        "epoch": order.epoch,
        "spec": kind.decode(fields, order.resource),
        "door": door,
        "saved": msgspec.json.decode(order.saved, type=dict[str, Any]),
    }


def _here(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that never really waits."""
    return asyncio.run(coroutine)
