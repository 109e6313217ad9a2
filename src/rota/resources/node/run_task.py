"""Running one resource task inside a worker.

`run_task` and `run_sync_task` hand the user's function its task and turn whatever it does (return, raise, be cancelled,
call sys.exit) into one `TaskOutcome`. A worker is never taken down by one of its tasks.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from rota.kit.faults import described
from rota.kit.time.clock import Clock
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.relay.node.messages import EmissionDoor, WayOut
from rota.resources.core.spec import ResourceSpec
from rota.sdk.context import Call, Stopping, SyncTask, Task

log = logging.getLogger(__name__)

LARGEST = 256 * 1024
"""Bytes of a saved state, as JSON; a commit of the store takes 1 MiB."""


class TaskOutcome(msgspec.Struct, frozen=True):
    """How a task ended."""

    was_asked: bool
    error: str = ""
    """Why, as text of bounded length that can be sent."""


class RunnableKind(Protocol):
    """A declared resource: its function, and how its fields are read."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def spec(self) -> ResourceSpec: ...
    def decode(self, fields: dict[str, Any], id: str | None = None) -> object: ...


class TaskIdentity(Protocol):
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
    @property
    def is_exclusive(self) -> bool: ...


Save = Callable[[bytes], None]
"""Hands over a state, as JSON, to be saved."""


class Life:
    """Signs of life of one task: its messages and its own reports. A task blocked in `emit` is alive."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._born = now()
        self._last: float | None = None
        self._emitting = 0

    def sign(self) -> None:
        """It lives."""
        self._last = self._now()

    def __enter__(self) -> None:
        """Begin to emit; the task may wait until its messages are accepted."""
        # Not a generator with a decorator: that alone was a fifth of what `emit` costs.
        self._emitting += 1

    def __exit__(self, *_: object) -> None:
        """End to emit: the messages were accepted, or the task gave up."""
        self._emitting -= 1
        self._last = self._now()

    def complaint(self, start_within: float, silent_after: float) -> str:
        """Why it is to be taken for dead, or nothing."""
        if self._emitting:
            return ""
        silent = self._now() - (self._born if self._last is None else self._last)
        if self._last is None:
            return f"no sign of life within {start_within:g} s of its start" if silent > start_within else ""
        return f"no sign of life for {silent:.0f} s" if silent > silent_after else ""


class TaskEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has for one of its tasks."""

    life: Life
    save: Save
    way_out: WayOut
    node: NodeId
    sink: str
    """Where messages of kinds without a sink of their own go; empty: nowhere."""

    clock: Clock


class WorkerDoor(EmissionDoor):
    """The door of a task in a worker. What it emits goes to the relay; what it saves, to the agent."""

    def __init__(self, order: TaskIdentity, sink: str | None, offer: TaskEnvironment) -> None:
        super().__init__(order, sink or offer.sink, offer.way_out, offer.life, offer.node, offer.clock)
        self._life, self._save = offer.life, offer.save

    def alive(self) -> None:
        self._life.sign()

    async def save(self, state: dict[str, Any]) -> None:
        self._life.sign()
        data = msgspec.json.encode(state)
        if len(data) > LARGEST:
            raise Invalid(f"the state to save has {len(data)} bytes; at most {LARGEST} are kept: save less")
        self._save(data)


async def run_task(
    kind: RunnableKind | None, order: TaskIdentity, offer: TaskEnvironment, started: Callable[[], None]
) -> TaskOutcome:
    """Run an async task until it ends or is cancelled; `started` is called when its first step is done."""
    telling: asyncio.Handle | None = None
    try:
        function, fields = _prepared(kind, order, offer)
        task = Task(**fields)
        telling = asyncio.get_running_loop().call_soon(started)
        await function(task)
    except asyncio.CancelledError:
        me = asyncio.current_task()
        was_asked = me is not None and me.cancelling() > 0
        return TaskOutcome(was_asked, "" if was_asked else "it raised CancelledError by itself")
    except (KeyboardInterrupt, SystemExit) as error:
        return TaskOutcome(False, f"it called for the end of the process ({type(error).__name__})")
    except BaseException as error:  # libraries have their own, beside Exception; one task must not end the worker
        log.exception("task failed", extra={"task": order.task, "epoch": order.epoch})
        return TaskOutcome(False, described(error))
    finally:
        if telling is not None:
            telling.cancel()
    return TaskOutcome(False)


def run_sync_task(
    kind: RunnableKind | None,
    order: TaskIdentity,
    offer: TaskEnvironment,
    stopping: Stopping,
    call: Call,
    started: Callable[[], None],
) -> TaskOutcome:
    """Run a sync task until it returns; `stopping` asks it to, and `call` runs what it waits for on another thread."""
    try:
        function, fields = _prepared(kind, order, offer)
        task = SyncTask(**fields, call=call, stopping=stopping)
        started()
        function(task)
    except SystemExit:
        return TaskOutcome(False, "it called for the end of the process (SystemExit)")
    except BaseException as error:  # libraries have their own, beside Exception; one task must not end the worker
        log.exception("task failed", extra={"task": order.task, "epoch": order.epoch})
        return TaskOutcome(False, described(error))
    return TaskOutcome(stopping.is_set())


def limits(kind: RunnableKind) -> tuple[float, float]:
    """Seconds that a task may take to its first sign of life, and from one to the next."""
    return kind.spec.start_within.total_seconds(), kind.spec.silent_after.total_seconds()


def _prepared(
    kind: RunnableKind | None, order: TaskIdentity, offer: TaskEnvironment
) -> tuple[Callable[..., Any], dict[str, Any]]:
    if kind is None:
        raise LookupError(f'the app has no resource "{order.kind}"; declare it, or remove what was made of it')
    fields = msgspec.json.decode(order.spec, type=dict[str, Any])
    return kind.function, {
        "id": order.task,
        "resource": order.resource,
        "slot": order.slot,
        "epoch": order.epoch,
        "spec": kind.decode(fields, order.resource),
        "door": WorkerDoor(order, kind.spec.sink, offer),
        "saved": msgspec.json.decode(order.saved, type=dict[str, Any]),
    }
