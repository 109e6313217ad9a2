"""Private, real servers on the loopback: no fixed port, no shared directory, no system service.

A server is a context manager; it is ready inside. Each can be killed and restarted, frozen and thawed, like any
`Process`. To add one: a class with its command line, its `url` and `is_ready`.
"""

import os
import random
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.kit.process import Process

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port nobody listens on, from below the range the kernel gives to outgoing connections.

    A port from inside that range may become some client's while the server is down, and the restart then fails.
    """
    first_ephemeral = int(EPHEMERAL.read_text().split()[0])
    while True:
        port = random.randrange(10_000, first_ephemeral)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition: Callable[[], bool], what: str, *, within: float = 30.0) -> None:
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
