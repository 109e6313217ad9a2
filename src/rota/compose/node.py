"""One node, put together.

Its parts do not wait for each other: the runtime runs the app, the doors answer, the member takes part in the fleet for
as long as the store lets it. They are started from top to bottom and stopped from bottom to top.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from rota.compose.doors import open_doors, reload, verbs
from rota.compose.member import FleetMember
from rota.compose.metrics import registry
from rota.compose.parts import NodeParts, NodeSettings
from rota.compose.runtime import Runtime
from rota.doors.health import HealthChecks
from rota.doors.telemetry import send_metrics
from rota.fleet.access import tokens as token
from rota.kit.time.clock import SYSTEM, Clock
from rota.model.errors import RotaError
from rota.runtime import control_socket
from rota.runtime.loader.processes import LoadError
from rota.runtime.manager import Condition, keep_notified
from rota.runtime.printed import keep_tidy
from rota.runtime.system import data_folder, kernel
from rota.runtime.system.data_folder import DataFolder
from rota.runtime.system.leftovers import end_leftovers
from rota.services.admin.doors import Admins

log = logging.getLogger(__name__)

SWITCH = 0.001
"""Seconds after which a computing thread lets others run: each system call of the event loop waits for that."""

LAST_WORDS = 2.0
"""Seconds a stopping node may take to write what its tasks saved last."""

PROGRESS = timedelta(seconds=10)
"""How long the node's own loops may stand still before it is not healthy."""


class AppFailed(RotaError):
    """The app cannot be loaded; fix it and start again."""


class Stop:
    """How a node is asked to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        """Set when the node should finish what runs, then stop."""

        self.now = asyncio.Event()
        """Set when the node should stop at once."""

    def ask(self, now: bool = False) -> None:
        """Stop; with `now` at once, otherwise after finishing what runs."""
        self.asked.set()
        if now:
            self.now.set()


async def run_node(settings: NodeSettings, stop: Stop, clock: Clock = SYSTEM) -> None:
    """Run one node until `stop`, which may come at any time, also while the node is still starting."""
    with data_folder.hold(settings.node.data) as folder:
        kernel.adopt_orphans()
        kernel.raise_descriptor_limit()
        sys.setswitchinterval(SWITCH)
        end_leftovers(folder.home)
        await _Node(settings, folder, clock).run(stop)


class _Node:
    """The life of one node."""

    def __init__(self, settings: NodeSettings, folder: DataFolder, clock: Clock) -> None:
        self._parts, self._clock = NodeParts(settings, folder, clock), clock
        self._state, self._settings = self._parts.state, settings
        self._health = HealthChecks(clock)

    async def run(self, stop: Stop) -> None:
        """Start, run and stop."""
        parts, state, settings = self._parts, self._state, self._settings
        async with AsyncExitStack() as up:
            if state.runtime is not None:
                enclosure = state.runtime.generations.target.enclosure
                up.callback(enclosure.close)
                enclosure.open(parts.folder.home, parts.folder.path)
            if parts.relay_place is not None:
                up.callback(parts.relay_place.door.close)
            await up.enter_async_context(control_socket.serve(parts.folder.path, verbs(state, stop.ask)))
            await up.enter_async_context(
                open_doors(
                    state,
                    settings.node,
                    self._health,
                    parts.doorkeeper,
                    parts.certificates,
                    may_move=settings.may_move,
                    may_lack_link=settings.may_move or settings.sockets is not None,
                )
            )
            if settings.node.insecure:
                state.journal.tell("node.insecure", state.id, **state.doors)
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
            async with asyncio.TaskGroup() as loops:
                running = [
                    loops.create_task(self._turn(), name="progress"),
                    loops.create_task(state.meter.run(), name="load"),
                    loops.create_task(token.keep_fresh(parts.token, parts.renew_token), name="token"),
                    loops.create_task(self._send_relay_tokens(), name="relay tokens"),
                ]
                if settings.telemetry is not None:
                    refresh = state.service_figures.refresh
                    sending = send_metrics(settings.telemetry, registry(state.figures), state.id, refresh)
                    running.append(loops.create_task(sending, name="telemetry"))
                if settings.manager.listens:
                    running.append(loops.create_task(keep_notified(settings.manager, self._condition), name="manager"))
                try:
                    if state.runtime is not None:
                        running.append(loops.create_task(self._run_app(state.runtime), name="runtime"))
                        services = state.runtime.services
                        state.admins = Admins(
                            parts.folder.path, services, lambda: reload(state), stop.ask, note=state.notes.note
                        )
                        running.append(loops.create_task(state.admins.run(), name="admin"))
                        if not await _unless(stop.asked, self._load(state.runtime)):
                            return
                    running.append(loops.create_task(FleetMember(parts).run(), name="member"))
                    await stop.asked.wait()
                    log.info("stopping", extra={"node": state.id})
                    settings.manager.notify(STOPPING=1)
                    if state.runtime is not None:
                        await _unless(stop.now, self._finish(state.runtime))
                finally:
                    if state.runtime is not None:
                        await state.runtime.kill()
                    for part in reversed(running):
                        part.cancel()

    # The app

    async def _load(self, runtime: Runtime) -> None:
        try:
            await runtime.load()
        except LoadError as error:
            app = runtime.generations.target.app
            details = f"\n{error.details.rstrip()}" if error.details else ""
            raise AppFailed(f"app {app}: {error}{details}") from None

    async def _run_app(self, runtime: Runtime) -> None:
        async with asyncio.TaskGroup() as parts:
            if self._state.printed is not None:
                parts.create_task(keep_tidy(self._state.printed, self._clock), name="printed lines")
            parts.create_task(runtime.run(self._health.expect("crew", PROGRESS)), name="crew")

    async def _send_relay_tokens(self) -> None:
        """Send the relay the tokens that are valid; they change with the store, with the node's file, and with time."""
        while True:
            if self._state.runtime is not None and (relay := self._state.runtime.relay) is not None:
                relay.admit(self._parts.token(), self._parts.doorkeeper.for_nodes())
            await asyncio.sleep(1)

    def _reload(self) -> None:
        """Load what changed on disk."""
        self._parts.read_settings_again()
        if self._state.runtime is not None:
            self._state.runtime.reload_soon()

    async def _turn(self) -> None:
        """Note that the loop turns."""
        stamp = self._health.expect("loop", PROGRESS)
        while True:
            stamp()
            await asyncio.sleep(1)

    def _condition(self) -> Condition:
        """The node's condition, for the service manager."""
        state, work = self._state, self._state.runtime.status() if self._state.runtime else None
        is_in = state.session is not None
        place = "leading" if state.term else "following" if is_in else "not in the fleet"
        tasks = f"; {work.app or 'no app'}, {work.tasks_running} of {work.tasks_ordered} tasks run" if work else ""
        return Condition(is_in, self._health.healthy().is_well, f"node {state.id}, {place}{tasks}")

    async def _finish(self, runtime: Runtime) -> None:
        """Let running work end, and write what it saved last."""
        await runtime.drain()
        if self._state.store is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await self._state.outcomes.settled.wait()
                    await runtime.logs.write_down()
                    await runtime.saves.flush(self._state.store, self._state.id)


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do `work` to its end, unless `event` comes first; returns whether it was done."""
    doing, waiting = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait([doing, waiting], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
            return True
        return False
    finally:
        for task in (doing, waiting):
            task.cancel()
        await asyncio.wait([doing, waiting])
