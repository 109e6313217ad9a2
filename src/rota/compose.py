"""The one place that puts the parts together.

A node is made of parts that do not wait for each other: the runtime runs the app, the doors answer, the member takes
part in the fleet for as long as the store lets it. They are started from top to bottom and stopped from bottom to top.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rota import __version__
from rota.api.health import Health
from rota.api.listen import address_of, bind
from rota.api.metrics import Figures, registry
from rota.control.events import keep_events
from rota.control.leader import Candidate
from rota.control.retention import clear_away
from rota.control.roster import keep_roster
from rota.control.term import Term
from rota.kit.clock import SYSTEM, Clock
from rota.model.config import EventsConfig, NodeConfig, RetentionConfig, RuntimeConfig, split_address
from rota.model.errors import Conflict, Invalid, RotaError
from rota.model.ids import SessionId
from rota.model.node import NodeStatus
from rota.node import control_socket, data_folder, kernel
from rota.node.assignments import follow_assignments
from rota.node.data_folder import DataFolder
from rota.node.journal import Journal
from rota.node.link import LinkHandler
from rota.node.loaders import LoadError, Target
from rota.node.runtime import Runtime
from rota.node.session import Identity, Session, in_session
from rota.node.status import publish_status
from rota.rpc.open import serve_link
from rota.store import open_store
from rota.store.events import EventLog

log = logging.getLogger(__name__)

PROGRESS = timedelta(seconds=10)
"""How long the node's own loops may stand still before it is not healthy."""


class AppFailed(RotaError):
    """The app cannot be loaded; mend it and start again."""


class Stop:
    """How a node is asked to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        """Finish what runs, then stop."""

        self.now = asyncio.Event()
        """Stop at once."""

    def at_once(self) -> None:
        """Stop without finishing anything."""
        self.asked.set()
        self.now.set()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All sections a node is made from."""

    node: NodeConfig
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    events: EventsConfig = field(default_factory=EventsConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    may_move: bool = False
    """May the doors open on other ports if theirs are taken? (Nobody asked for these.)"""


async def run_node(settings: Settings, stop: Stop, clock: Clock = SYSTEM) -> None:
    """Run one node until it is told to stop, which may be at any time, also while it is still starting."""
    with data_folder.hold(settings.node.data) as folder:
        kernel.adopt_orphans()
        async with asyncio.TaskGroup() as parts:
            node = parts.create_task(_Node(settings, folder, clock).run(stop), name="node")
            await stop.asked.wait()
            if not node.done():
                await asyncio.wait([node])


class _Node:
    """The parts of one node, and what they know of each other."""

    def __init__(self, settings: Settings, folder: DataFolder, clock: Clock) -> None:
        config = settings.node
        self._settings, self._folder, self._clock = settings, folder, clock
        self._id = folder.node_id(config.id)
        self._session: Session | None = None
        self._term: Term | None = None
        self._journal = Journal()
        self._runtime: Runtime | None = None
        self._doors: dict[str, str] = {}
        self._health = Health(clock)
        if config.app is not None and config.role.may_work:
            target = Target(config.app, self._id)
            self._runtime = Runtime(target, settings.runtime, clock, self._journal.tell, folder.path / "stacks")

    async def run(self, stop: Stop) -> None:
        """Start, live, stop."""
        async with AsyncExitStack() as up:
            await up.enter_async_context(control_socket.serve(self._folder.path, self._verbs(stop)))
            await up.enter_async_context(self._open_doors())
            async with asyncio.TaskGroup() as parts:
                running = [parts.create_task(self._loop_turns(), name="progress")]
                try:
                    if self._runtime is not None:
                        running.append(parts.create_task(self._run_runtime(self._runtime), name="runtime"))
                        if not await _unless(stop.asked, self._load(self._runtime)):
                            return
                    running.append(parts.create_task(self._be_member(), name="member"))
                    await stop.asked.wait()
                    log.info("stopping", extra={"node": self._id})
                    if self._runtime is not None:
                        await _unless(stop.now, self._runtime.drain())
                finally:
                    if self._runtime is not None:
                        await self._runtime.kill()
                    for part in reversed(running):
                        part.cancel()

    # The fleet

    async def _be_member(self) -> None:
        """Take part in the fleet, in one session after the other."""
        config = self._settings.node
        identity = Identity(
            node=self._id,
            home=self._folder.home,
            role=config.role,
            lease_ttl=config.lease_ttl,
            http=self._doors.get("http", ""),
            grpc=self._doors.get("grpc", ""),
            labels=config.labels,
            slots=config.slots,
            version=__version__,
        )
        async with open_store(config.store, clock=self._clock) as store:
            events = EventLog(store, self._id, self._clock)
            self._journal.write_to(events)
            async with asyncio.TaskGroup() as parts:
                writing = parts.create_task(events.run(), name="events")
                try:
                    await in_session(store, identity, self._clock, lambda session: self._in_session(store, session))
                finally:
                    writing.cancel()

    async def _in_session(self, store: Any, session: Session) -> None:
        self._session = session
        try:
            async with asyncio.TaskGroup() as parts:
                if self._runtime is not None:
                    runtime, keeper = self._runtime, session.keeper
                    keeper.tell(lambda: runtime.extend(keeper.safe_until, keeper.ttl))
                    parts.create_task(follow_assignments(store, self._id, runtime.want), name="assignments")
                    parts.create_task(publish_status(store, session, runtime.status), name="status")
                if session.node.role.may_lead:
                    node = session.node
                    candidate = Candidate(
                        store, session.keeper, session.incarnation, node.id, node.session, self._clock, self._lead
                    )
                    parts.create_task(candidate.run(), name="candidate")
                else:
                    await asyncio.Event().wait()
        finally:
            self._session = None

    async def _lead(self, term: Term) -> None:
        self._term = term
        self._journal.tell("leader.elected", self._id, term=term.number)
        try:
            async with asyncio.TaskGroup() as duties:
                duties.create_task(keep_roster(term, self._journal.tell), name="roster")
                duties.create_task(clear_away(term, self._settings.retention, self._clock), name="retention")
                duties.create_task(keep_events(term, self._settings.events), name="events retention")
        finally:
            self._term = None

    # The app

    async def _load(self, runtime: Runtime) -> None:
        try:
            await runtime.load()
        except LoadError as error:
            self._journal.tell("app.failed", runtime.generations.target.app, why=str(error))
            details = f"\n{error.details.rstrip()}" if error.details else ""
            raise AppFailed(f"app {runtime.generations.target.app}: {error}{details}") from None

    async def _run_runtime(self, runtime: Runtime) -> None:
        stamp = self._health.expect("crew", PROGRESS)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_soon, runtime)
        try:
            await runtime.run(stamp)
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    def _reload_soon(self, runtime: Runtime) -> None:
        task = asyncio.get_running_loop().create_task(self._reload(runtime), name="reload")
        self._reloading = task  # held, or it might be collected while it runs

    async def _reload(self, runtime: Runtime) -> None:
        with contextlib.suppress(RotaError):  # told as an event by whoever failed
            await runtime.reloads.reload()

    # The doors

    @asynccontextmanager
    async def _open_doors(self) -> AsyncIterator[None]:
        config = self._settings.node
        async with AsyncExitStack() as up:
            http = self._bind(config.http)
            up.callback(http.close)
            self._doors["http"] = _reachable(config, address_of(http))
            serving = asyncio.create_task(self._serve_http(http), name="http")
            up.push_async_callback(_cancel, serving)
            await self._open_link(up)
            yield

    async def _serve_http(self, sock: socket.socket) -> None:
        from rota.api.http import door, serve  # noqa: PLC0415  # a quarter second of imports that nothing waits for

        health = self._health
        health.check_ready("session", lambda: None if self._session else "not joined")
        if runtime := self._runtime:
            health.check_ready("workers", lambda: None if runtime.is_ready else "not all workers are ready")
            health.check_ready("stopping", lambda: "the node is stopping" if runtime.is_draining else None)
        await serve(sock, door(health, registry(self._figures), self._show, clock=self._clock))

    async def _open_link(self, up: AsyncExitStack) -> None:
        config = self._settings.node
        handler = LinkHandler(self._id, self._session_id, self._runtime, config.slots, self._clock)
        try:
            try:
                server = await up.enter_async_context(serve_link(f"grpc://{config.grpc}", handler))
            except Conflict:
                if not self._settings.may_move:
                    raise
                host = config.grpc.rpartition(":")[0]
                server = await up.enter_async_context(serve_link(f"grpc://{host}:0", handler))
        except Invalid as error:
            if not self._settings.may_move:
                raise
            log.warning("no node link", extra={"node": self._id, "why": str(error)})
            return
        self._doors["grpc"] = _reachable(config, server.address.removeprefix("grpc://"))

    def _bind(self, address: str) -> socket.socket:
        try:
            return bind(address)
        except Conflict:
            if not self._settings.may_move:
                raise
            return bind(f"{address.rpartition(':')[0]}:0")

    def _verbs(self, stop: Stop) -> dict[str, control_socket.Verb]:
        async def status(_: dict[str, Any]) -> Any:
            return self._show()

        async def end(request: dict[str, Any]) -> Any:
            if request.get("now"):
                stop.at_once()
            stop.asked.set()
            return {"pid": os.getpid()}

        async def reload(_: dict[str, Any]) -> Any:
            done = await self._work().reloads.reload()
            return {"generation": done.generation, "previous": done.previous}

        async def rollback(_: dict[str, Any]) -> Any:
            done = await self._work().reloads.rollback()
            return {"generation": done.generation, "previous": done.previous}

        return {"status": status, "stop": end, "reload": reload, "rollback": rollback}

    def _work(self) -> Runtime:
        if self._runtime is None:
            raise Invalid(f"node {self._id} runs no app; there is nothing to reload")
        return self._runtime

    def _show(self) -> dict[str, Any]:
        """This node, as it sees itself."""
        runtime, session = self._runtime, self._session
        status: NodeStatus | None = runtime.status() if runtime else None
        return {
            "node": self._id,
            "session": session.node.session if session else None,
            "pid": os.getpid(),
            "version": __version__,
            "leads": self._term is not None,
            "term": self._term.number if self._term else None,
            "is_ready": session is not None and (runtime is None or runtime.is_ready),
            "is_draining": runtime is not None and runtime.is_draining,
            "doors": dict(self._doors),
            "work": status,
            "processes": runtime.processes() if runtime else None,
        }

    def _figures(self) -> Figures:
        runtime, session = self._runtime, self._session
        workers: dict[tuple[str, str], int] = {}
        for pool in runtime.status().pools if runtime else ():
            for state in ("ready", "starting", "draining"):
                workers[pool.name, state] = getattr(pool, state)
        return Figures(
            workers=workers,
            exits=runtime.crew.exits if runtime else {},
            reloads=runtime.reloads.outcomes if runtime else {},
            events_dropped=self._journal.dropped,
            leads=self._term is not None,
            lease_safe_s=session.keeper.safe_until - self._clock.monotonic() if session else 0.0,
        )

    # What all parts use

    def _session_id(self) -> SessionId | None:
        return self._session.node.session if self._session else None

    async def _loop_turns(self) -> None:
        stamp = self._health.expect("loop", PROGRESS)
        while True:
            stamp()
            await asyncio.sleep(1)


async def _unless(event: asyncio.Event, work: Any) -> bool:
    """Do `work` to its end, unless `event` comes first; whether it was done."""
    task, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        for each in (task, waiting):
            await _cancel(each)


async def _cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.wait([task])


def _reachable(config: NodeConfig, address: str) -> str:
    """A door's address as the other nodes would dial it."""
    return f"{config.advertised}:{split_address(address)[1]}"
