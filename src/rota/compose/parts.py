"""What a node is put together from: its settings, and the parts that live as long as it does."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rota.compose.doors import steering_verbs, tls_files
from rota.compose.jobs import FileJobs, ReadJobs
from rota.compose.runtime import Runtime
from rota.compose.state import NodeState
from rota.compose.steering import FleetSteering
from rota.compose.tallies import FleetTallies
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.http.listen import address_of, bind
from rota.doors.telemetry import Telemetry
from rota.fleet.access import certificates
from rota.fleet.access import tokens as token
from rota.fleet.core.access.gate import Access, Gate, known
from rota.kit.time.clock import Clock
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
from rota.model.errors import Denied, Invalid
from rota.model.ids import NodeId
from rota.placement.fleet.placing import Placing
from rota.placement.fleet.rules import load_rules
from rota.relay.node.hold import RelayPlace
from rota.resources.fleet.declared import Declarations, Read
from rota.runtime.loader.kept import KeptFile
from rota.runtime.loader.processes import LoadTarget
from rota.runtime.manager import Manager
from rota.runtime.printed import Printed
from rota.runtime.system import confine
from rota.runtime.system.data_folder import DataFolder
from rota.runtime.system.enclosure import Enclosure

LETTERS = "dead-letters"
PRINTED = "printed"


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
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
    """The service manager that the node reports to."""

    telemetry: Telemetry | None = None
    """What is sent to an OpenTelemetry collector; None: nothing."""

    sockets: int | None = None
    """Descriptor of a channel over which services borrow their sockets; None: they bind their own."""

    may_move: bool = False
    """May the doors open on other ports if theirs are taken? True for default ports."""

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


class NodeParts:
    """The parts of one node."""

    def __init__(self, settings: NodeSettings, folder: DataFolder, clock: Clock) -> None:
        self.settings, self.folder, self.clock = settings, folder, clock
        config = settings.node
        self.state = state = NodeState(folder.node_id(config.id), clock)
        self.new_token = token.make(folder.path) if config.token is None else None
        self.token = token.TokenHolder(token.find(config.token, folder.path))
        self.certificates = _certificates(config, state.id)
        self.doorkeeper = Doorkeeper(_gate(self.token), clock, note=state.notes.note, asks_first=True)
        state.tallies = FleetTallies(
            state.id, lambda: state.store, state.count_messages, self.token, tls_files(self.certificates)
        )
        state.steer = FleetSteering(
            state.id, lambda: state.store, steering_verbs(state), self.token, tls_files(self.certificates)
        )
        state.declared = Declarations(settings.resources)
        state.read_settings_again = self.read_settings_again
        self.placing = Placing(settings.supervisor, load_rules(settings.supervisor.rule_names))
        self.relay_place: RelayPlace | None = None
        self.file_jobs = FileJobs(state.id, settings.declared_jobs)
        limits = _confinement(settings)
        self.commands = confine.find_commands(settings.commands, limits)
        if config.app is not None and config.role.may_work:
            self._have_runtime(config.app, limits)

    def _have_runtime(self, app: str, limits: confine.Confinement) -> None:
        state, settings, folder = self.state, self.settings, self.folder
        letters = confine.own_folder(folder.path, LETTERS, limits)
        printed = confine.own_folder(folder.path, PRINTED, limits)
        state.printed = _printed(folder.path / PRINTED, is_ours=printed is None)
        target = LoadTarget(
            app,
            state.id,
            settings.log,
            confinement=limits,
            commands=self.commands,
            withheld=confine.withheld(settings.node.store, settings.relay.sink, settings.runtime, os.environ),
            letters=str(letters.absolute()) if letters else "",
            printed=str(printed.absolute()) if printed else "",
            home=folder.home,
            enclosure=Enclosure(limits),
            kept=KeptFile(folder.path),
        )
        self.relay_place = _relay_place(settings, folder, self.token)
        state.runtime = Runtime(
            target,
            settings.runtime,
            self.clock,
            state.journal.tell,
            folder.path / "stacks",
            relay=self.relay_place,
            jobs=settings.jobs,
            letters=str(folder.path / LETTERS),
            printed=str((folder.path / PRINTED).absolute()),
        )
        state.services = state.runtime.services
        if settings.sockets is not None:
            state.runtime.services.borrow_from(settings.sockets)

    def read_settings_again(self) -> None:
        """Load the settings' declarations again, and report which other settings have changed."""
        tell = self.state.journal.tell
        self.state.declared.read_again(tell)
        self.file_jobs.read_again(tell)
        try:
            if (again := self.settings.supervisor_again) is not None:
                self.placing.change(again())
            names = self.settings.changed()
        except (Invalid, Denied) as error:
            tell("config.failed", "settings", why=str(error))
        else:
            if names:
                tell("config.pending", ", ".join(names))

    def renew_token(self) -> None:
        """The file of the node's own token has changed; the token shown to other nodes is read at each call."""
        self.doorkeeper.renew(_gate(self.token))


def _confinement(settings: NodeSettings) -> confine.Confinement:
    """The confinement of the app; for a node without an app, a missing user is no error."""
    try:
        return confine.find(settings.runtime)
    except (Invalid, Denied):
        if settings.node.app is not None and settings.node.role.may_work:
            raise
        return confine.Confinement()


def _printed(folder: Path, *, is_ours: bool) -> Printed:
    """The lines that workers print, in a folder that is created if needed. It belongs to the node's user, unless the
    app has its own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if is_ours and folder.stat().st_uid != os.geteuid():  # an earlier life's folder belonged to its app's user
        with contextlib.suppress(PermissionError):
            os.chown(folder, os.geteuid(), -1)
    return Printed(folder)


def _gate(held: token.TokenHolder) -> Gate:
    """Decides which callers are let in: the node's own token opens everything, unless the store says otherwise."""
    return Gate((known(held(), Access.NODE),))


def _certificates(config: NodeConfig, node: NodeId) -> certificates.Folder | None:
    """The node's certificates, if it has any; Invalid if they are broken, or belong to another node."""
    if config.tls is None:
        return None
    folder = certificates.Folder(config.tls)
    folder.check()
    try:
        from rota.kit.crypto import authority  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise Invalid(f"tls needs {error.name}, which is not installed; pip install 'rota[tls]'") from None
    found = authority.read(folder.cert.read_bytes())
    if found.kind and (found.kind, found.name) != ("node", node):
        raise Invalid(
            f"tls {config.tls}: this certificate is of {found.kind} {found.name}, and this is node {node}; "
            f"make one with: rota tls issue {node} --host HOST, or start it with --id {found.name}"
        )
    return folder


def _relay_place(settings: NodeSettings, folder: DataFolder, shown: token.TokenHolder) -> RelayPlace:
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
