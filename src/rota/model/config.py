"""Configuration: one frozen section per part, checked when it is made.

Each part is handed its own section, never the whole. A field is the one place where an option is declared: its name
makes the flag (`--lease-ttl`), the variable (`ROTA_LEASE_TTL`) and the key in `rota.toml` (`lease_ttl` in `[node]`),
its type says how it is written, and the text below it is the help and the reference. `cli.settings` reads all that.
Where a command asks in a way of its own (`APP`), the field's metadata name it.

Nothing here reads a file or the environment.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NewType, TypeAlias

from rota.model import url as urls
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.model.node import Role

# The second part of an Annotated type is the word that help and reference have for the value.
Url: TypeAlias = Annotated[str, "URL"]
Address: TypeAlias = Annotated[str, "HOST:PORT"]
Host: TypeAlias = Annotated[str, "HOST"]
UserName: TypeAlias = Annotated[str, "USER"]
AppName: TypeAlias = Annotated[str, "APP"]
Names: TypeAlias = Annotated[str, "NAME,…"]
Networks: TypeAlias = Annotated[str, "NETWORK,…"]

Size = NewType("Size", int)
"""An amount of memory, in bytes; written as 512MiB."""

TokenReference = NewType("TokenReference", str)
"""Where the token is: `file:PATH` or `env:NAME`, never the token itself."""

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLES = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")
_EVERYWHERE = frozenset({"0.0.0.0", "::"})
LOOPBACK = "127.0.0.1"


class Section:
    """What every section has: a table of `rota.toml`, and a beginning for the names of its flags and variables."""

    table: ClassVar[str]
    prefix: ClassVar[str] = ""

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Defaults that follow from the values that were given."""
        return {}


@dataclass(frozen=True, kw_only=True)
class NodeConfig(Section):
    """One node: its name, its places, and what it offers."""

    table: ClassVar[str] = "node"

    store: Url
    """The fleet's store: sqlite:///file.db, etcd://host:2379,…"""

    data: Path = field(metadata={"default": ".rota/nodes/ID, or .rota/node without an id"})
    """Folder for what this node keeps on its own disk; one node per folder."""

    id: NodeId | None = field(default=None, metadata={"default": "made from the host's name, and kept"})
    """Name of the node in the fleet."""

    fleet: str | None = field(default=None, metadata={"default": "the name of the app"})
    """Name of the fleet. A node does not join a store that holds another fleet."""

    role: Role = Role.BOTH
    """What the node does: supervise, work, or both."""

    lease_ttl: timedelta = timedelta(seconds=10)
    """How long the fleet waits for a silent node; 2 s to 1 h."""

    http: Address = "127.0.0.1:7700"
    """The address for HTTP; port 0 takes any free port."""

    grpc: Address = "127.0.0.1:7701"
    """The address for gRPC, also for the other nodes; port 0 takes any free port."""

    advertise: Host | None = field(default=None, metadata={"default": "the host of grpc, or of http"})
    """The host under which the other nodes reach this one."""

    token: TokenReference | None = field(default=None, metadata={"default": "the file token in data, made at first"})
    """The token that callers must show, by reference: file:PATH or env:NAME; the same for all nodes of a fleet."""

    tls: Path | None = None
    """Folder with cert.pem, key.pem and ca.pem: http, grpc and relay use TLS, and grpc requires client certificates."""

    insecure: bool = False
    """Allow other machines to reach http and grpc without TLS; tokens and all other data are then unencrypted."""

    trusted_proxies: Networks = ""
    """Addresses or networks of the proxies whose X-Forwarded-For and X-Forwarded-Proto are used."""

    labels: Mapping[str, str] = field(default_factory=dict, metadata={"flag": "--label"})
    """Labels of the node for placement, such as zone=a,disk=ssd."""

    slots: int = 100
    """How many resource tasks the node has room for."""

    app: AppName | None = field(default=None, metadata={"flag": "APP"})
    """The program whose work this node runs: a file (app.py) or a module (shop.work), with :name if it has several."""

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The data folder of a node with this name, or of the only one here."""
        name = given.get("id")
        return {"data": Path(".rota/nodes") / name if name else Path(".rota/node")}

    @property
    def advertised(self) -> str:
        """The host that the node advertises; loopback if the node listens everywhere and no host is set."""
        hosts = (self.advertise, split_address(self.grpc)[0], split_address(self.http)[0])
        return next((host for host in hosts if host and host not in _EVERYWHERE), LOOPBACK)

    @property
    def hosts(self) -> frozenset[str]:
        """The names and addresses under which callers know this node, loopback aside."""
        return frozenset({self.advertised.lower(), split_address(self.http)[0].lower()}) - _EVERYWHERE

    @property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of the proxies that are trusted; Invalid names the first that is no network."""
        return tuple(_network(each.strip()) for each in self.trusted_proxies.split(",") if each.strip())

    def __post_init__(self) -> None:
        self.proxies  # noqa: B018  # raises what is wrong with them
        if self.id is not None:
            check_node_id(self.id)
        if self.fleet is not None:
            check_name("fleet", self.fleet)
        if not timedelta(seconds=2) <= self.lease_ttl <= timedelta(hours=1):
            raise Invalid(f"lease_ttl is {self.lease_ttl}; it must be from 2 s to 1 h")
        _check_address("http", self.http)
        _check_address("grpc", self.grpc)
        if self.tls is None and not self.insecure:
            _check_private("http", self.http)
            _check_private("grpc", self.grpc)
        if self.token is not None:
            split_reference(self.token)
        check_labels(self.labels)
        _check_count("slots", self.slots, least=0)


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig(Section):
    """How a node runs the processes of its app."""

    table: ClassVar[str] = "runtime"

    drain: timedelta = timedelta(seconds=10)
    """How long work may go on once its worker or node is to stop."""

    reload_timeout: timedelta = timedelta(seconds=30)
    """How long a reload may take before the old generation stays."""

    load_timeout: timedelta = timedelta(minutes=10)
    """How long the app's import may take outside a reload: at the first start, or when its loader is started again."""

    start_timeout: timedelta = timedelta(seconds=30)
    """How long a new worker may take to register; if it imports the app itself, at least load_timeout."""

    stall_after: timedelta = timedelta(seconds=30)
    """How long a worker's event loop may be blocked before the worker is killed and replaced."""

    hosts: int = 1
    """How many host workers share the resource tasks that need no process of their own."""

    executors: int = field(default_factory=lambda: 4 * (os.cpu_count() or 1), metadata={"default": "4 for each core"})
    """How many job attempts run at a time."""

    recycle_age: timedelta | None = None
    """Replace a worker that is older than this."""

    recycle_count: int | None = None
    """Replace a worker that has done this many pieces of work."""

    recycle_memory: Size | None = None
    """Replace a worker that uses more memory than this."""

    canary: timedelta = timedelta(milliseconds=200)
    """How long the first worker of each pool of a new generation must run before the generation takes over."""

    grace: timedelta = timedelta(seconds=5)
    """From asking a worker to stop until it is killed."""

    user: UserName | None = None
    """The system user that the app runs as, if not the node's own; needs a node that is started as root."""

    max_memory: Size | None = None
    """How much memory each process of the app may use for its data."""

    max_files: int | None = None
    """How many files and connections each process of the app may have open."""

    max_cpu: timedelta | None = None
    """How much processor time an attempt with a process of its own may use before it is killed."""

    max_processes: int | None = None
    """How many processes and threads the app's user may have on this machine in all; needs user."""

    may_gain_privileges: bool = False
    """Allow programs that the app starts to gain rights that the app does not have, as sudo does."""

    env_deny: Names = ""
    """Variables that the app does not get, beside those with Rota's own secrets; * matches any text."""

    env_allow: Names = ""
    """Variables with a secret of the node that the app gets anyway, such as one that both use."""

    def __post_init__(self) -> None:
        for name in ("reload_timeout", "load_timeout", "start_timeout", "stall_after", "grace"):
            _check_positive(name, getattr(self, name))
        if self.recycle_age is not None:
            _check_positive("recycle_age", self.recycle_age)
        _check_count("hosts", self.hosts, least=1)
        _check_count("executors", self.executors, least=0)
        if self.recycle_count is not None:
            _check_count("recycle_count", self.recycle_count, least=1)
        if self.recycle_memory is not None:
            _check_count("recycle_memory", self.recycle_memory, least=1)
        if self.max_memory is not None:
            _check_count("max_memory", self.max_memory, least=16 * 2**20)
        if self.max_files is not None:
            _check_count("max_files", self.max_files, least=64)
        if self.max_cpu is not None:
            _check_positive("max_cpu", self.max_cpu)
        if self.max_processes is not None:
            _check_count("max_processes", self.max_processes, least=16)
            if self.user is None:
                raise Invalid(
                    "max_processes counts all that one user runs; set user in [runtime], too, or leave it out"
                )
        for name in ("env_deny", "env_allow"):
            _check_variables(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class CommandsConfig(Section):
    """How a node runs commands that came over the API: those of hooks, and of jobs that were added."""

    table: ClassVar[str] = "commands"
    prefix: ClassVar[str] = "commands_"

    user: UserName | None = None
    """The user for these commands on a node that runs as root; default: user of [runtime], or nobody."""

    env: Names = ""
    """Variables for these commands on a node that runs as root, beside PATH, TZ, LANG and LC_*; * matches any text."""

    def __post_init__(self) -> None:
        _check_variables("commands.env", self.env)


@dataclass(frozen=True, kw_only=True)
class RelayConfig(Section):
    """How a node's relay sends emitted messages to their sinks."""

    table: ClassVar[str] = "relay"
    prefix: ClassVar[str] = "relay_"

    sink: Url | None = None
    """The sink for resources whose kind declares none: amqp://…, kafka://…, file:///…"""

    port: int = 0
    """The port for the other nodes' relays, on the host of grpc; 0 takes any free port."""

    spool_bytes: Size = Size(2**30)
    """How much each sink's spool may take on disk; when it is full, emit waits."""

    window: int = 1000
    """How many messages to a sink, or to another relay, may be unconfirmed; as many may arrive twice after a break."""

    held_messages: int = 50_000
    """How many messages the relay keeps in memory for each sink and each other relay."""

    held_bytes: Size = Size(64 * 2**20)
    """How much memory the held messages may take."""

    outbox_messages: int = 10_000
    """How many messages a worker keeps until they are acked; when there are more, emit waits."""

    outbox_bytes: Size = Size(16 * 2**20)
    """How much memory the outbox may take."""

    flush: timedelta = timedelta(seconds=2)
    """How long a stopping worker waits until its last messages are acked."""

    def __post_init__(self) -> None:
        if self.sink is not None:
            urls.parse(self.sink, "relay.sink", "amqp://user@host/vhost?exchange=rota")
        if not 0 <= self.port <= 65535:
            raise Invalid(f"relay.port is {self.port}; ports are 0 to 65535")
        for name in ("spool_bytes", "window", "held_messages", "held_bytes", "outbox_messages", "outbox_bytes"):
            _check_count(f"relay.{name}", getattr(self, name), least=1)
        if self.flush < timedelta():
            raise Invalid(f"relay.flush is {self.flush}; it must not be below zero")


@dataclass(frozen=True, kw_only=True)
class JobsConfig(Section):
    """What a node keeps of the runs of jobs."""

    table: ClassVar[str] = "runs"
    prefix: ClassVar[str] = "runs_"

    keep: timedelta = timedelta(days=30)
    """Runs that were due longer ago are deleted, with their output."""

    per_job: int = 1000
    """How many finished runs of each job are kept; the oldest are deleted when there are a tenth more."""

    log_bytes: Size = Size(10 * 2**20)
    """How much of an attempt's output is kept: its start and its end, half each; samples of the rest add a quarter."""

    kept_bytes: Size = Size(4 * 2**30)
    """How much output of all runs together is kept; the oldest output is deleted first. Checked every minute."""

    logs: Url | None = field(default=None, metadata={"default": "the store if it is SQL, else a folder in data"})
    """Where output is kept: folder:///srv/rota, a folder that all nodes share."""

    def __post_init__(self) -> None:
        _check_positive("runs.keep", self.keep)
        _check_count("runs.per_job", self.per_job, least=1)
        _check_count("runs.log_bytes", self.log_bytes, least=1024)
        _check_count("runs.kept_bytes", self.kept_bytes, least=1024)


@dataclass(frozen=True, kw_only=True)
class SupervisorConfig(Section):
    """How the leader places work. The settings of the leading node apply."""

    table: ClassVar[str] = "supervisor"
    prefix: ClassVar[str] = "supervisor_"

    policy: Literal["weighted", "least-loaded", "most-free", "round-robin", "random"] = "weighted"
    """How tasks are distributed among the nodes."""

    avoid_for: timedelta = timedelta(minutes=5)
    """How long a resource is not placed on a node that could not keep it running, if another node can take it."""

    warm_up: timedelta = timedelta(seconds=30)
    """After the whole fleet was down: how long the leader waits for the former nodes before it places work."""

    settle: timedelta = timedelta(seconds=2)
    """In a new fleet: the leader places work when no node has joined for this long, so that no node gets everything."""

    rules: Names = ""
    """Placement rules to use, by the names that their packages give them."""

    rebalance: int = 120
    """How many tasks a minute are moved to balance the nodes; 0: none."""

    tolerance: int = 10
    """By how many percent a node may have more or less than its share before tasks are moved."""

    ramp: int = 50
    """How many slots a second a node gets at most for tasks that move to it."""

    pending_after: timedelta = timedelta(minutes=5)
    """How long a resource lacks tasks before the event `resource.waits`; 0s: no such events."""

    run_after: timedelta = timedelta(minutes=10)
    """How long a run that is due gets no node before the event `run.waits`; 0s: no such events."""

    lag_limit: int = 0
    """How many records the output of a stream may be behind its source before it counts as lagging; 0: any number."""

    lag_after: timedelta = timedelta(minutes=5)
    """How long a stream lags before the event `stream.lags`; 0s: no such events."""

    @property
    def rule_names(self) -> list[str]:
        """The names, one by one."""
        return [name.strip() for name in self.rules.split(",") if name.strip()]

    def __post_init__(self) -> None:
        _check_count("supervisor.rebalance", self.rebalance, least=0)
        _check_count("supervisor.tolerance", self.tolerance, least=0)
        _check_count("supervisor.ramp", self.ramp, least=1)
        _check_count("supervisor.lag_limit", self.lag_limit, least=0)


@dataclass(frozen=True, kw_only=True)
class PeersConfig(Section):
    """How nodes check each other. All nodes of a fleet should have the same."""

    table: ClassVar[str] = "peers"
    prefix: ClassVar[str] = "peers_"

    check_every: timedelta = timedelta(seconds=10)
    """How often a node checks whether the others answer; three failures make one offline."""

    beat: timedelta = timedelta(minutes=1)
    """How often one of the nodes does the chores of the whole fleet."""

    ramp: int = 5
    """Beats after which a node that was offline gets its full share of work again; 0: at once."""

    def __post_init__(self) -> None:
        for name in ("check_every", "beat"):
            if not timedelta(milliseconds=100) <= getattr(self, name) <= timedelta(hours=1):
                raise Invalid(f"peers.{name} is {getattr(self, name)}; it must be from 100 ms to 1 h")
        _check_count("peers.ramp", self.ramp, least=0)


@dataclass(frozen=True, kw_only=True)
class LogConfig(Section):
    """What a node logs to stderr."""

    table: ClassVar[str] = "log"
    prefix: ClassVar[str] = "log_"

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe lines to show."""

    format: Literal["text", "json"] = "text"
    """Lines for people, or one JSON object per line for programs."""


@dataclass(frozen=True, kw_only=True)
class EventsConfig(Section):
    """How many events the store keeps. The settings of the leading node apply."""

    table: ClassVar[str] = "events"
    prefix: ClassVar[str] = "events_"

    keep: timedelta = timedelta(days=7)
    """Events older than this are deleted."""

    entries: int = 100_000
    """At most this many events are kept; the oldest are deleted first."""

    every: timedelta = timedelta(minutes=1)
    """How often events are deleted."""

    def __post_init__(self) -> None:
        _check_positive("events.keep", self.keep)
        _check_count("events.entries", self.entries, least=1)
        _check_positive("events.every", self.every)


@dataclass(frozen=True, kw_only=True)
class RetentionConfig(Section):
    """How much history the store keeps for watchers that fell behind. The settings of the leading node apply."""

    table: ClassVar[str] = "retention"
    prefix: ClassVar[str] = "retention_"

    keep: timedelta = timedelta(minutes=10)
    """Changes older than this are deleted."""

    every: timedelta = timedelta(minutes=1)
    """How often changes are deleted."""

    audit: timedelta = timedelta(days=365)
    """Entries of the audit trail older than this are deleted."""

    def __post_init__(self) -> None:
        _check_positive("retention.keep", self.keep)
        _check_positive("retention.audit", self.audit)
        _check_positive("retention.every", self.every)


SECTIONS: tuple[type[Section], ...] = (
    NodeConfig,
    RuntimeConfig,
    CommandsConfig,
    RelayConfig,
    JobsConfig,
    SupervisorConfig,
    PeersConfig,
    LogConfig,
    EventsConfig,
    RetentionConfig,
)
"""Every section there is, as `rota.toml` and `rota config view` have them."""


def check_node_id(node: str) -> None:
    """Invalid unless `node` can be a node's name."""
    check_name("node id", node)


def check_name(what: str, name: str) -> None:
    """Invalid unless `name` can be the name of a node or a fleet."""
    if not _NODE_ID.fullmatch(name):
        raise Invalid(
            f'{what} "{name}": use letters, digits, ".", "_" and "-", at most 63, beginning with a letter or digit'
        )


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise Invalid(
            f'trusted_proxies: "{text}" is no address or network ({error}); write 10.0.0.5 or 10.1.0.0/16'
        ) from None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:7700`, `[::1]:7700` or `:7700`, which is loopback; Invalid says how to write one."""
    host, colon, port = address.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and not is_bracketed):
        raise Invalid(f'"{address}" is not an address; write host:port, such as 127.0.0.1:7700 or [::1]:7700')
    return (host[1:-1] if is_bracketed else host) or LOOPBACK, int(port)


def is_loopback(host: str) -> bool:
    """Is this name or address the loopback?"""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def split_reference(reference: str) -> tuple[Literal["file", "env"], str]:
    """The place that a reference to a token names; Invalid says how to write one, and never repeats the input."""
    kind, _, name = reference.partition(":")
    if kind == "file" and name:
        return "file", name
    if kind == "env" and _VARIABLE.fullmatch(name):
        return "env", name
    raise Invalid("token is a reference, never the token itself; write file:PATH or env:NAME, where the token is")


def _check_private(name: str, address: str) -> None:
    """Invalid if tokens would pass unencrypted between machines."""
    host, port = split_address(address)
    if not is_loopback(host):
        raise Invalid(
            f"{name} is {address}, where other machines reach it, and without TLS tokens would pass in the "
            f"clear; run: rota tls init; then: rota tls issue NODE --host HOST; and start with --tls tls/NODE. Or use "
            f"127.0.0.1:{port} with a tunnel, or say --insecure if you trust everybody on that network"
        )


def _check_address(name: str, address: str) -> None:
    try:
        split_address(address)
    except Invalid as error:
        raise Invalid(f"{name}: {error}") from None


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises Invalid naming the first label that a node cannot have."""
    for name, value in labels.items():
        if not _LABEL.fullmatch(name):
            raise Invalid(f'labels: "{name}" cannot be a label; use letters, digits, ".", "_", "-" and "/", at most 63')
        if not value.isprintable() or len(value) > 255:
            raise Invalid(f"labels: the value of {name} must be printable, and at most 255 characters long")


def names_in(text: str) -> tuple[str, ...]:
    """The names of a list that is written with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_variables(name: str, text: str) -> None:
    for variable in names_in(text):
        if not _VARIABLES.fullmatch(variable):
            raise Invalid(
                f'{name}: "{variable}" is no name of a variable; write names like DB_PASSWORD or *_KEY, with commas'
            )


def _check_positive(name: str, duration: timedelta) -> None:
    if duration <= timedelta():
        raise Invalid(f"{name} is {duration}; it must be above zero")


def _check_count(name: str, count: int, *, least: int) -> None:
    if count < least:
        raise Invalid(f"{name} is {count}; it must be at least {least}")
