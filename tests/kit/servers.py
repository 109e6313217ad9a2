"""Private, real servers on the loopback: no fixed port, no shared directory, no system service.

A server is a context manager; it is ready inside. Each can be killed and restarted, frozen and thawed, like any
`Process`. To add one: a class with its command line and `is_ready`. Databases sync at each commit as in production:
what they promise is on the disk, and a test that kills one may hold them to it.
"""

import os
import pwd
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives import serialization

from tests.kit import obtain
from tests.kit.leash import LEASH
from tests.kit.process import Process

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

CHANCE = random.SystemRandom()
"""Which nobody can seed: what is seeded in two processes would give both the same ports."""

_given: set[int] = set()

USER = PASSWORD = "test"
"""Who may do everything on a database server."""

GUARDED = "guarded"
"""Who may do everything on a PostgreSQL too, but not without the password."""

CONNECTIONS = 200
"""How many a database server takes."""

ZONE = "Europe/Berlin"
"""Where a database server stands: in a zone with summer time, so that whatever depends on the server's zone shows."""


ROW = 10
"""So many ports in a row are one worker's."""


def free_port() -> int:
    """A port nobody listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> range:
    """Ports in a row that nobody listens on, from below the range the kernel gives to outgoing connections.

    A port from inside that range may become some client's while the server is down, and the restart then fails. No
    port is given twice, and each worker of xdist has ports of its own, `ROW` in a row: whoever got one may take its
    time to listen, and whoever takes two in a row asks for two.
    """
    first_ephemeral = int(EPHEMERAL.read_text().split()[0])
    worker, workers = _worker()
    while True:
        row = CHANCE.randrange(10_000 // ROW + worker, first_ephemeral // ROW, workers) * ROW
        first = row + CHANCE.randrange(ROW - count + 1)
        ports = range(first, first + count)
        if _given.isdisjoint(ports) and all(map(_is_free, ports)):
            _given.update(ports)
            return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _worker() -> tuple[int, int]:
    """Which worker of xdist this is, and of how many; without xdist the only one."""
    name, count = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return int(name.removeprefix("gw")) % int(count), int(count)


def wait_until(condition: Callable[[], bool], what: str, *, within: float = 60.0) -> None:
    """Return once `condition` holds; TimeoutError, saying what was waited for, if it does not come true."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {within} s")
        time.sleep(0.02)


class Server(Process):
    """A process that listens on `port` and can tell whether it is ready."""

    def __init__(
        self, argv: Sequence[object], base: Path, name: str, port: int, environ: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(argv, base / f"{name}.out", environ=environ)
        self.name, self.port = name, port

    def start(self) -> None:
        """Start it and wait until it is ready."""
        super().start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Return once it answers; RuntimeError if it ended instead."""
        wait_until(lambda: self.is_ready() or self._has_failed(), f"{self.name} on port {self.port}")

    def is_ready(self) -> bool:
        """Whether it answers."""
        raise NotImplementedError

    def restart(self) -> None:
        """Kill it if it runs, and start it on the same data."""
        if self.is_running:
            self.kill()
        self.start()

    def recover(self) -> None:
        """Bring it back from whatever a test did to it."""
        if self.is_running:
            self.thaw()
            self.wait_ready()
        else:
            self.start()

    def _has_failed(self) -> bool:
        if self.is_running:
            return False
        raise RuntimeError(f"{self.name} ended: {self.complaint()}")


@dataclass(frozen=True)
class Tls:
    """The files of a server's certificate and of the authority behind it; clients may use the same pair."""

    authority: Path
    certificate: Path
    key: Path
    ask_clients: bool = False

    def context(self) -> ssl.SSLContext:
        """What a client needs to get in."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_tls(base: Path, *, ask_clients: bool = False) -> Tls:
    """A fresh authority and a certificate for the loopback."""
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1", "localhost")
    tls = Tls(base / "authority.pem", base / "certificate.pem", base / "key.pem", ask_clients)
    authority.cert_pem.write_to_path(tls.authority)
    pair.private_key_pem.write_to_path(tls.key)
    for part in pair.cert_chain_pems:
        part.write_to_path(tls.certificate, append=True)
    return tls


class Etcd(Server):
    """One member of an etcd cluster; alone unless told who the others are."""

    def __init__(
        self,
        base: Path,
        *,
        name: str = "etcd",
        peer_port: int | None = None,
        cluster: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        port = free_port()
        peer = f"http://127.0.0.1:{peer_port or free_port()}"
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self._tls = tls
        argv = [
            *("etcd", "--name", name, "--data-dir", base / name, "--logger", "zap", "--log-level", "warn"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", cluster or f"{name}={peer}"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
            *(_tls_flags(tls) if tls else ()),
        ]
        # etcd reads ETCD_* variables too, which would disturb the flags.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ETCD")}
        super().__init__(argv, base, name, port, environ)

    def is_ready(self) -> bool:
        """Whether it knows a leader; the port listens before that."""
        context = self._tls.context() if self._tls else None
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=2, context=context) as answer:
            return b'"true"' in answer.read()
        return False


def _tls_flags(tls: Tls) -> Iterator[object]:
    yield from ("--cert-file", tls.certificate, "--key-file", tls.key, "--trusted-ca-file", tls.authority)
    if tls.ask_clients:
        yield "--client-cert-auth"


@contextmanager
def etcd_cluster(base: Path, size: int, *, tls: Tls | None = None) -> Iterator[list[Etcd]]:
    """An etcd of `size` members, ready; stopped in the end."""
    ports = {f"m{number}": free_port() for number in range(size)}
    cluster = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in ports.items())
    members = [Etcd(base, name=name, peer_port=port, cluster=cluster, tls=tls) for name, port in ports.items()]
    with ExitStack() as stack:
        for member in members:  # none becomes ready before most have started
            Process.start(member)
            stack.callback(member.stop)
        for member in members:
            member.wait_ready()
        yield members


class Database(Server):
    """A server with a folder of data: made at its first start, removed in the end."""

    def __init__(
        self, argv: Sequence[object], base: Path, name: str, port: int, environ: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(argv, base, name, port, {**os.environ, "TZ": ZONE, **(environ or {})})
        self.data = base / "data"

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()  # whose data go needs no long goodbye
        shutil.rmtree(self.data, ignore_errors=True)

    def start(self) -> None:
        if not self.data.exists():
            self._make()
        super().start()

    def make_data(self) -> None:
        """Make the folder."""
        raise NotImplementedError

    def _make(self) -> None:
        for _ in range(2):
            with suppress(RuntimeError):  # MariaDB's tool has been seen to crash
                self.make_data()
                return
            shutil.rmtree(self.data, ignore_errors=True)
        self.make_data()


class Postgres(Database):
    """A PostgreSQL; `test` gets in without a password, `guarded` with one."""

    def __init__(self, base: Path) -> None:
        port = free_port()
        self._postgres = _program("postgresql")
        self._as_postgres = _as_user("postgres")
        network = ("listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=")
        settings = (*network, f"max_connections={CONNECTIONS}", "dynamic_shared_memory_type=mmap")  # no segments stay
        argv = [*self._as_postgres, self._postgres, "-D", base / "data", *(f"--{one}" for one in settings)]
        super().__init__(argv, base, "postgresql", port)

    def start(self) -> None:
        if self._as_postgres:
            _open_way(self.data)
        super().start()

    def make_data(self) -> None:
        self.data.mkdir(mode=0o700)
        if self._as_postgres:
            shutil.chown(self.data, "postgres", "postgres")
        initdb = [self._postgres.with_name("initdb"), "-D", self.data, "-U", USER, "--no-sync", "--no-instructions"]
        _run([*self._as_postgres, *initdb, "--auth", "trust", "--encoding", "UTF8", "--no-locale"])
        _run(
            [*self._as_postgres, self._postgres, "--single", "-D", self.data, "postgres"],
            f"create role {GUARDED} login superuser password '{PASSWORD}'\n",
        )
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"host all {GUARDED} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")

    def is_ready(self) -> bool:
        address = ["-h", "127.0.0.1", "-p", self.port, "-U", USER, "-d", "postgres"]
        return _answers([self._postgres.with_name("psql"), "-X", "-q", *address, "-c", "select 1"])

    def stop(self, *, within: float = 30.0) -> None:
        if self.is_running:
            self.thaw()
            os.kill(self.pid, signal.SIGINT)  # SIGTERM would wait for its clients to leave
            self._end(signal.SIGCONT, within=within)

    # Each of its processes leads a group of its own, so that one signal does not reach them all. The first is
    # stopped before the others are counted: it cannot start another meanwhile.

    def freeze(self) -> None:
        others = self._hold_still()
        for process in others:
            LEASH.hold(process.pid)
        wait_until(lambda: all(_state(process) in STILL for process in others), f"{self.name} to stand still")

    def thaw(self) -> None:
        for process in psutil.Process(self.pid).children():
            with suppress(psutil.NoSuchProcess):
                process.resume()
            LEASH.release(process.pid)
        super().thaw()

    def kill(self) -> None:
        others = self._hold_still()
        for process in others:
            with suppress(psutil.NoSuchProcess):
                process.kill()
            LEASH.release(process.pid)
        super().kill()
        wait_until(lambda: all(_state(process) in GONE for process in others), f"{self.name} to end")
        # By the time of the restart its number may be another's, and the restart would then refuse.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _hold_still(self) -> list[psutil.Process]:
        """Stop all; the processes beside the first, which may still be about to stop."""
        first = psutil.Process(self.pid)
        first.suspend()
        wait_until(lambda: _state(first) in STILL, f"{self.name} to stand still")
        others: list[psutil.Process] = first.children()
        for process in others:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        return others


class MariaDB(Database):
    """A MariaDB; `test` may do everything, with the password."""

    def __init__(self, base: Path, environ: Mapping[str, str] | None = None) -> None:
        port = free_port()
        self._users = base / "users.sql"
        # It minds no configuration of the machine, and runs as root only when told so.
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        self._common = ["--no-defaults", *as_root, f"--datadir={base / 'data'}", "--innodb-log-file-size=32M"]
        argv = [
            *(_program("mariadb"), *self._common, f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve"),
            *("--socket=socket", "--pid-file=pid", f"--init-file={self._users}"),  # relative: a socket's path is short
            *(f"--max-connections={CONNECTIONS}", "--innodb-buffer-pool-size=64M"),
        ]
        super().__init__(argv, base, "mariadb", port, environ)

    def make_data(self) -> None:
        _run(["mariadb-install-db", *self._common, "--auth-root-authentication-method=normal", "--skip-test-db"])
        self._users.write_text(
            f"create user if not exists '{USER}'@'%' identified by '{PASSWORD}';\n"
            f"grant all on *.* to '{USER}'@'%' with grant option;\n"
        )

    def is_ready(self) -> bool:
        return _answers(self._client("select 1"))

    def make_database(self, name: str) -> None:
        """A database, empty unless it was there before."""
        _run(self._client(f"create database if not exists `{name}`"))

    def _client(self, statement: str) -> list[object]:
        address = ["--protocol=tcp", "--host=127.0.0.1", f"--port={self.port}"]
        return ["mariadb", "--no-defaults", *address, f"--user={USER}", f"--password={PASSWORD}", "-e", statement]


class RabbitMQ(Server):
    """A RabbitMQ with a name server (epmd) and a cookie of its own; guest may do everything, with the password guest.

    It takes messages of a mebibyte at most. Amqps is on `tls_port`, with the certificate in `tls`.
    """

    MOST_BYTES = 1024 * 1024

    def __init__(self, base: Path) -> None:
        port, self.tls_port, epmd_port = free_port(), free_port(), free_port()
        self.node = f"rota{port}@localhost"
        self.tls = make_tls(base)
        self._ctl = _program("rabbitmq")
        settings = [
            *(f"listeners.tcp.1 = 127.0.0.1:{port}", f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}"),
            *(f"ssl_options.cacertfile = {self.tls.authority}", f"ssl_options.certfile = {self.tls.certificate}"),
            *(
                f"ssl_options.keyfile = {self.tls.key}",
                "loopback_users = none",
                f"max_message_size = {self.MOST_BYTES}",
            ),
            *("log.console = true", "log.console.level = warning", "log.file = false"),
            "disk_free_limit.absolute = 50MB",
        ]
        _write(base / "rabbitmq.conf", "\n".join(settings) + "\n")
        _write(base / "enabled_plugins", "[].\n")
        _write(base / "advanced.config", "[].\n")
        _write(base / ".erlang.cookie", base.name, mode=0o400)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ")} | {
            "HOME": str(base),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_MNESIA_BASE": str(base / "mnesia"),
            "RABBITMQ_LOG_BASE": str(base / "log"),
            "RABBITMQ_PID_FILE": str(base / "pid"),
            "RABBITMQ_CONFIG_FILE": str(base / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(base / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(base / "none"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        super().__init__([self._ctl.with_name("rabbitmq-server")], base, "rabbitmq", port, environ)
        # As a child of ours: Erlang would start one that outlives it.
        self._epmd = Process(["epmd", "-port", epmd_port, "-address", "127.0.0.1"], base / "epmd.out")
        self._epmd_port = epmd_port

    def start(self) -> None:
        if not self._epmd.is_running:
            self._epmd.start()
            wait_until(lambda: _listens(self._epmd_port), "epmd")
        super().start()

    def stop(self, *, within: float = 30.0) -> None:
        super().stop(within=within)

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()  # whose data go needs no long goodbye
        self._epmd.stop()

    def wait_ready(self) -> None:
        what = f"{self.name} on port {self.port}"
        wait_until(lambda: self.is_ready() or self._has_failed(), what, within=90)

    def is_ready(self) -> bool:
        return _listens(self.port)

    def ctl(self, *arguments: str) -> None:
        """Have the server do something that only an administrator may ask for."""
        argv = [self._ctl, "-q", "-n", self.node, *arguments]
        done = subprocess.run([*map(str, argv)], env=self._environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}")


class Redis(Server):
    """A Redis that keeps nothing on disk; only the bench has one."""

    def __init__(self, base: Path) -> None:
        port = free_port()
        program = obtain.FOR_BENCH["redis"].find()
        argv = [program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", base]
        super().__init__(argv, base, "redis", port)

    def is_ready(self) -> bool:
        return _listens(self.port)


class Kafka(Server):
    """A Kafka of one node, broker and controller in one. Nobody makes a topic by asking for it.

    On `hosts` everybody gets in. On `guarded_hosts` there is TLS, with the certificate in `tls`, and only `test` gets
    in, with the password.
    """

    CLUSTER = "rota-tests-cluster-id"

    def __init__(self, base: Path) -> None:
        port, guarded, controller = free_port(), free_port(), free_port()
        backend = obtain.BACKENDS["kafka"]
        assert isinstance(backend, obtain.JavaBackend)
        assert backend.find() is not None, obtain.missing("kafka")
        self.hosts, self.guarded_hosts = f"127.0.0.1:{port}", f"127.0.0.1:{guarded}"
        self.tls = make_tls(base)
        pair = base / "pair.pem"
        _write(pair, _pkcs8(self.tls.key) + self.tls.certificate.read_text(), mode=0o600)
        self._settings = base / "server.properties"
        self._data = base / "data"
        settings = [
            *("process.roles=broker,controller", "node.id=1", f"controller.quorum.voters=1@127.0.0.1:{controller}"),
            f"listeners=PLAINTEXT://{self.hosts},SASL_SSL://{self.guarded_hosts},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://{self.hosts},SASL_SSL://{self.guarded_hosts}",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            *("controller.listener.names=CONTROLLER", "sasl.enabled.mechanisms=PLAIN"),
            *("ssl.keystore.type=PEM", f"ssl.keystore.location={pair}"),
            "listener.name.sasl_ssl.plain.sasl.jaas.config="
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            *(f"log.dirs={self._data}", "auto.create.topics.enable=false", "group.initial.rebalance.delay.ms=0"),
            *("offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1"),
            *("transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1"),
            *("transaction.state.log.num.partitions=1", "log.cleaner.dedupe.buffer.size=4194304"),
            # A broker that was killed may not come back before the controller has given up the one of before.
            *("broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500"),
            # Records are kept unless a topic says otherwise; then they go, or are compacted, while a test waits.
            "log.retention.ms=-1",
            *("log.retention.check.interval.ms=500", "log.cleaner.backoff.ms=200", "log.segment.delete.delay.ms=0"),
            "log.initial.task.delay.ms=100",
        ]
        _write(self._settings, "\n".join(settings) + "\n")
        # Quick to start rather than quick for ever.
        quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        self._java: list[object] = ["java", *quick, level, "-cp", f"{backend.jars}/*"]
        super().__init__([*self._java, "kafka.Kafka", self._settings], base, "kafka", port)

    def start(self) -> None:
        if not self._data.exists():
            _run([*self._java, "kafka.tools.StorageTool", "format", "-t", self.CLUSTER, "-c", self._settings])
        super().start()

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()  # whose data go needs no long goodbye
        shutil.rmtree(self._data, ignore_errors=True)

    def wait_ready(self) -> None:
        wait_until(lambda: self.is_ready() or self._has_failed(), f"{self.name} on port {self.port}", within=90)

    def is_ready(self) -> bool:
        """Whether its broker takes requests; its port listens before that."""
        try:
            return bool(AdminClient({"bootstrap.servers": self.hosts, "log_level": 0}).list_topics(timeout=1).brokers)
        except KafkaException:
            return False


def _pkcs8(key: Path) -> str:
    """A private key as Java reads it."""
    private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private.private_bytes(*form).decode()


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.unlink(missing_ok=True)  # it may be from a start that failed, and not be ours to write
    path.write_text(text)
    path.chmod(mode)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


STILL = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
GONE = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


def _state(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)


def _program(backend: str) -> Path:
    found = obtain.BACKENDS[backend].find()
    assert found is not None, obtain.missing(backend)
    return Path(found).resolve()  # its companions lie beside the program, not beside a link to it


def _as_user(name: str) -> list[str]:
    """What to put before a command that refuses to be run by root, in a folder that `name` may enter."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(name)
    return ["env", "--chdir=/", "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _open_way(path: Path) -> None:
    """Let every user pass through the folders that lead to `path`; pytest makes its own so that only we can."""
    for folder in path.relative_to(tempfile.gettempdir()).parents:
        place = tempfile.gettempdir() / folder
        if not place.stat().st_mode & 0o001:
            place.chmod(place.stat().st_mode | 0o011)


def _answers(argv: Sequence[object]) -> bool:
    """Whether a client's command succeeds, soon."""
    try:
        return subprocess.run([*map(str, argv)], capture_output=True, timeout=15, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _run(argv: Sequence[object], text: str = "") -> None:
    done = subprocess.run([*map(str, argv)], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-2000:]}")
