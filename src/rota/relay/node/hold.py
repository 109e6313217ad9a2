"""The agent's side of the relay process: it starts the process, sends it what it must know, connects workers to it, and
restarts it.

There is a relay once the app has a kind of resource with a sink, or an earlier life has left messages in a spool. What
the process must know (the map, the other relays, epochs) is kept here and sent, whole, to each new process. Each worker
whose tasks may emit gets one end of a socket pair, and the relay the other; a new relay process gets new ones, and the
tasks notice nothing.
"""

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.fleet.members.journal import Tell
from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.model.config import LogConfig, RelayConfig
from rota.model.errors import Unavailable
from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap, RelayStatus, ResourceTally, SinkState
from rota.relay.node.pipe import EmitTo, LineLost, Unsent
from rota.relay.process.pipe import (
    AskRest,
    AskTallies,
    BeRelay,
    Fences,
    RelayIs,
    RelaysAre,
    RelayTold,
    Revoked,
    SenderGone,
    TakeLine,
    Tokens,
)
from rota.relay.process.works import left_behind
from rota.runtime.core.restart import Falls, RestartPolicy
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.posts import CANARY
from rota.runtime.crew.worker import Worker
from rota.runtime.pipes.brief import Emitting
from rota.runtime.pipes.channel import pair
from rota.runtime.pipes.child import GiveUp
from rota.runtime.system.children import ChildProcess, start
from rota.sdk.summary import AppSummary

log = logging.getLogger(__name__)

LOOK = 0.05
"""Seconds between two questions whether the relay has anything left."""

GOODBYE = 1.0
"""Seconds the relay has to end after it was asked to."""

WATCH = 5.0
"""Seconds between two checks that it still answers."""

STRIKES = 6
"""Consecutive unanswered questions, each `children.ANSWER` late, after which it counts as frozen."""

MISSED = 3.0
"""Seconds without a relay after which the fleet learns that this node has none."""

EMITTING = ("host", "task")
"""Workers whose tasks may emit."""

ENDED = "not acked when its worker ended"


@dataclass(frozen=True, kw_only=True)
class RelayPlace:
    """Where a node's relay is."""

    config: RelayConfig
    folder: Path
    """Where its spools are."""

    door: socket.socket
    """The listening socket for other relays; the agent keeps it while relay processes come and go."""

    address: str
    """The address that is published to the other relays."""

    token: Callable[[], str] = field(repr=False)
    """Gives the token that it shows to the others."""

    tls: Path | None = None
    """The folder with the node's certificates, if relays speak TLS."""

    log: LogConfig = field(default_factory=LogConfig)

    @property
    def emitting(self) -> Emitting:
        """What a worker's brief says about emitting."""
        config = self.config
        return Emitting(
            sink=config.sink or "",
            messages=config.outbox_messages,
            bytes=config.outbox_bytes,
            flush=config.flush.total_seconds(),
        )

    def order(self, node: NodeId) -> BeRelay:
        """The first message to a new relay process of this node."""
        config = self.config
        return BeRelay(
            node=node,
            address=self.address,
            folder=str(self.folder),
            token=self.token(),
            tls=str(self.tls.absolute()) if self.tls else "",
            spool_bytes=config.spool_bytes,
            window=config.window,
            held_messages=config.held_messages,
            held_bytes=config.held_bytes,
        )


class RelayProcess(ChildProcess[RelayTold]):
    """One relay process."""

    def __init__(
        self, node: NodeId, place: RelayPlace, heard: Callable[[Any], None], gone: Callable[["RelayProcess"], None]
    ) -> None:
        self.ended = asyncio.Event()
        self.senders: set[int] = set()
        """Workers that have a line to it."""

        self.has_answered = False
        """Has it ever answered a question?"""

        self._heard, self._gone = heard, gone
        door = place.door.fileno()
        flags = [f"--node={node}", f"--door={door}"]
        flags += [f"--log-level={place.log.level}", f"--log-format={place.log.format}"]
        super().__init__("the relay", lambda control: start("rota.relay.process.main", control, flags, [door]))

    def _hear(self, message: Any) -> None:
        if isinstance(message, RelayTold):
            self.has_answered = True
            self._answered(message)
        else:
            self._heard(message)

    def _ended(self) -> None:
        self.ended.set()
        self.handle.close()
        self._gone(self)


class NodeRelay:
    """The relay of one node, across its processes. A witness of the crew."""

    def __init__(
        self,
        node: NodeId,
        place: RelayPlace,
        policy: RestartPolicy,
        clock: Clock,
        tell: Tell,
        workers: Callable[[], Iterable[Worker]],
    ) -> None:
        self.node, self.place = node, place
        self.process: RelayProcess | None = None
        self.changed = asyncio.Event()
        """Set when `status` may have changed."""

        self.exclusive_kinds: frozenset[str] = frozenset()
        """Kinds whose messages are taken only from the task of the latest epoch."""

        self.has_exclusive = asyncio.Event()

        self._policy, self._clock, self._tell, self._workers = policy, clock, tell, workers
        self._is_wanted = self._is_leaving = False
        self._has_rest = bool(left_behind(place.folder))
        """Has an earlier process left messages in a spool?"""

        self._status: RelayStatus | None = None
        self._falls = Falls()
        self._born = self._seen = clock.monotonic()
        self._fleet = RelaysAre(None, {})
        self._has_heir = False
        """Is there another relay that stays in the fleet?"""

        self._revoked: list[str] = []
        self._tokens: Tokens | None = None
        self._fences: dict[tuple[str, str], int] = {}
        self._incarnation = ""
        self._unsent = 0
        self._down: set[str] = set()
        self._rejects: set[tuple[str, str]] = set()

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return self.process.handle.pid if self.process else None

    @property
    def status(self) -> RelayStatus | None:
        """Its status; None if the fleet should not count on this node's relay."""
        if self.process is None and self._clock.monotonic() - self._seen > MISSED:
            return None
        if self._status is None:
            return None
        refused = Counter(self._status.refused)
        if self._unsent:
            refused[ENDED] += self._unsent
        return replace(self._status, is_leaving=self._is_leaving, refused=dict(refused))

    # Keeping it

    def serve(self, app: AppSummary) -> None:
        """Run a relay from now on, if the app or an earlier process has messages for it."""
        with_sink = [kind for kind in app.resources if kind.sink or self.place.config.sink]
        self.exclusive_kinds = frozenset(kind.name for kind in with_sink if kind.exclusive)
        if self.exclusive_kinds:
            self.has_exclusive.set()
        if with_sink or self._has_rest:
            self._is_wanted = True
        self.mend()

    def mend(self) -> None:
        """Start it if it is missing and its waiting time is over; connect workers that have no line."""
        now = self._clock.monotonic()
        if self._is_wanted and self.process is None and self._falls.start_at(self._policy) <= now:
            try:
                order = self.place.order(self.node)
                process = self.process = RelayProcess(self.node, self.place, self._heard, self._gone)
            except OSError as error:
                self._fell(f"it could not be started: {error.strerror}")
                return
            self._born = now
            process.send(order)  # the process may have ended already
            process.send(self._fleet)
            self._send_fences(self._fences)
            process.send(Revoked(self._revoked))
            if self._tokens is not None:
                process.send(self._tokens)
        if self.process is not None:
            self._seen = now
            self._connect_all(self.process)

    async def watch(self) -> None:
        """End a relay that no longer answers, until cancelled. Its successor loses no message; waiting for a frozen
        relay would only delay them.

        Applies only to a relay that has answered once: reading a large spool at the start may take long.
        """
        strikes = 0
        while True:
            await asyncio.sleep(WATCH)
            if (process := self.process) is None:
                continue
            try:
                await process.ask(AskRest)
                strikes = 0
            except Unavailable:
                strikes = strikes + 1 if process.has_answered else 0
            if strikes >= STRIKES and process is self.process:
                log.error("relay frozen", extra={"node": self.node, "pid": process.handle.pid})
                process.kill()

    def kill(self) -> None:
        """End it now."""
        self._is_wanted = False
        if self.process is not None:
            self.process.kill()

    async def leave(self, seconds: float) -> None:
        """Let it hand over what other relays need and write the rest to disk, for `seconds` at most; then end it."""
        if self.process is None:
            return
        self._is_leaving = True
        self.changed.set()
        with contextlib.suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(seconds):
                while self.process is not None:
                    if self._is_left_out and (await self.process.ask(AskRest)).is_safe:
                        break
                    await asyncio.sleep(LOOK)
        self._is_wanted = False
        if (process := self.process) is not None:
            process.send(GiveUp())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE):
                    await process.ended.wait()
        self.kill()

    @property
    def _is_left_out(self) -> bool:
        """Do other relays have our resources now, or is there no other relay to take them?"""
        status, relay_map = self._status, self._fleet.relay_map
        if relay_map is None or not self._has_heir:
            return True
        is_caught_up = status is not None and status.map_version == relay_map.version and not status.is_moving
        return self.node not in relay_map.nodes and is_caught_up

    # What it should know

    def joined(self, incarnation: str) -> None:
        """The node has joined this incarnation of the store. In another one map versions count anew, so the relay
        restarts."""
        if self._incarnation not in ("", incarnation):
            self._fleet, self._fences = RelaysAre(None, {}), {}
            if self.process is not None:
                self.process.kill()
        self._incarnation = incarnation

    def follow(self, relay_map: RelayMap | None, members: Mapping[NodeId, RelayStatus]) -> None:
        """Pass on the map and the status of the fleet's relays."""
        self._has_heir = any(node != self.node and not status.is_leaving for node, status in members.items())
        fleet = RelaysAre(relay_map, {str(node): status.address for node, status in members.items()})
        if fleet != self._fleet:
            self._fleet = fleet
            if self.process is not None:
                self.process.send(fleet)

    def revoke(self, serials: Iterable[str]) -> None:
        """These certificates are revoked: the complete list."""
        self._revoked = sorted(serials)
        if self.process is not None:
            self.process.send(Revoked(self._revoked))

    def admit(self, token: str, taken: list[str]) -> None:
        """The token to show to other relays from now on, and the digests of those that they may show."""
        tokens = Tokens(token, taken)
        if tokens != self._tokens:
            self._tokens = tokens
            if self.process is not None:
                self.process.send(tokens)

    def fence(self, fences: Mapping[tuple[str, str], int]) -> None:
        """Exclusive resources and the epochs of their assignments."""
        self._fences.update(fences)
        if self.process is not None:
            self._send_fences(fences)

    # What is asked of it

    async def tallies(self, kind: str, resource: str | None = None) -> tuple[ResourceTally, ...]:
        """The relay's counts of a kind's resources, or of one resource."""
        if self.process is None:
            return ()
        return (await self.process.ask(lambda number: AskTallies(number, kind, resource))).tallies

    # Witness

    def registered(self, worker: Worker) -> None:
        self.mend()

    def said(self, worker: Worker, message: Any) -> None:
        match message:
            case Unsent(count=count):
                self._unsent += count
                self._tell("relay.unsent", f"{worker.brief.pool}/{worker.brief.slot}", count=count)
            case LineLost() if self.process is not None:
                self.process.senders.discard(worker.id)  # `mend` gives it another

    def draining(self, worker: Worker) -> None:
        pass

    def ended(self, worker: Worker, why: str) -> None:
        if self.process is not None and worker.brief.role in EMITTING:  # also if its line was lost before
            self.process.senders.discard(worker.id)
            self.process.send(SenderGone(str(worker.id)))

    # Lines

    def _connect_all(self, process: RelayProcess) -> None:
        for worker in self._workers():
            brief = worker.brief
            may_emit = brief.role in EMITTING and not brief.pool.startswith(CANARY)
            if may_emit and worker.phase != WorkerPhase.STARTING and worker.id not in process.senders:
                self._connect(process, worker)

    def _connect(self, process: RelayProcess, worker: Worker) -> None:
        try:
            theirs, relays = pair()
        except OSError as error:  # out of descriptors; the next look tries again
            log.warning("no line to the relay", extra={"worker": worker.id, "why": error.strerror})
            return
        process.senders.add(worker.id)
        process.send(TakeLine(str(worker.id)), [relays.detach()])
        worker.send(EmitTo(), [theirs.detach()])

    # What it says

    def _heard(self, message: Any) -> None:
        if isinstance(message, RelayIs):
            self._status = message.status
            self.changed.set()
            self._report_sinks(message.status)

    def _report_sinks(self, status: RelayStatus) -> None:
        for sink in status.sinks:
            if sink.state == SinkState.UP and sink.sink in self._down:
                self._down.discard(sink.sink)
                self._tell("sink.up", sink.sink)
            elif sink.state == SinkState.DOWN and sink.last_error and sink.sink not in self._down:
                self._down.add(sink.sink)
                self._tell("sink.down", sink.sink, why=sink.last_error)
            for why in sink.rejected:
                if (sink.sink, why) not in self._rejects:
                    self._rejects.add((sink.sink, why))
                    self._tell("sink.rejected", sink.sink, why=why)

    def _send_fences(self, fences: Mapping[tuple[str, str], int]) -> None:
        if self.process is not None and fences:
            listed = tuple((kind, resource, epoch) for (kind, resource), epoch in fences.items())
            self.process.send(Fences(listed))

    def _gone(self, process: RelayProcess) -> None:
        if self.process is not process:
            return
        self.process = None
        self._rejects.clear()
        if self._is_wanted:
            self._fell("ended")
            self._tell("relay.exited", self.node, pid=process.handle.pid)
        self.changed.set()

    def _fell(self, why: str) -> None:
        now = self._clock.monotonic()
        self._falls = self._falls.add(now, timedelta(seconds=now - self._born), why, self._policy)
