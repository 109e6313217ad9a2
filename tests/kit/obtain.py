"""Obtain the servers the tests need: `python -m tests.kit.obtain`.

What is on PATH is used as it is. What is not is installed from Debian's packages when we are root and there is an
apt-get; nothing that a package brings is left running. Kafka comes as Java archives (`jars.py`), which are kept for the
runs to come. One line per backend says what came of it.

On a laptop a backend that cannot be had is no error: its tests are skipped, by name. With CI=true it is one.

To add a backend: a line in BACKENDS, a server in `servers.py`, a harness in `harness.py`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

import click

from tests.kit import jars

POLICY = Path("/usr/sbin/policy-rc.d")
"""Debian asks this script whether a package may start its service; 101 means no."""


@dataclass(frozen=True)
class Backend:
    """A server program, and the packages that bring it."""

    program: str
    packages: tuple[str, ...]
    version: tuple[str, ...] = ("--version",)
    """How to ask for its version; not at all: the path that it is a link to has it."""
    directories: str = ""
    """A glob of directories where Debian puts the program; PATH may lead to a wrapper around it."""

    def find(self) -> str | None:
        """The program's path, or None."""
        places = [*sorted(glob(self.directories), reverse=True), os.environ.get("PATH", os.defpath)]
        return shutil.which(self.program, path=os.pathsep.join(places))

    def install(self) -> None:
        """Have it here; ObtainError says why not."""
        install(self.packages)


@dataclass(frozen=True)
class JavaBackend(Backend):
    """A server in Java archives: `program` runs them."""

    archives: Mapping[str, str] = field(default_factory=dict)
    """Maven coordinates and the SHA-256 of each; the last one is the server's own, and its version counts."""
    version: tuple[str, ...] = ()

    @property
    def jars(self) -> Path:
        """The folder of the archives."""
        return jars.folder(self.main)

    @property
    def main(self) -> str:
        """The coordinates of the server itself."""
        return list(self.archives)[-1]

    def find(self) -> str | None:
        """The path of the server's own archive, or None if it, another one or Java is missing."""
        is_here = super().find() and all((self.jars / jars.file_name(each)).exists() for each in self.archives)
        return str(self.jars / jars.file_name(self.main)) if is_here else None

    def install(self) -> None:
        if not (shutil.which(self.program) and shutil.which("mvn")):
            install(self.packages)
        try:
            jars.fetch(self.archives, self.jars)
        except jars.JarsError as error:
            raise ObtainError(str(error)) from error


class Namespaces(Backend):
    """Network namespaces, which only root can make."""

    def find(self) -> str | None:
        """The path of `ip`, or None if it is missing or we are not root."""
        return super().find() if os.geteuid() == 0 else None


BACKENDS: Mapping[str, Backend] = {
    "etcd": Backend("etcd", ("etcd-server",)),
    "postgresql": Backend("postgres", ("postgresql",), directories="/usr/lib/postgresql/*/bin"),
    "mariadb": Backend("mariadbd", ("mariadb-server",), directories="/usr/sbin"),
    # The server lies beside it. Neither is asked for its version: Erlang would leave a name server running.
    "rabbitmq": Backend("rabbitmqctl", ("rabbitmq-server",), (), "/usr/lib/rabbitmq/bin"),
    "chromium": Backend("chromium", ("chromium",)),
    "systemd": Backend("systemd-analyze", ("systemd",)),
    "namespaces": Namespaces("ip", ("iproute2",), ("-V",), "/usr/sbin"),
    "kafka": JavaBackend("java", ("openjdk-17-jre-headless", "maven"), archives=jars.KAFKA),
}

FOR_BENCH: Mapping[str, Backend] = {"redis": Backend("redis-server", ("redis-server",))}
"""What only peers in the bench need; no test asks for it."""


class ObtainError(Exception):
    """A backend cannot be had; the message says why."""


def missing(name: str) -> str | None:
    """Why a backend cannot be used right now, or None if it can."""
    backend = BACKENDS[name]
    if backend.find():
        return None
    lacking = "archives" if isinstance(backend, JavaBackend) else f"{backend.program} on PATH"
    return f"no {lacking}; run python -m tests.kit.obtain"


def obtain(backend: Backend) -> str:
    """The version of a backend that is there now; ObtainError otherwise."""
    if backend.find() is None:
        backend.install()
    found = backend.find()
    if found is None:
        raise ObtainError(f"{', '.join(backend.packages)} brought no {backend.program}")
    number = re.search(r"\d+(\.\d+)+", _tell_version(found, backend))
    return number[0] if number else "of unknown version"


def _tell_version(program: str, backend: Backend) -> str:
    if not backend.version:
        return str(Path(program).resolve())
    told = subprocess.run([program, *backend.version], capture_output=True, text=True, check=False)
    return told.stdout + told.stderr


def install(packages: tuple[str, ...]) -> None:
    """Install Debian packages without starting what they bring; ObtainError says why not."""
    if shutil.which("apt-get") is None:
        raise ObtainError(f"no apt-get here; install what Debian calls {', '.join(packages)}")
    if os.geteuid() != 0:
        raise ObtainError(f"not root; run apt-get install {' '.join(packages)}")
    with services_stay_down():
        _apt("update")  # may fail for one source of many: whether it mattered shows below
        if complaint := _apt("install", "-y", "--no-install-recommends", *packages):
            raise ObtainError(complaint)


@contextmanager
def services_stay_down() -> Iterator[None]:
    """Packages installed inside start nothing; a policy that is already there is left alone."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _apt(*arguments: str) -> str | None:
    """None when apt-get was content, else its last complaint."""
    done = subprocess.run(
        ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    complaints = done.stderr.strip().splitlines() or [f"apt-get ended with {done.returncode}"]
    return complaints[-1]


def main() -> int:
    """Obtain every backend; 1 if one is missing where none may be."""
    lost = []
    for name, backend in BACKENDS.items():
        try:
            click.echo(f"{name}: {obtain(backend)}")
        except ObtainError as why:
            click.echo(f"{name}: cannot be had: {why}")
            lost.append(name)
    if lost and os.environ.get("CI") == "true":
        click.echo(f"obtain: CI tests every backend, and these are missing: {', '.join(lost)}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
