"""The stores the laws are tried on: how to open each, and what can be done to it.

`memory://` lives in one process; `sqlite://` has no server, but a lock that others can hold; the rest have a server
that can be killed, frozen and cut off. To add a store: a class here, a line in HARNESSES, and its server in
`servers.py`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest

from tests.kit.servers import Etcd, Server


class StoreHarness:
    """A place for one test's store, empty and its own."""

    name: ClassVar[str]
    is_shared: ClassVar[bool] = True
    """Whether several processes can open it."""
    server: ClassVar[type[Server] | None] = None
    """What it runs on, if it needs a server; `backend` is then what `obtain` calls it."""
    backend: ClassVar[str] = ""

    def __init__(self, directory: Path, server: Server | None) -> None:
        self.directory = directory
        self.running = server
        self.space = uuid4().hex

    def url(self, *, beside: str = "", port: int | None = None, **options: str) -> str:
        """The store's URL; `beside` names a neighbour, `port` goes through a proxy."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return self.address(self.space + beside, port) + (f"?{query}" if query else "")

    def address(self, space: str, port: int | None) -> str:
        """The URL of a space, without options."""
        raise NotImplementedError


class MemoryHarness(StoreHarness):
    """A universe of this process."""

    name = "memory"
    is_shared = False

    def address(self, space: str, port: int | None) -> str:
        return f"memory://{space}"


class SqliteHarness(StoreHarness):
    """A file of the test's directory."""

    name = "sqlite"

    def address(self, space: str, port: int | None) -> str:
        return f"sqlite:///{self.path(space)}"

    def path(self, space: str = "") -> Path:
        """The database file."""
        return self.directory / f"{space or self.space}.db"


class EtcdHarness(StoreHarness):
    """A namespace on a real etcd."""

    name = "etcd"
    server = Etcd
    backend = "etcd"

    def address(self, space: str, port: int | None) -> str:
        assert self.running is not None
        return f"etcd://127.0.0.1:{port or self.running.port}/{space}"


HARNESSES: tuple[type[StoreHarness], ...] = (MemoryHarness, SqliteHarness, EtcdHarness)


def params(harnesses: Iterable[type[StoreHarness]]) -> list[object]:
    """The harnesses as parameters of a fixture, each with its name and the backend it needs."""
    return [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.needs(kind.backend)] if kind.backend else [])
        for kind in harnesses
    ]
