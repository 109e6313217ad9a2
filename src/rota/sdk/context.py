"""The objects passed to a user's function: a task of a resource, a run of a job.

They are plain objects over small doors, so that a worker, a test and the simulator can hand out the same ones. `Task`
has methods to await; a function that is not async gets a `SyncTask`, whose methods block: its door's loop runs in
another thread, and `call` carries a coroutine there and brings the answer back.

A service's requests are in `services.core.context`, a stream's batches in `streams.core.context`. These two stay here,
because they can be waited for from a thread (`Stopping`), and what is in a `core` may not.

Nothing here starts a thread or a loop, or knows where messages go.
"""

import math
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from rota.kit.time import durations
from rota.model.errors import Invalid
from rota.model.payload import payload_bytes, shown

if TYPE_CHECKING:
    import logging

S = TypeVar("S")
T = TypeVar("T")
Call = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine on the door's loop, and returns its result."""

_JSON = msgspec.json.Encoder()

LARGEST_NAME = 16 * 1024
"""Bytes of a message's key, and of its place in the sink."""


class Stopping:
    """Was this work asked to stop? For code that is not async; async code is cancelled."""

    # A lock that opens when it is asked. Neither `Event` nor `Condition` will do: they hold a lock of their own for
    # moments in which the handler of a signal may come, and that would wait for the very code that it interrupted.

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Ask it to stop. May be called by the handler of a signal."""
        self._is_set = True
        self._open()

    def is_set(self) -> bool:
        """Was it asked?"""
        return self._is_set

    def __bool__(self) -> bool:
        return self.is_set()

    def wait(self, timeout: float | str | timedelta | None = None) -> bool:
        """Wait until it is asked to stop, or for `timeout` ("30s", a timedelta, seconds); was it asked?"""
        _check_no_loop()
        limit = seconds(timeout)
        try:
            self._gate.acquire(timeout=-1 if limit is None else min(max(0.0, limit), threading.TIMEOUT_MAX))
        finally:
            if self._is_set:
                self._open()  # wake the other threads that wait
        return self._is_set

    def _open(self) -> None:
        with suppress(RuntimeError):  # it is open already
            self._gate.release()


@types.coroutine
def _turn() -> Generator[None, None, None]:
    """Let other tasks on the loop run: `asyncio.sleep(0)`, without loading asyncio where an app is only declared."""
    yield


def _check_no_loop() -> None:
    """Refuse a blocking call that would stop an event loop and all tasks on it."""
    if "asyncio" not in sys.modules:
        return  # an app that is only declared need not load it
    import asyncio  # noqa: PLC0415

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Invalid(
        "stopping.wait would block the loop of an async function, and every task on it; async code is cancelled when "
        "it is to stop: use asyncio.sleep, or await asyncio.Event().wait()"
    )


@dataclass(frozen=True, init=False)
class Message:
    """One message to send: bytes are sent as they are, a str as UTF-8, anything else as JSON."""

    payload: bytes
    key: str | None
    """What makes it the same as another replica's message; without one, its payload."""

    to: str | None
    """Where in the sink: a routing key or topic; None: as the sink does by itself."""

    confirm: bool
    """Is the sender waiting until the sink, or the spool on disk, has it?"""

    def __init__(
        self, payload: object, key: str | int | None = None, to: str | None = None, confirm: bool = False
    ) -> None:
        object.__setattr__(self, "payload", payload_bytes(payload))
        object.__setattr__(self, "key", _key(key))
        object.__setattr__(self, "to", _to(to))
        object.__setattr__(self, "confirm", confirm)


class TaskDoor(Protocol):
    """What a task needs from the process it runs in."""

    async def emit(self, messages: list[Message]) -> None:
        """Take the messages; those with `confirm` are in the sink or on disk when this returns.

        Raises Rejected if one of those can never be delivered.
        """

    def alive(self) -> None:
        """Note a sign of life."""

    async def save(self, state: dict[str, Any]) -> None:
        """Keep the state for the task's next life."""


class _TaskBase(Generic[S]):
    """What both kinds of task have in common."""

    def __init__(
        self,
        *,
        id: str,
        resource: str,
        slot: int,
        epoch: int,
        spec: S,
        door: TaskDoor,
        saved: Mapping[str, Any] | None = None,
        stopping: Stopping | None = None,
    ) -> None:
        self.id = id
        """The task: one replica of the resource."""

        self.resource = resource
        """Id of the resource it holds."""

        self.slot = slot
        """Which replica it is, from 0."""

        self.epoch = epoch
        """Greater for each later placement; others can refuse effects of an older one by it."""

        self.spec = spec
        """The resource's fields, as the type in `Task[…]`; a dict without one."""

        self.saved: Mapping[str, Any] = dict(saved or {})
        """What this task, or the one before it in its slot, saved last."""

        self.stopping = Stopping() if stopping is None else stopping  # one that is not set is false
        self._door = door

    def alive(self) -> None:
        """Give a sign of life. `emit` is one too."""
        self._door.alive()

    async def _save(self, state: Mapping[str, Any]) -> None:
        plain = _state(self.id, state)
        await self._door.save(plain)
        self.saved = plain
        await _turn()  # otherwise a task that saves in a loop would block all other tasks

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} epoch {self.epoch}>"


class Task(_TaskBase[S]):
    """One replica of a resource, as an async function sees it. Stopping it is cancelling the function."""

    async def emit(
        self, payload: object, key: str | int | None = None, to: str | None = None, confirm: bool = False
    ) -> None:
        """Send one message; it leaves the fleet once, however many replicas send it. A sign of life.

        With `confirm` it is in the sink, or on disk, when this returns; Rejected says why it never will be.
        """
        await self._door.emit([Message(payload, key, to, confirm)])

    async def emit_many(self, messages: Iterable[object], to: str | None = None, confirm: bool = False) -> None:
        """Send several: payloads, or `Message`s with keys of their own."""
        await self._door.emit(_messages(messages, to, confirm))

    async def save(self, state: Mapping[str, Any]) -> None:
        """Keep `state`, which JSON must be able to hold, for the task that comes after this one."""
        await self._save(state)


class SyncTask(_TaskBase[S]):
    """One replica of a resource, as a function that is not async sees it: look at `stopping` now and then."""

    def __init__(
        self,
        *,
        id: str,
        resource: str,
        slot: int,
        epoch: int,
        spec: S,
        door: TaskDoor,
        call: Call,
        saved: Mapping[str, Any] | None = None,
        stopping: Stopping | None = None,
    ) -> None:
        super().__init__(
            id=id, resource=resource, slot=slot, epoch=epoch, spec=spec, door=door, saved=saved, stopping=stopping
        )
        self._call = call

    def emit(self, payload: object, key: str | int | None = None, to: str | None = None, confirm: bool = False) -> None:
        """Send one message; it leaves the fleet once, however many replicas send it. A sign of life.

        With `confirm` it is in the sink, or on disk, when this returns; Rejected says why it never will be.
        """
        self._call(self._door.emit([Message(payload, key, to, confirm)]))

    def emit_many(self, messages: Iterable[object], to: str | None = None, confirm: bool = False) -> None:
        """Send several: payloads, or `Message`s with keys of their own."""
        self._call(self._door.emit(_messages(messages, to, confirm)))

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep `state`, which JSON must be able to hold, for the task that comes after this one."""
        self._call(self._save(state))


@dataclass(frozen=True, kw_only=True)  # a struct could not be inspected: the type of `log` is not imported here
class Run:
    """One attempt of one run of a job."""

    id: str
    job: str
    attempt: int
    """1 for the first."""

    due: datetime | None
    """When it should have started, with its time zone; None if it was started by hand."""

    token: int
    """Greater for each later attempt; others can refuse effects of an older one by it."""

    stopping: Stopping
    log: "logging.Logger"
    """Its lines are kept with the run's output."""

    payload: Any = None
    """What the caller who started it gave it, as JSON has it."""


def seconds(timeout: float | str | timedelta | None) -> float | None:
    """A time-out as users write it, in seconds."""
    if isinstance(timeout, str):
        try:
            timeout = durations.parse(timeout)
        except ValueError as error:
            raise Invalid(str(error)) from None
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def _messages(items: Iterable[object], to: str | None, confirm: bool) -> list[Message]:
    if isinstance(items, bytes | str | Mapping):
        raise Invalid(f"emit_many takes a list of payloads, not {shown(items)}; use emit for one")
    return [item if isinstance(item, Message) else Message(item, None, to, confirm) for item in items]


def _key(key: object) -> str | None:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if key is None or isinstance(key, str):
        return _name("the key", key)
    raise Invalid(f"the key is {shown(key)}; it must be a str or an int")


def _to(to: object) -> str | None:
    if to is None or isinstance(to, str):
        return _name("to", to)
    raise Invalid(f"to is {shown(to)}; it must be a str: a routing key or a topic")


def _name(what: str, name: str | None) -> str | None:
    """A name that can be sent. One that cannot be encoded would make other messages of the same batch fail too."""
    if name is None:
        return None
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{what} is {shown(name)}, which UTF-8 cannot hold; send text without lone surrogates") from None
    if size > LARGEST_NAME:
        raise Invalid(f"{what} has {size} bytes; at most {LARGEST_NAME} are sent: shorten it, or hash it")
    return str.__str__(name)  # parsers have strings of their own, which are more than text


def _state(task: str, state: object) -> dict[str, Any]:
    """The state as it will come back: what JSON makes of it."""
    if not isinstance(state, Mapping):
        raise Invalid(f"task {task}: save takes a dict, not {shown(state)}")
    try:
        data = _JSON.encode(dict(state))
        plain = msgspec.json.decode(data, type=dict[str, Any])
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Invalid(f"task {task}: JSON cannot hold what it saves ({error}); save plain data") from None
    if b"null" in data and (found := _not_finite(msgspec.to_builtins(dict(state), str_keys=True))):
        raise Invalid(f"task {task}: {found}, which JSON does not have; save None or a str in its place")
    return plain


def _not_finite(value: object, where: str = "") -> str:
    """Where in plain data a number is nan or infinite, of which JSON would make null; nothing if none is."""
    match value:
        case float() if not math.isfinite(value):
            return f"{where} is {value}"
        case dict():
            inside = ((f"{where}.{name}" if where else str(name), each) for name, each in value.items())
        case list() | tuple():
            inside = ((f"{where}[{number}]", each) for number, each in enumerate(value))
        case _:
            return ""
    return next(filter(None, (_not_finite(each, place) for place, each in inside)), "")
