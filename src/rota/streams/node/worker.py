"""A stream worker: one stream task in a process of its own.

It opens the stream's source and output, and borrows the agent's store through their channel (`streams.node.lent`). What
it does is `streams.task.run`. A task that is done, or whose group is gone, waits to be stopped: that is the leader's
next step. One that fails or was dismissed says so, and its node gives it back.

A function that is not async has the main thread to itself, and the event loop another: the task answers its group, and
the worker its agent, however long the function takes.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from random import random

import msgspec

from rota.kit.faults import sendable
from rota.kit.time.backoff import delays
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, Revision, origin
from rota.outputs.open import open_committer
from rota.outputs.open import preload as preload_output
from rota.outputs.port import Committer
from rota.resources.pipe import StopTask, TaskEnded, TaskSilent, TaskStarted
from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.pipes.channel import Channel
from rota.runtime.pipes.worker import Beat, Finish, Registered
from rota.runtime.worker.calls import Calls
from rota.runtime.worker.roles import Setup
from rota.sdk.app import App
from rota.sdk.declared import Stream
from rota.sources.open import open_source
from rota.sources.open import preload as preload_source
from rota.sources.port import Source, Vanished
from rota.store.port import Put
from rota.streams.core.records import SkipRecord
from rota.streams.core.spec import StreamSpec
from rota.streams.core.vanished import Skip, decide
from rota.streams.node.lent import OWN, LentStore
from rota.streams.node.letter_files import Letters
from rota.streams.pipe import AskStore, StoreSaid, stream_of
from rota.streams.task.assigned import PATIENCE, Assigned, SequenceLimits
from rota.streams.task.progress import GROUP_GONE
from rota.streams.task.run import StreamTask
from rota.streams.task.transform import Call, Transform, call_here


def be_stream(app: App, setup: Setup) -> None:
    """Run the one stream task of this worker to its end."""
    brief, sock = setup.brief, setup.sock
    assert brief.order is not None
    stream = app.streams.get(origin(stream_of(brief.order)))
    if stream is not None and not stream.is_async:
        _be_beside(app, brief, brief.order, sock)
    else:
        asyncio.run(_be_whole(Streaming(app, brief, brief.order), sock))


async def _be_whole(streaming: "Streaming", sock: socket.socket) -> None:
    """Run the stream task, function and all, in this thread."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, streaming.stop)
    await streaming.run(sock)


def _be_beside(app: App, brief: Brief, order: Order, sock: socket.socket) -> None:
    """Run the stream task in another thread, and make its calls in this one."""
    calls = Calls()
    streaming = Streaming(app, brief, order, calls.make)

    def live() -> None:
        try:
            asyncio.run(streaming.run(sock))
        finally:
            calls.end()

    signal.signal(signal.SIGTERM, lambda *_: streaming.stop())
    threading.Thread(target=live, name="rota stream", daemon=True).start()
    calls.serve()


def preload(app: App) -> None:
    """Import what an app's streams need: a tenth of a second and more, which each of their workers would take."""
    for stream in app.streams.values():
        with contextlib.suppress(RotaError, ImportError):  # the worker that opens it reports the error
            preload_source(stream.spec.source)
            preload_output(stream.spec.sink)


class Streaming:
    """One stream task, and the agent beside it."""

    def __init__(self, app: App, brief: Brief, order: Order, call: Call = call_here) -> None:
        """`call` makes the calls of the stream's function."""
        self._app, self._brief, self._order, self._call = app, brief, order, call
        self._stream = stream_of(order)
        self._store = LentStore(lambda frame: self._channel.send(AskStore(frame)))
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, sock: socket.socket) -> None:
        """Live until the agent says that it is over, or is gone."""
        self._loop = asyncio.get_running_loop()
        self._channel = Channel(sock, self._heard, self._lost)
        self._channel.send(Registered())
        async with asyncio.TaskGroup() as parts:
            running = [
                parts.create_task(self._beat(), name="beat"),
                parts.create_task(self._work(), name="stream task"),
            ]
            await self._over.wait()
            for part in running:
                part.cancel()
        self._channel.send(TaskEnded(self._order.task, self._order.epoch, was_asked=True))
        await self._channel.flush()
        self._channel.close()

    def stop(self) -> None:
        """Let it be over; from any thread. A worker that has not begun is ended by its agent."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)

    def _heard(self, message: object) -> None:
        match message:
            case StoreSaid(frame=frame):
                self._store.heard(frame)
            case StopTask() | Finish():
                self._over.set()

    def _lost(self) -> None:
        self._store.lost()
        self._over.set()

    async def _beat(self) -> None:
        while True:
            self._channel.send(Beat())
            await asyncio.sleep(self._brief.beat)

    async def _work(self) -> None:
        """Run the task; if it cannot go on, have it given back."""
        order = self._order
        try:
            error = await self._run(self._declared())
        except RotaError as failed:
            error = str(failed)
        if error and error != GROUP_GONE:
            self._channel.send(TaskSilent(order.task, order.epoch, sendable(error)))

    def _declared(self) -> Stream[..., object]:
        """The stream as this worker's app has it; Invalid if the group was made for another declaration."""
        name = origin(self._stream)
        stream = self._app.streams.get(name)
        if stream is None:
            raise Invalid(f'this node\'s app has no stream "{name}"; reload it')
        if msgspec.json.decode(self._order.spec).get("digest") != stream.spec.digest:
            raise Invalid(f'this node\'s app declares stream "{name}" otherwise than its group; reload it')
        return stream

    async def _run(self, stream: Stream[..., object]) -> str:
        """Why it failed, or nothing."""
        order, spec = self._order, stream.spec
        assigned = Assigned(
            stream=self._stream,
            group=order.resource,
            slot=order.slot,
            epoch=Revision(order.epoch),
            node=NodeId(self._brief.node),
            life=f"{os.getpid()}-{secrets.token_hex(4)}",
        )
        preload_output(spec.sink)  # a worker that was not forked has all of it to do, and better now than when it reads
        async with self._opened(spec) as (source, committer):
            self._channel.send(TaskStarted(order.task, order.epoch))
            task = StreamTask(
                assigned,
                Transform(stream.function, spec.max_errors, call=self._call, timeout=spec.batch_timeout),
                self._store,
                source,
                committer,
                SYSTEM,
                limits=SequenceLimits(
                    rows=spec.checkpoint_rows,
                    bytes=spec.checkpoint_bytes,
                    time=spec.checkpoint_every,
                    batch=spec.batch,
                ),
                lease=OWN,
                put_aside=Letters(Path(self._brief.letters), self._stream, opened=self._brief.letters_at).put_aside,
                vanished=partial(self._go_on, spec.vanished),
            )
            error = await task.run()
        # The node keeps its assignment meanwhile. Its status is stored, and the leader goes on without it.
        if error and error != GROUP_GONE:
            await asyncio.sleep(task.hesitation.total_seconds())
        return error

    @asynccontextmanager
    async def _opened(self, spec: StreamSpec) -> AsyncIterator[tuple[Source, Committer]]:
        """Source and output, however often it takes to reach them."""
        waits = delays(*PATIENCE, random)
        async with AsyncExitStack() as up:
            while True:
                try:
                    source = await up.enter_async_context(open_source(spec.source))
                    output = open_committer(spec.sink, self._stream, self._store)
                    committer = await up.enter_async_context(output)
                    break
                except (Unavailable, Unknown):
                    await up.aclose()
                await asyncio.sleep(next(waits).total_seconds())
            yield source, committer

    async def _go_on(self, policy: str, lost: Vanished) -> int | None:
        """Where to go on behind records that are gone, with a SkipRecord written; None if the stream waits for an
        operator.

        The record is written before the offsets move: even if this worker dies, every gap is recorded.
        """
        # A source that was made anew is handled by the leader: all groups belong to the one before it.
        verdict = decide(lost, policy, SYSTEM.wall(), is_anew=False)
        if not isinstance(verdict, Skip):
            return None
        await self._keep(
            SkipRecord(
                stream=self._stream,
                partition=verdict.partition,
                first=verdict.gap.first,
                last=verdict.gap.last,
                offset=verdict.offset,
                policy=policy,
                why=verdict.why,
                at=verdict.at,
            )
        )
        return verdict.offset

    async def _keep(self, skip: SkipRecord) -> None:
        waits = delays(*PATIENCE, random)
        put = Put(keys.stream_skip(skip.stream, skip.partition, skip.first), codec.encode(skip))
        while True:
            with contextlib.suppress(Unavailable, Unknown):
                await self._store.commit(put)
                return
            await asyncio.sleep(next(waits).total_seconds())
