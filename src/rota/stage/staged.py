"""The objects on a stage: tasks, the sink their messages go to, and clients of services.

A staged task is its own door: what its function emits goes to the stage's sink, and what it saves is kept for the next
task of the same resource and slot.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from rota.model.errors import Invalid
from rota.resources.core.spec import Resource
from rota.sdk.context import Call, Message, Stopping, SyncTask, Task, seconds
from rota.sdk.declared import ResourceKind
from rota.services.core.context import Client, Reply, Request
from rota.stage.aside import FunctionThread

DEDUP = timedelta(seconds=30)
"""How long the second copy of a message is dropped."""


class Sink:
    """The messages that left the stage: `messages` has them without second copies, as a sink would get them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.emitted: list[Message] = []
        """All of them, second copies included."""

        self._seen: dict[tuple[str, str, str | bytes], float] = {}

    @property
    def payloads(self) -> list[bytes]:
        """The messages' payloads."""
        return [message.payload for message in self.messages]

    def json(self) -> list[Any]:
        """The messages' payloads, read as JSON."""
        return [msgspec.json.decode(payload) for payload in self.payloads]

    def clear(self) -> None:
        """Forget the messages so far; second copies of them are still dropped."""
        self.messages.clear()
        self.emitted.clear()

    def take(self, kind: str, resource: str, message: Message, now: float) -> None:
        """Keep a message, unless another copy of it came just now."""
        self.emitted.append(message)
        mark = (kind, resource, message.payload if message.key is None else message.key)
        if now - self._seen.get(mark, -DEDUP.total_seconds()) >= DEDUP.total_seconds():
            self._seen[mark] = now
            self.messages.append(message)


Saved = dict[str, dict[str, Any]]
"""Task id → what it saved last; each replica of a resource has its own."""


class StillRunning(AssertionError):
    """Work was asked to stop, and did not stop in time."""


class StagedTask:
    """A task on a stage. `stop` stops it as a fleet would."""

    def __init__(
        self,
        kind: ResourceKind,
        resource: Resource,
        *,
        slot: int,
        epoch: int,
        loop: asyncio.AbstractEventLoop,
        sink: Sink,
        saved: Saved,
        patience: float,
        stop: Callable[["StagedTask"], None],
    ) -> None:
        self.id = f"{resource.kind}/{resource.id}/{slot}"
        self.kind, self.resource, self.slot, self.epoch = kind, resource, slot, epoch
        self._loop, self._sink, self._all_saved, self._stop = loop, sink, saved, stop
        self._last_sign = loop.time()
        self._aside: FunctionThread[Any] | None = None if kind.is_async else FunctionThread(self._run_plainly, patience)
        self.stopping = StageStopping(self._aside.call if self._aside else None)
        self._spec = kind.decode(resource.spec, resource.id)
        self.body = loop.create_task(self._run(), name=self.id)

    @property
    def is_running(self) -> bool:
        """Has its function neither returned nor failed?"""
        return not self.body.done()

    @property
    def is_silent(self) -> bool:
        """Would a fleet restart it, because it gave no sign of life for `silent_after`?"""
        return self._loop.time() - self._last_sign >= self.kind.spec.silent_after.total_seconds()

    @property
    def saved(self) -> dict[str, Any]:
        """What this replica of the resource saved last."""
        return self._all_saved.get(self.id, {})

    def stop(self) -> None:
        """Stop it as a fleet would; StillRunning if it takes longer than the stage's `drain`."""
        self._stop(self)

    async def emit(self, messages: list[Message]) -> None:
        """Take messages, as a door does."""
        self.alive()
        for message in messages:
            self._sink.take(self.resource.kind, self.resource.id, message, self._last_sign)

    def alive(self) -> None:
        """Note a sign of life, as a door does."""
        self._last_sign = self._loop.time()

    async def save(self, state: dict[str, Any]) -> None:
        """Keep the state, as a door does."""
        self._all_saved[self.id] = state

    async def _run(self) -> None:
        if self._aside is not None:
            await self._aside.run()
        else:
            await self.kind.function(Task(**self._given, door=self))

    def _run_plainly(self) -> None:
        assert self._aside is not None
        self.kind.function(SyncTask(**self._given, door=self, call=self._aside.call))

    @property
    def _given(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "resource": self.resource.id,
            "slot": self.slot,
            "epoch": self.epoch,
            "spec": self._spec,
            "saved": self.saved,
            "stopping": self.stopping,
        }

    def __repr__(self) -> str:
        return f"<StagedTask {self.id}>"


class StagedClient:
    """A client of a service on a stage, and the answers it gets."""

    def __init__(self, client: Client | None = None, fields: dict[str, Any] | None = None) -> None:
        self.replies: list[Reply] = []
        self._client, self._fields = client, fields or {}

    def reply(self, request: Request, reply: Reply) -> None:
        """Take an answer, as a request's door does."""
        self.replies.append(reply)

    def client(self) -> Client | None:
        """Who asks."""
        return self._client

    def fields(self) -> dict[str, Any]:
        """The header of its request."""
        return self._fields


class StageStopping(Stopping):
    """The `stopping` of a task or run, in virtual time."""

    def __init__(self, call: Call | None) -> None:
        super().__init__()
        self._call = call
        self._asked = asyncio.Event()

    def set(self) -> None:
        super().set()
        self._asked.set()

    def wait(self, timeout: float | str | timedelta | None = None) -> bool:
        if self._call is None:
            raise Invalid("stopping.wait would block the loop of an async function; use asyncio.sleep")
        if not self.is_set():
            self._call(self._wait(seconds(timeout)))
        return self.is_set()

    async def _wait(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._asked.wait()
        except TimeoutError:
            pass
