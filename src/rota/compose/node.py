"""One node, put together.

Its parts do not wait for each other: the runtime runs the app, the doors answer, the member takes part in the fleet for
as long as the store lets it. They are started from top to bottom and stopped from bottom to top.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from rota import __version__
from rota.api.doorkeeper import Doorkeeper
from rota.api.health import Health
from rota.api.listen import address_of, bind
from rota.api.metrics import registry
from rota.api.telemetry import Telemetry, send_metrics
from rota.compose.doors import open_doors, reload, steering_verbs, tls_files, verbs
from rota.compose.jobs import FileJobs, ReadJobs, chores, take_part
from rota.compose.peers import live_together
from rota.compose.state import NodeState
from rota.compose.steering import FleetSteering
from rota.compose.tallies import FleetTallies
from rota.control.audit import keep_audit
from rota.control.declared import Declarations, Read, keep_declared
from rota.control.episodes import tell_waits
from rota.control.events import keep_events
from rota.control.jobs.retention import keep_logs
from rota.control.leader import Candidate
from rota.control.placing import Placing
from rota.control.relays import keep_relay_map
from rota.control.retention import clear_away
from rota.control.roster import keep_roster, last_roster
from rota.control.rules import load_rules
from rota.control.sources import query_sources
from rota.control.streams.keep import keep_streams
from rota.control.supervisor import supervise
from rota.control.term import Term
from rota.decide.access import Access, Gate, known, mark
from rota.decide.fleet import Claim
from rota.kit.clock import SYSTEM, Clock
from rota.model.config import (
    CommandsConfig,
    EventsConfig,
    JobsConfig,
    LogConfig,
    NodeConfig,
    PeersConfig,
    RelayConfig,
    RetentionConfig,
    RuntimeConfig,
    Section,
    SupervisorConfig,
    split_address,
)
from rota.model.errors import Denied, Invalid, RotaError
from rota.model.ids import NodeId
from rota.node import certificates, confine, control_socket, data_folder, kernel, token
from rota.node.admin import Admins
from rota.node.assignments import follow_assignments
from rota.node.data_folder import DataFolder
from rota.node.enclosure import Enclosure
from rota.node.fleet import keep_app_known, wait_to_belong
from rota.node.kept import Kept
from rota.node.leftovers import end_leftovers
from rota.node.loaders import LoadError, Target
from rota.node.manager import Condition, Manager, keep_told
from rota.node.pipes import Order
from rota.node.printed import Printed, keep_tidy
from rota.node.queries import answer_queries
from rota.node.relay.fleet import join_relays
from rota.node.relay.hold import RelayPlace
from rota.node.runtime import Runtime
from rota.node.session import Identity, Session, in_session
from rota.node.status import publish_kinds, publish_status, publish_streams
from rota.store import Store, open_store
from rota.store.events import EventLog
from rota.store.keeper import Keeper
from rota.store.logs.open import open_logs
from rota.store.renewal import renewal_thread

log = logging.getLogger(__name__)

SWITCH = 0.001
"""Seconds after which a thread that computes lets others go on: each system call of the event loop waits for that."""

LETTERS = "dead-letters"
PRINTED = "printed"
LAST_WORDS = 2.0
"""Seconds a stopping node may take to write what its tasks saved last."""

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

    def ask(self, now: bool = False) -> None:
        """Stop, finishing what runs unless it must be now."""
        self.asked.set()
        if now:
            self.now.set()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All sections a node is made from."""

    node: NodeConfig
    runtime: RuntimeConfig = msgspec.field(default_factory=RuntimeConfig)
    commands: CommandsConfig = msgspec.field(default_factory=CommandsConfig)
    relay: RelayConfig = msgspec.field(default_factory=RelayConfig)
    events: EventsConfig = msgspec.field(default_factory=EventsConfig)
    retention: RetentionConfig = msgspec.field(default_factory=RetentionConfig)
    log: LogConfig = msgspec.field(default_factory=LogConfig)
    supervisor: SupervisorConfig = msgspec.field(default_factory=SupervisorConfig)
    peers: PeersConfig = msgspec.field(default_factory=PeersConfig)
    jobs: JobsConfig = msgspec.field(default_factory=JobsConfig)
    resources: Read = lambda: None
    """Reads the resources that a file declares, now and at each reload; None if there is no file."""

    declared_jobs: ReadJobs = lambda: None
    """Reads the jobs that a file declares, likewise."""

    supervisor_again: Callable[[], SupervisorConfig] | None = None
    """Reads `[supervisor]` again at a reload; Invalid or Denied if that fails. None: it cannot change."""

    changed: Callable[[], Sequence[str]] = lambda: ()
    """Names the settings that have changed since and need a restart; Invalid or Denied if they cannot be read."""

    manager: Manager = msgspec.field(default_factory=Manager)
    """Who is told how the node is."""

    telemetry: Telemetry | None = None
    """What is sent to a collector of OpenTelemetry; None: nothing."""

    sockets: int | None = None
    """Descriptor of a channel over which services borrow their sockets; None: they bind their own."""

    may_move: bool = False
    """May the doors open on other ports if theirs are taken? (Nobody asked for these.)"""

    @property
    def sections(self) -> tuple[Section, ...]:
        """Those of flags, the environment and the file that a node reads only when it starts."""
        return (
            self.node,
            self.runtime,
            self.commands,
            self.relay,
            self.events,
            self.retention,
            self.log,
            self.peers,
            self.jobs,
        )


async def run_node(settings: Settings, stop: Stop, clock: Clock = SYSTEM) -> None:
    """Run one node until it is told to stop, which may be at any time, also while it is still starting."""
    with data_folder.hold(settings.node.data) as folder:
        kernel.adopt_orphans()
        kernel.raise_descriptor_limit()
        sys.setswitchinterval(SWITCH)
        end_leftovers(folder.home)
        await _Node(settings, folder, clock).run(stop)


def _confinement(settings: Settings) -> confine.Confinement:
    """What the app may be and have; where there is none, a user that this machine cannot have does not matter."""
    try:
        return confine.find(settings.runtime)
    except (Invalid, Denied):
        if settings.node.app is not None and settings.node.role.may_work:
            raise
        return confine.Confinement()


def _printed(folder: Path, *, is_ours: bool) -> Printed:
    """The lines that workers print, in a folder that is made if need be. It is ours unless the app has a user."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if is_ours and folder.stat().st_uid != os.geteuid():  # that of an earlier life was its app's
        with contextlib.suppress(PermissionError):
            os.chown(folder, os.geteuid(), -1)
    return Printed(folder)


class _Node:
    """The parts of one node."""

    def __init__(self, settings: Settings, folder: DataFolder, clock: Clock) -> None:
        config = settings.node
        self._settings, self._folder, self._clock = settings, folder, clock
        self._health = Health(clock)
        self._state = state = NodeState(folder.node_id(config.id), clock)
        self._new_token = token.make(folder.path) if config.token is None else None
        self._token = token.Held(token.find(config.token, folder.path))
        self._certificates = _certificates(config, state.id)
        self._doorkeeper = Doorkeeper(_gate(self._token), clock, note=state.notes.note, asks_first=True)
        state.tallies = FleetTallies(
            state.id, lambda: state.store, state.count_messages, self._token, tls_files(self._certificates)
        )
        state.steer = FleetSteering(
            state.id, lambda: state.store, steering_verbs(state), self._token, tls_files(self._certificates)
        )
        state.declared = Declarations(settings.resources)
        state.read_settings_again = self._read_settings_again
        self._placing = Placing(settings.supervisor, load_rules(settings.supervisor.rule_names))
        self._relay_place: RelayPlace | None = None
        self._file_jobs = FileJobs(state.id, settings.declared_jobs)
        limits = _confinement(settings)
        self._commands = confine.find_commands(settings.commands, limits)
        if config.app is not None and config.role.may_work:
            letters = confine.own_folder(folder.path, LETTERS, limits)
            printed = confine.own_folder(folder.path, PRINTED, limits)
            state.printed = _printed(folder.path / PRINTED, is_ours=printed is None)
            target = Target(
                config.app,
                state.id,
                settings.log,
                confinement=limits,
                commands=self._commands,
                withheld=confine.withheld(config.store, settings.relay.sink, settings.runtime, os.environ),
                letters=str(letters.absolute()) if letters else "",
                printed=str(printed.absolute()) if printed else "",
                home=folder.home,
                enclosure=Enclosure(limits),
                kept=Kept(folder.path),
            )
            place = self._relay_place = _relay_place(settings, folder, self._token)
            state.runtime = Runtime(
                target,
                settings.runtime,
                clock,
                state.journal.tell,
                folder.path / "stacks",
                relay=place,
                jobs=settings.jobs,
                letters=str(folder.path / LETTERS),
                printed=str((folder.path / PRINTED).absolute()),
            )
            state.services = state.runtime.services
            if settings.sockets is not None:
                state.runtime.services.borrow_from(settings.sockets)

    async def run(self, stop: Stop) -> None:
        """Start, live, stop."""
        state, settings = self._state, self._settings
        async with AsyncExitStack() as up:
            if state.runtime is not None:
                enclosure = state.runtime.generations.target.enclosure
                up.callback(enclosure.close)
                enclosure.open(self._folder.home, self._folder.path)
            if self._relay_place is not None:
                up.callback(self._relay_place.door.close)
            await up.enter_async_context(control_socket.serve(self._folder.path, verbs(state, stop.ask)))
            await up.enter_async_context(
                open_doors(
                    state,
                    settings.node,
                    self._health,
                    self._doorkeeper,
                    self._certificates,
                    may_move=settings.may_move,
                    may_lack_link=settings.may_move or settings.sockets is not None,
                )
            )
            if settings.node.insecure:
                state.journal.tell("node.insecure", state.id, **state.doors)
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
            async with asyncio.TaskGroup() as parts:
                running = [
                    parts.create_task(self._turn(), name="progress"),
                    parts.create_task(state.meter.run(), name="load"),
                    parts.create_task(token.keep_fresh(self._token, self._renew_token), name="token"),
                    parts.create_task(self._tell_relay_tokens(), name="relay tokens"),
                ]
                if settings.telemetry is not None:
                    refresh = state.service_figures.refresh
                    sending = send_metrics(settings.telemetry, registry(state.figures), state.id, refresh)
                    running.append(parts.create_task(sending, name="telemetry"))
                if settings.manager.listens:
                    running.append(parts.create_task(keep_told(settings.manager, self._condition), name="manager"))
                try:
                    if state.runtime is not None:
                        running.append(parts.create_task(self._run_app(state.runtime), name="runtime"))
                        services = state.runtime.services
                        state.admins = Admins(
                            self._folder.path, services, lambda: reload(state), stop.ask, note=state.notes.note
                        )
                        running.append(parts.create_task(state.admins.run(), name="admin"))
                        if not await _unless(stop.asked, self._load(state.runtime)):
                            return
                    running.append(parts.create_task(self._be_member(), name="member"))
                    await stop.asked.wait()
                    log.info("stopping", extra={"node": state.id})
                    settings.manager.tell(STOPPING=1)
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

    def _revoke(self) -> None:
        """Have the relay know which certificates were taken back; the doors ask the doorkeeper."""
        if self._state.runtime is not None and (relay := self._state.runtime.relay) is not None:
            relay.revoke(self._doorkeeper.revoked)

    def _renew_token(self) -> None:
        """The file of our own token has another one; what is shown to other nodes is asked for at each call."""
        self._doorkeeper.renew(_gate(self._token))

    async def _tell_relay_tokens(self) -> None:
        """Have the relay know which tokens count; they change with the store, with our file, and with time."""
        while True:
            if self._state.runtime is not None and (relay := self._state.runtime.relay) is not None:
                relay.admit(self._token(), self._doorkeeper.for_nodes())
            await asyncio.sleep(1)

    def _read_settings_again(self) -> None:
        """Take in what the settings declare, and report what else of them has changed."""
        tell = self._state.journal.tell
        self._state.declared.read_again(tell)
        self._file_jobs.read_again(tell)
        try:
            if (again := self._settings.supervisor_again) is not None:
                self._placing.change(again())
            names = self._settings.changed()
        except (Invalid, Denied) as error:
            tell("config.failed", "settings", why=str(error))
        else:
            if names:
                tell("config.pending", ", ".join(names))

    def _reload(self) -> None:
        """Take in what changed on disk."""
        self._read_settings_again()
        if self._state.runtime is not None:
            self._state.runtime.reload_soon()

    async def _turn(self) -> None:
        """Show that the loop turns."""
        stamp = self._health.expect("loop", PROGRESS)
        while True:
            stamp()
            await asyncio.sleep(1)

    def _condition(self) -> Condition:
        """How the node is, for whoever has started it."""
        state, work = self._state, self._state.runtime.status() if self._state.runtime else None
        is_in = state.session is not None
        place = "leading" if state.term else "following" if is_in else "not in the fleet"
        tasks = f"; {work.app or 'no app'}, {work.tasks_running} of {work.tasks_ordered} tasks run" if work else ""
        return Condition(is_in, self._health.healthy().is_well, f"node {state.id}, {place}{tasks}")

    async def _finish(self, runtime: Runtime) -> None:
        """Let what runs end, and keep what it saved last."""
        await runtime.drain()
        if self._state.store is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await self._state.outcomes.settled.wait()
                    await runtime.logs.write_down()
                    await runtime.saves.flush(self._state.store, self._state.id)

    # The fleet

    async def _be_member(self) -> None:
        """Take part in the fleet, in one session after the other."""
        state = self._state
        url = self._settings.node.store
        async with (
            open_store(url, clock=self._clock, waits=True) as store,
            renewal_thread(url, self._clock) as renewals,
        ):
            await wait_to_belong(store, state.id, self._claim(), self._clock)
            state.store = store
            # Not before: where a node cannot start, the reason is all that is said.
            if self._new_token:
                log.info("token made", extra={"node": state.id, "file": str(self._new_token)})
            if (user := self._commands.confinement.user) and self._settings.commands.user is None:
                log.info("commands that come over the API do not run as root", extra={"node": state.id, "user": user})
            events = EventLog(store, state.id, self._clock)
            state.journal.write_to(events)
            async with asyncio.TaskGroup() as parts:
                writing = [
                    parts.create_task(events.run(), name="events"),
                    parts.create_task(self._doorkeeper.follow(store), name="tokens"),
                    parts.create_task(
                        self._doorkeeper.follow_revoked(store, self._revoke), name="revoked certificates"
                    ),
                    parts.create_task(state.sessions.follow(store), name="sessions"),
                    parts.create_task(state.notes.write(store), name="audit notes"),
                ]
                own = self._folder.path / "logs"
                state.logs = open_logs(self._settings.jobs.logs, self._settings.node.store, store, own)
                old_logs = keep_logs(store, state.logs, self._settings.jobs, state.journal.tell)
                writing.append(parts.create_task(old_logs, name="old output"))
                if state.runtime is not None:
                    writing.append(parts.create_task(state.runtime.logs.keep(state.logs), name="logs"))
                try:
                    await self._doorkeeper.has_asked.wait()  # other nodes call as soon as they know of us
                    await in_session(
                        store,
                        self._identity(),
                        self._clock,
                        lambda session: self._in_session(store, session),
                        aside=renewals,
                    )
                finally:
                    state.store = state.logs = None
                    if state.runtime is not None:
                        state.runtime.lending.store = None
                    await state.watches.close()
                    for part in writing:
                        part.cancel()

    def _claim(self) -> Claim:
        return Claim(self._settings.node.fleet, self._app_name())

    def _app_name(self) -> str | None:
        return self._state.runtime.status().app if self._state.runtime else None

    def _identity(self) -> Identity:
        config, state = self._settings.node, self._state
        return Identity(
            node=state.id,
            home=self._folder.home,
            role=config.role,
            lease_ttl=config.lease_ttl,
            http=state.doors.get("http", ""),
            grpc=state.doors.get("grpc", ""),
            labels=config.labels,
            slots=config.slots,
            executors=state.runtime.executors if state.runtime else 0,
            version=__version__,
            insecure=config.insecure,
            claim=self._claim(),
            network=kernel.network_name(),
            token_mark=mark(self._token()),
            is_advertised_by_hand=config.advertise is not None,
            has_own_token=config.token is None,
        )

    async def _in_session(self, store: Store, session: Session) -> None:
        state, node = self._state, session.node
        state.session = session
        try:
            async with asyncio.TaskGroup() as parts:
                if runtime := state.runtime:
                    work = _Work(runtime, session.keeper)
                    parts.create_task(follow_assignments(store, node.id, work), name="assignments")
                    answers = answer_queries(
                        store, node.id, session.incarnation, runtime, self._clock, state.journal.tell
                    )
                    parts.create_task(answers, name="queries")
                    naming = keep_app_known(store, node.id, self._app_name, self._clock)
                    parts.create_task(naming, name="fleet")
                    parts.create_task(publish_kinds(store, session, runtime.kinds), name="kinds")
                    parts.create_task(publish_streams(store, session, runtime.streams), name="streams")
                    runtime.lending.store, runtime.lending.lease = store, session.keeper.lease
                    parts.create_task(runtime.saves.write(store, node.id), name="saves")
                    parts.create_task(publish_status(store, session, runtime.status), name="status")
                    if runtime.relay is not None:
                        parts.create_task(join_relays(store, session, runtime.relay, self._clock), name="relays")
                tls = tls_files(self._certificates)
                is_revoked = self._doorkeeper.is_revoked
                live_together(
                    parts, state, store, session, self._settings.peers, self._commands, self._token, tls, is_revoked
                )
                take_part(parts, state, store, session, self._file_jobs, self._settings.peers)
                if node.role.may_lead:
                    candidate = Candidate(
                        store, session.keeper, session.incarnation, node.id, node.session, self._clock, self._lead
                    )
                    parts.create_task(candidate.run(), name="candidate")
                else:
                    await asyncio.Event().wait()
        finally:
            state.session = state.peers = state.duties = state.jobs = None
            if state.runtime is not None:
                state.runtime.lending.lease = None
                state.runtime.end_session()

    async def _lead(self, term: Term) -> None:
        state, settings = self._state, self._settings
        state.term = term
        state.journal.tell("leader.elected", state.id, term=term.number)
        try:
            roster = await last_roster(term)  # before ours takes its place
            async with asyncio.TaskGroup() as duties:
                watch = supervise(
                    term,
                    state.session_id,
                    roster,
                    self._placing,
                    self._clock,
                    state.journal.tell,
                )
                duties.create_task(watch, name="supervisor")
                duties.create_task(query_sources(term, self._clock), name="sources")
                declared = keep_declared(term, state.declared, self._clock, state.journal.tell)
                duties.create_task(declared, name="declared")
                duties.create_task(keep_streams(term, self._clock, state.journal.tell), name="streams")
                duties.create_task(tell_waits(term, state.id, self._placing), name="waits")
                duties.create_task(keep_relay_map(term, state.journal.tell), name="relay map")
                duties.create_task(keep_roster(term, state.journal.tell), name="roster")
                duties.create_task(clear_away(term, self._settings.retention), name="retention")
                duties.create_task(keep_events(term, self._settings.events), name="events")
                duties.create_task(keep_audit(term, self._settings.retention.audit), name="audit")
                chores(duties, state, term, settings.jobs)
        finally:
            state.term = None


def _gate(held: token.Held) -> Gate:
    """Whoever has this node's own token may come in to everything, unless the store says otherwise."""
    return Gate((known(held(), Access.NODE),))


def _certificates(config: NodeConfig, node: NodeId) -> certificates.Folder | None:
    """The node's certificates, if it has any; Invalid if they are broken, or another node's."""
    if config.tls is None:
        return None
    folder = certificates.Folder(config.tls)
    folder.check()
    try:
        from rota.kit import authority  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise Invalid(f"tls needs {error.name}, which is not installed; pip install 'rota[tls]'") from None
    found = authority.read(folder.cert.read_bytes())
    if found.kind and (found.kind, found.name) != ("node", node):
        raise Invalid(
            f"tls {config.tls}: this certificate is of {found.kind} {found.name}, and this is node {node}; "
            f"make one with: rota tls issue {node} --host HOST, or start it with --id {found.name}"
        )
    return folder


def _relay_place(settings: Settings, folder: DataFolder, shown: token.Held) -> RelayPlace:
    """The relay's door, on the host of the node link, whether or not there will be a relay."""
    config = settings.node
    host = config.grpc.rpartition(":")[0]
    door = bind(f"{host}:{settings.relay.port}", "port in [relay]")
    port = split_address(address_of(door))[1]
    return RelayPlace(
        config=settings.relay,
        folder=folder.path / "relay",
        door=door,
        address=f"{config.advertised}:{port}",
        token=shown,
        tls=config.tls,
        log=settings.log,
    )


class _Work:
    """The runtime within one session: it runs what the session's assignments say; what needs the lease, only then."""

    def __init__(self, runtime: Runtime, keeper: Keeper) -> None:
        self._runtime, self._keeper = runtime, keeper
        self.runs, self.running, self.returned = runtime.runs, runtime.tasks.running, runtime.returned

    def want(self, orders: Iterable[Order]) -> None:
        keeper = self._keeper
        self._runtime.want(orders)
        keeper.tell(lambda: self._runtime.extend(keeper.safe_until, keeper.ttl))


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do `work` to its end, unless `event` comes first; whether it was done."""
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
